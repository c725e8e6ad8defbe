package dev.headwater.kafka;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.UnsupportedCallbackException;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.auth.SaslExtensions;
import org.apache.kafka.common.security.auth.SaslExtensionsCallback;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerTokenCallback;

/**
 * Gets tokens from the setting `kafka.token_provider`: runs the function in a Python process, on
 * the machine of the client. Kafka's login calls it again before a token expires.
 */
public final class TokenProviderLogin implements AuthenticateCallbackHandler {
  private static final long TIMEOUT_SECONDS = 60;
  private static final int MAX_BYTES = 1_000_000;

  private String python;
  private String provider;
  // Of the last token: the login asks for them separately.
  private Map<String, String> extensions = Map.of();

  @Override
  public void configure(
      Map<String, ?> properties, String mechanism, List<AppConfigurationEntry> entries) {
    Map<String, ?> options = entries.get(0).getOptions();
    python = (String) options.get("python");
    provider = (String) options.get("provider");
  }

  @Override
  public void handle(Callback[] callbacks) throws IOException, UnsupportedCallbackException {
    for (Callback callback : callbacks) {
      if (callback instanceof OAuthBearerTokenCallback wanted) {
        try {
          wanted.token(token());
        } catch (IOException failed) {
          // The login would replace the message of an exception.
          wanted.error("token_provider", failed.getMessage(), null);
        }
      } else if (callback instanceof SaslExtensionsCallback wanted) {
        wanted.extensions(new SaslExtensions(extensions));
      } else {
        throw new UnsupportedCallbackException(callback);
      }
    }
  }

  @Override
  public void close() {}

  private ProviderToken token() throws IOException {
    JsonNode answer = new ObjectMapper().readTree(run());
    if (!answer.hasNonNull("token")) {
      String why = answer.path("error").asText("no token");
      throw new IOException("kafka.token_provider " + provider + " failed: " + why);
    }
    Map<String, String> given = new HashMap<>();
    answer
        .path("extensions")
        .properties()
        .forEach(e -> given.put(e.getKey(), e.getValue().asText()));
    extensions = given;
    String principal = answer.path("principal").asText("");
    return new ProviderToken(
        answer.get("token").asText(),
        answer.get("expiresAt").asLong(),
        principal.isEmpty() ? "unknown" : principal);
  }

  private byte[] run() throws IOException {
    Process process =
        new ProcessBuilder(python, "-m", "headwater.settings.tokens", provider)
            .redirectError(ProcessBuilder.Redirect.DISCARD)
            .start();
    try {
      process.getOutputStream().close();
      // Ends the read below, too.
      process
          .onExit()
          .orTimeout(TIMEOUT_SECONDS, TimeUnit.SECONDS)
          .exceptionally(late -> kill(process));
      byte[] output = process.getInputStream().readNBytes(MAX_BYTES);
      if (output.length == 0) {
        throw new IOException("kafka.token_provider: " + python + " printed no token");
      }
      return output;
    } finally {
      process.destroyForcibly();
    }
  }

  private static Process kill(Process process) {
    return process.destroyForcibly();
  }
}
