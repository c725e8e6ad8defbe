package dev.headwater.kafka;

import java.util.Set;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;

/** A token of the user's function. */
record ProviderToken(String value, long lifetimeMs, String principalName)
    implements OAuthBearerToken {
  @Override
  public Set<String> scope() {
    return Set.of();
  }

  @Override
  public Long startTimeMs() {
    return null;
  }

  /** Without the token itself, which is a secret. */
  @Override
  public String toString() {
    return "token of " + principalName + " until " + lifetimeMs;
  }
}
