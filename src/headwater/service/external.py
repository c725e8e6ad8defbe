"""Services of the user's own, used in place of the local ones and never started or stopped."""

from __future__ import annotations

from headwater.catalog.store import check_database, shown_address
from headwater.errors import UnavailableError
from headwater.kafka import ping
from headwater.model.progress import Progress, no_progress
from headwater.service.managed import ServiceState, State
from headwater.settings import Settings


class _External:
    """Common to both: an address that is asked, and nothing else."""

    name: str

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def address(self) -> str:
        raise NotImplementedError

    def ask(self) -> None:
        """Raise an UnavailableError if there is no answer."""
        raise NotImplementedError

    def start(self, progress: Progress = no_progress) -> ServiceState:
        self.ask()
        return ServiceState(self.name, State.EXTERNAL, self.address())

    def state(self) -> ServiceState:
        try:
            self.ask()
        except UnavailableError:
            return ServiceState(self.name, State.UNREACHABLE, self.address())
        return ServiceState(self.name, State.EXTERNAL, self.address())

    def stop(self) -> bool:
        return False

    def wipe(self) -> None:
        """Its data is the user's."""


class ExternalKafka(_External):
    """The brokers of KAFKA_BOOTSTRAP_SERVERS."""

    name = "kafka"

    def address(self) -> str:
        return self._settings.bootstrap_servers

    def ask(self) -> None:
        ping(self._settings.kafka)


class ExternalPostgres(_External):
    """The database of HEADWATER_CATALOG__DATABASE_URL."""

    name = "postgres"

    def address(self) -> str:
        return shown_address(self._settings)

    def ask(self) -> None:
        check_database(self._settings)
