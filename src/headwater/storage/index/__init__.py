"""The lineage index, edges from parents to children: written by Spark, read without it.

`contract` is shared with the writer in `headwater.spark.writers`; `files` and `reader` need the
extra `index` and no JVM.
"""
