package dev.headwater.kafka;

import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.errors.TopicExistsException;

/** Topics that Headwater creates in the cluster of a job. */
public final class MissingTopic {
  private MissingTopic() {}

  /** Creates a topic unless it exists: a job may be allowed to write to one it could not create. */
  public static void create(Admin admin, NewTopic topic, long timeoutMillis)
      throws ExecutionException, InterruptedException, TimeoutException {
    if (admin
        .listTopics()
        .names()
        .get(timeoutMillis, TimeUnit.MILLISECONDS)
        .contains(topic.name())) {
      return;
    }
    try {
      admin.createTopics(List.of(topic)).all().get(timeoutMillis, TimeUnit.MILLISECONDS);
    } catch (ExecutionException failed) {
      // Another job may have created it in the meantime.
      if (!(failed.getCause() instanceof TopicExistsException)) {
        throw failed;
      }
    }
  }
}
