"""What Spark writes: archives, the lineage index, tables with row lineage."""
