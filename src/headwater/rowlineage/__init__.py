"""Row lineage in Kafka headers."""
