package io.tidemill.kafka;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Collectors;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.UnsupportedCallbackException;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerTokenCallback;

/**
 * A Kafka login with a new token each time that Kafka asks for one.
 *
 * <p>Kafka's own handler reads a file once for the life of a login, so a stream would end with its
 * first token. It also logs the answers of a token endpoint. Options of the JAAS line:
 *
 * <ul>
 *   <li>{@code tokenFile}: a file with the token itself; or
 *   <li>{@code clientId}, {@code scope}, {@code tokenEndpoint}, and as proof {@code clientSecret} or
 *       {@code assertionFile}, a file that Kubernetes renews.
 * </ul>
 *
 * <p>An expired token is an error here, so that Kafka tries again after ten seconds. After a
 * successful login with such a token, Kafka would never ask again. No message quotes a token, a
 * proof or an answer of the endpoint.
 */
public class FreshTokenLogin implements AuthenticateCallbackHandler {

  /** Maximum wait for the endpoint; Kafka's network thread waits at the first login. */
  private static final Duration PATIENCE = Duration.ofSeconds(10);

  /** Maximum number of requests, because a failed first login fails a task, and a retry is cheap. */
  private static final int ATTEMPTS = 3;

  private static final long PAUSE_MILLISECONDS = 1000;

  private static final String ASSERTION_TYPE =
      "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

  private Map<String, ?> options = Map.of();

  /** Called by Kafka through reflection. */
  public FreshTokenLogin() {}

  @Override
  public void configure(
      Map<String, ?> configs, String mechanism, List<AppConfigurationEntry> jaasEntries) {
    options = jaasEntries.get(0).getOptions();
  }

  @Override
  public void handle(Callback[] callbacks) throws IOException, UnsupportedCallbackException {
    for (Callback callback : callbacks) {
      if (!(callback instanceof OAuthBearerTokenCallback)) {
        throw new UnsupportedCallbackException(callback);
      }
      ((OAuthBearerTokenCallback) callback).token(freshToken());
    }
  }

  @Override
  public void close() {}

  private WebToken freshToken() throws IOException {
    WebToken token = new WebToken(options.containsKey("tokenFile") ? read("tokenFile") : exchange());
    if (token.lifetimeMs() <= System.currentTimeMillis()) {
      throw new IOException("The token has expired, by this machine's clock.");
    }
    return token;
  }

  private String read(String option) throws IOException {
    String content = Files.readString(Path.of(option(option))).strip();
    if (content.isEmpty()) {
      throw new IOException("The token file is empty: " + option(option));
    }
    return content;
  }

  private String exchange() throws IOException {
    Map<String, String> form = new LinkedHashMap<>();
    form.put("grant_type", "client_credentials");
    form.put("client_id", option("clientId"));
    form.put("scope", option("scope"));
    if (options.containsKey("clientSecret")) {
      form.put("client_secret", option("clientSecret"));
    } else {
      form.put("client_assertion_type", ASSERTION_TYPE);
      form.put("client_assertion", read("assertionFile"));
    }
    HttpRequest request =
        HttpRequest.newBuilder(URI.create(option("tokenEndpoint")))
            .header("Content-Type", "application/x-www-form-urlencoded")
            .header("Accept", "application/json")
            .POST(HttpRequest.BodyPublishers.ofString(encoded(form)))
            .build();
    return tokenOf(answer(request));
  }

  private static String tokenOf(HttpResponse<String> response) throws IOException {
    if (response.statusCode() != 200) {
      throw new IOException("The token endpoint answers with HTTP " + response.statusCode() + ".");
    }
    try {
      JsonNode token = new ObjectMapper().readTree(response.body()).path("access_token");
      if (token.isTextual()) {
        return token.textValue();
      }
    } catch (JsonProcessingException e) {
      // Without its cause, which may quote the answer.
      throw new IOException("The token endpoint's answer holds no token.");
    }
    throw new IOException("The token endpoint's answer holds no token.");
  }

  /** Returns the endpoint's answer, and retries if the endpoint is busy or cannot be reached. */
  private static HttpResponse<String> answer(HttpRequest request) throws IOException {
    HttpClient client = HttpClient.newBuilder().connectTimeout(PATIENCE).build();
    try {
      for (int attempt = 1; ; attempt++) {
        boolean last = attempt == ATTEMPTS;
        try {
          HttpResponse<String> response = wholeAnswer(client, request);
          if (last || (response.statusCode() != 429 && response.statusCode() < 500)) {
            return response;
          }
        } catch (IOException e) {
          if (last) {
            throw e;
          }
        }
        Thread.sleep(PAUSE_MILLISECONDS);
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IOException("Interrupted while the token endpoint was asked.", e);
    }
  }

  /** Returns the answer with its body, because a request's own timeout covers only the headers. */
  private static HttpResponse<String> wholeAnswer(HttpClient client, HttpRequest request)
      throws IOException, InterruptedException {
    CompletableFuture<HttpResponse<String>> answer =
        client.sendAsync(request, HttpResponse.BodyHandlers.ofString());
    try {
      return answer.get(PATIENCE.toMillis(), TimeUnit.MILLISECONDS);
    } catch (TimeoutException e) {
      answer.cancel(true);
      throw new IOException("The token endpoint does not answer in time.");
    } catch (ExecutionException e) {
      // Without its message, which may quote the answer.
      String reason = e.getCause().getClass().getSimpleName();
      throw new IOException("The token endpoint cannot be asked: " + reason + ".");
    }
  }

  private static String encoded(Map<String, String> form) {
    return form.entrySet().stream()
        .map(field -> field.getKey() + "=" + URLEncoder.encode(field.getValue(), StandardCharsets.UTF_8))
        .collect(Collectors.joining("&"));
  }

  private String option(String name) {
    return String.valueOf(options.get(name));
  }
}
