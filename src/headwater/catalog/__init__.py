"""The lineage service. Nothing in it needs a JVM."""
