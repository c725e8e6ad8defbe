package dev.headwater.lineage;

import io.openlineage.client.transports.Transport;
import io.openlineage.client.transports.TransportBuilder;
import io.openlineage.client.transports.TransportConfig;

/** Found by OpenLineage's client with Java's service loader. */
public final class QueueTransportBuilder implements TransportBuilder {
  @Override
  public String getType() {
    return QueueTransport.TYPE;
  }

  @Override
  public TransportConfig getConfig() {
    return new QueueTransport.Config();
  }

  @Override
  public Transport build(TransportConfig config) {
    return new QueueTransport();
  }
}
