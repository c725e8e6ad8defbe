"""Rows of Delta and Iceberg tables that know their parents.

A row carries its lineage in one struct column. A table is so its own index of edges: what was
made from a record is found in the table as it stands, whatever was merged, deleted or undone
since. `contract` is what both sides agree on; `column` and `writer` are Spark's; `registry`,
`rows` and `reader` are for the questions, which need the extra `index` and no JVM."""
