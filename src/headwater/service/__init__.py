"""HTTP app, server, page and record routes; local services; doctor."""

from headwater.service.local import down, status, up
from headwater.service.managed import ServiceState, ServiceStatus

__all__ = ["ServiceState", "ServiceStatus", "down", "status", "up"]
