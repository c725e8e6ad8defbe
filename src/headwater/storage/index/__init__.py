"""The index of edges, parent to child: written by Spark, read without it.

`contract` is what both sides agree on. `parse`, `ranges` and `table` are the writer's;
`files` and `reader` the reader's, which need the extra `index` and no JVM."""
