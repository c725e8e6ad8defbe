"""Topics kept in Delta tables, one each, with the address of every record.

`contract` is what all sides agree on. `rows` and `table` are the writer's, on Spark; `reader` and
what it uses need the extra `index` and no JVM."""
