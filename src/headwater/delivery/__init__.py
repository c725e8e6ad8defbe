"""Writing a streaming query's records to Kafka, and what each way of doing so promises."""
