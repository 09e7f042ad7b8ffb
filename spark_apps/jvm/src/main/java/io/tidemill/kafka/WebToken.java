package io.tidemill.kafka;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.Base64;
import java.util.Set;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;

/** A JSON web token with the facts that Kafka needs. The broker verifies it; this class does not. */
final class WebToken implements OAuthBearerToken {

  private final String value;
  private final long expires;
  private final String principal;

  /**
   * Reads the claims.
   *
   * @throws IOException if it is not such a token; the message never quotes it
   */
  WebToken(String value) throws IOException {
    JsonNode claims = claims(value);
    if (!claims.path("exp").isNumber()) {
      throw new IOException("A token does not say when it expires.");
    }
    this.value = value;
    this.expires = (long) (claims.path("exp").doubleValue() * 1000);
    this.principal = claims.path("sub").asText("");
  }

  private static JsonNode claims(String token) throws IOException {
    String[] parts = token.split("\\.", -1);
    try {
      if (parts.length == 3) {
        return new ObjectMapper().readTree(Base64.getUrlDecoder().decode(parts[1]));
      }
    } catch (IOException | IllegalArgumentException e) {
      // Without its cause, which may quote the token.
      throw new IOException("A token is no JSON web token.");
    }
    throw new IOException("A token is no JSON web token.");
  }

  @Override
  public String value() {
    return value;
  }

  @Override
  public Set<String> scope() {
    return Set.of();
  }

  @Override
  public long lifetimeMs() {
    return expires;
  }

  @Override
  public String principalName() {
    return principal;
  }

  /** Unknown, so Kafka renews after a share of the remaining time, at any age of the token. */
  @Override
  public Long startTimeMs() {
    return null;
  }
}
