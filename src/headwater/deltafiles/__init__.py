"""What the index of edges and the archive have in common: Delta tables whose rows have addresses.

`intervals` and `pruning` are for readers, without a JVM; `writing` is for Spark."""
