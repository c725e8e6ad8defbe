"""Metrics of the lineage service: their values, and their Prometheus exposition."""
