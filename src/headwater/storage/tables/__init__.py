"""Rows of Delta and Iceberg tables with lineage.

Each row has its lineage in one struct column. So a table is its own lineage index: rows that were
made from a record are found in the current table, whatever was merged, deleted or restored since.
`contract` is shared with the writers in `headwater.spark.writers`; `registry`, `files` and
`reader` need the extra `index` and no JVM.
"""
