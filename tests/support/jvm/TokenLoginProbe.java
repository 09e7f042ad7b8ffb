import io.tidemill.kafka.FreshTokenLogin;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Scanner;
import javax.security.auth.callback.Callback;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerTokenCallback;

/**
 * Asks one login for a token at each line of standard input, and prints subject, end and token, or the error with its
 * causes. Arguments: the options of the JAAS line, as name=value.
 */
public class TokenLoginProbe {
  public static void main(String[] arguments) {
    Map<String, String> options = new HashMap<>();
    for (String argument : arguments) {
      options.put(argument.substring(0, argument.indexOf('=')), argument.substring(argument.indexOf('=') + 1));
    }
    FreshTokenLogin login = new FreshTokenLogin();
    AppConfigurationEntry.LoginModuleControlFlag required =
        AppConfigurationEntry.LoginModuleControlFlag.REQUIRED;
    login.configure(Map.of(), "OAUTHBEARER", List.of(new AppConfigurationEntry("module", required, options)));
    Scanner input = new Scanner(System.in);
    while (input.hasNextLine()) {
      input.nextLine();
      System.out.println(answer(login));
    }
  }

  static String answer(FreshTokenLogin login) {
    OAuthBearerTokenCallback callback = new OAuthBearerTokenCallback();
    try {
      login.handle(new Callback[] {callback});
    } catch (Exception e) {
      StringBuilder causes = new StringBuilder("error");
      for (Throwable cause = e; cause != null; cause = cause.getCause()) {
        causes.append(" ").append(cause);
      }
      return causes.toString().replace("\n", " ");
    }
    OAuthBearerToken token = callback.token();
    return token.principalName() + " " + token.lifetimeMs() + " " + token.value();
  }
}
