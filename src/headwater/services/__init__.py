"""Starts and stops the local services: Kafka, PostgreSQL and the lineage service."""

from headwater.services.local import down, status, up
from headwater.services.service import ServiceState, State

__all__ = ["ServiceState", "State", "down", "status", "up"]
