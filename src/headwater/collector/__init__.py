"""Lineage of datasets and columns, from what Spark knows of a query."""
