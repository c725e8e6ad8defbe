"""All code below the jobs that needs pyspark: session, source, query runner, writers, measures."""
