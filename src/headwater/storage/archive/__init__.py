"""Archives: one Delta table per topic, with the address of every record.

`contract` is shared with the writer in `headwater.spark.writers`; the other modules need the extra
`index` and no JVM.
"""
