"""The lineage service. It does not need a JVM."""
