"""Data quality and cost, measured while Spark writes."""
