"""Starts and stops the local services: Kafka, PostgreSQL and the lineage service."""

from headwater.service.local import down, status, up
from headwater.service.managed import ServiceState, State

__all__ = ["ServiceState", "State", "down", "status", "up"]
