"""Files and tables that are read without a JVM: checkpoints, Delta, archives, the index."""
