"""What Spark measures while it writes: data quality and cost."""
