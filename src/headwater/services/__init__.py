"""Starts and stops the local services: a real Kafka broker and a real PostgreSQL."""

from headwater.services.local import down, status, up
from headwater.services.service import ServiceState, State

__all__ = ["ServiceState", "State", "down", "status", "up"]
