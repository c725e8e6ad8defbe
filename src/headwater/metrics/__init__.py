"""Counters for Prometheus. The only package that imports prometheus-client; no JVM."""

from headwater.metrics.order import OrderMetrics
from headwater.metrics.output import serve, write_file

__all__ = ["OrderMetrics", "serve", "write_file"]
