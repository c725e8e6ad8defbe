"""Dataset and column lineage of Spark runs, reported as OpenLineage events."""
