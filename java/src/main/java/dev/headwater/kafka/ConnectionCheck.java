package dev.headwater.kafka;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.common.KafkaException;

/** Connects to Kafka as Spark's clients do, and returns why that fails. */
public final class ConnectionCheck {
  // The client's own timeout has a message.
  private static final int CLIENT_MILLIS = 5_000;

  private ConnectionCheck() {}

  /** Returns an empty text, or the exceptions in one line, outermost first. */
  public static String check(Map<String, String> client, int millis) {
    Map<String, Object> properties = new HashMap<>(client);
    properties.put(AdminClientConfig.DEFAULT_API_TIMEOUT_MS_CONFIG, millis);
    properties.put(AdminClientConfig.REQUEST_TIMEOUT_MS_CONFIG, millis);
    try (Admin admin = Admin.create(properties)) {
      // Needs no permission.
      admin.describeCluster().nodes().get(millis + CLIENT_MILLIS, TimeUnit.MILLISECONDS);
      return "";
    } catch (ExecutionException failed) {
      return text(failed.getCause());
    } catch (TimeoutException | KafkaException failed) {
      return text(failed);
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
      return text(stopped);
    }
  }

  private static String text(Throwable thrown) {
    StringBuilder text = new StringBuilder();
    String last = null;
    for (Throwable each = thrown; each != null; each = each.getCause()) {
      String message = each.getMessage();
      if (message == null || last == null || !last.contains(message)) {
        String part = message == null ? "" : ": " + message.lines().findFirst().orElse("");
        text.append(text.isEmpty() ? "" : "; ")
            .append(each.getClass().getSimpleName())
            .append(part);
        last = message;
      }
    }
    return text.toString();
  }
}
