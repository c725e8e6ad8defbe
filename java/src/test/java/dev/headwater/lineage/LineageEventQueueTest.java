package dev.headwater.lineage;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;

import io.openlineage.client.transports.TransportBuilder;
import io.openlineage.client.transports.TransportConfig;
import io.openlineage.client.transports.TransportFactory;
import io.openlineage.spark.agent.ArgumentParser;
import java.util.List;
import java.util.ServiceLoader;
import org.apache.spark.SparkConf;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class LineageEventQueueTest {
  @AfterEach
  void closeQueue() {
    LineageEventQueue.close();
  }

  @Test
  void entriesAreTakenInOrder() throws InterruptedException {
    LineageEventQueue.open();
    LineageEventQueue.put("a");
    LineageEventQueue.put("b");
    assertEquals(List.of("a", "b"), LineageEventQueue.take(0));
    assertEquals(List.of(), LineageEventQueue.take(0));
  }

  @Test
  void aFullQueueDropsTheOldestEntriesAndCountsThem() throws InterruptedException {
    LineageEventQueue.open();
    for (int entry = 0; entry < 5003; entry++) {
      LineageEventQueue.put(Integer.toString(entry));
    }
    assertEquals(3, LineageEventQueue.dropped());
    assertEquals("3", LineageEventQueue.take(0).get(0));
  }

  @Test
  void aClosedQueueTakesNothing() throws InterruptedException {
    LineageEventQueue.put("a");
    LineageEventQueue.open();
    assertEquals(List.of(), LineageEventQueue.take(0));
  }

  @Test
  void theListenersTransportIsTheQueueWhateverTheUserHasConfigured() {
    SparkConf conf =
        new SparkConf(false)
            .set("spark.openlineage.transport.type", "http")
            .set("spark.openlineage.transport.url", "http://catalog:5000")
            .set("spark.openlineage.transport.auth.type", "api_key")
            .set("spark.openlineage.transport.auth.apiKey", "secret");
    TransportConfig config =
        ArgumentParser.parse(QueueTransport.chosenIn(conf)).getTransportConfig();
    assertInstanceOf(QueueTransport.class, new TransportFactory(config).build());
    assertEquals("http", conf.get("spark.openlineage.transport.type"));
  }

  @Test
  void openLineageFindsTheTransportByTheServiceLoader() {
    List<String> types =
        ServiceLoader.load(TransportBuilder.class).stream()
            .map(each -> each.get().getType())
            .filter("headwater"::equals)
            .toList();
    assertEquals(List.of("headwater"), types);
  }
}
