"""Counters for Prometheus. The only package that imports prometheus-client; no JVM."""

from headwater.metrics.join import JoinMetrics
from headwater.metrics.order import OrderMetrics
from headwater.metrics.output import serve, write_file

__all__ = ["JoinMetrics", "OrderMetrics", "serve", "write_file"]
