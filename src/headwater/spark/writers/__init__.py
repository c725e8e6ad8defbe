"""Spark writers: archives, the lineage index, tables with row lineage."""
