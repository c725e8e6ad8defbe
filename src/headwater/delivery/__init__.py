"""Delivery to Kafka: modes, the sink, exactly-once, dead letters. `dead_letter` needs no JVM."""
