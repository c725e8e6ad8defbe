"""External services: used instead of the local ones, never started or stopped."""

from __future__ import annotations

from headwater.catalog.store import check_database, shown_address
from headwater.errors import KafkaRefusedError, UnavailableError
from headwater.kafka import ping
from headwater.model.progress import Progress, no_progress
from headwater.service.managed import ServiceState, ServiceStatus
from headwater.settings import Settings


class _External:
    """Base class: only checks that the address responds."""

    name: str

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def address(self) -> str:
        raise NotImplementedError

    def ping(self) -> None:
        """Raise an error if the service does not respond, or does not accept the client."""
        raise NotImplementedError

    def start(self, progress: Progress = no_progress) -> ServiceState:
        self.ping()
        return ServiceState(self.name, ServiceStatus.EXTERNAL, self.address())

    def state(self) -> ServiceState:
        try:
            self.ping()
        except (UnavailableError, KafkaRefusedError) as error:
            return ServiceState(
                self.name,
                ServiceStatus.UNREACHABLE,
                self.address(),
                reason=error.message,
                hint=error.hint,
            )
        return ServiceState(self.name, ServiceStatus.EXTERNAL, self.address())

    def stop(self) -> bool:
        return False


class ExternalKafka(_External):
    """The brokers of KAFKA_BOOTSTRAP_SERVERS."""

    name = "kafka"

    def address(self) -> str:
        return self._settings.bootstrap_servers

    def ping(self) -> None:
        ping(self._settings.kafka)


class ExternalPostgres(_External):
    """The database of HEADWATER_CATALOG__DATABASE_URL."""

    name = "postgres"

    def address(self) -> str:
        return shown_address(self._settings)

    def ping(self) -> None:
        check_database(self._settings)
