"""Starts and stops the local services: Kafka, PostgreSQL and the lineage service."""

from headwater.service.local import down, status, up
from headwater.service.managed import ServiceState, ServiceStatus

__all__ = ["ServiceState", "ServiceStatus", "down", "status", "up"]
