"""The local brokers of a home, as one service."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from headwater.errors import InputError
from headwater.model.local_files import state_folder
from headwater.model.progress import Progress, no_progress
from headwater.service.broker import KafkaBroker
from headwater.service.managed import ServiceState, ServiceStatus
from headwater.service.preflight import check_free_space
from headwater.settings import Settings


class LocalKafka:
    """One broker, or several of which each one may fail.

    Attributes:
        brokers: by their numbers, from 1.
    """

    name = "kafka"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        # The members of a quorum are part of its data: with other ones it could lose its log.
        self._count_file = settings.home_dir / "kafka" / "BROKERS"
        nodes = self._stored() or settings.kafka.brokers or 1
        self.brokers = [KafkaBroker(settings, node, nodes) for node in range(1, nodes + 1)]

    def start(self, progress: Progress = no_progress) -> ServiceState:
        self._check_count()
        # None becomes ready without most of the others.
        started = [(broker, broker.launch(progress)) for broker in self.brokers]
        states = [broker.wait_until_ready(process) for broker, process in started]
        broker, process = started[-1]
        # Each responds before the controller has admitted all: topics would lack replicas.
        broker.wait_until_ready(process, brokers=len(self.brokers))
        return self._combined(states)

    def state(self) -> ServiceState:
        return self._combined([broker.state() for broker in self.brokers])

    def stop(self) -> bool:
        # All at once: a broker that has lost the quorum does not stop by itself.
        with ThreadPoolExecutor(len(self.brokers)) as pool:
            return any(list(pool.map(KafkaBroker.stop, self.brokers)))

    def _stored(self) -> int | None:
        if self._count_file.is_file():
            return int(self._count_file.read_text())
        return 1 if (self._count_file.parent / "data").is_dir() else None

    def _check_count(self) -> None:
        wanted, nodes = self._settings.kafka.brokers, len(self.brokers)
        if wanted is not None and wanted != nodes:
            raise InputError(
                f"{self._count_file.parent} is the data of {nodes} brokers, not of {wanted}",
                hint=f"use --brokers {nodes}, choose another HEADWATER_HOME, or delete the data "
                "with `headwater down --wipe`",
            )
        check_free_space(self._count_file.parent, self._settings)
        state_folder(self._settings.home_dir, "kafka")
        self._count_file.write_text(f"{nodes}\n")

    def _combined(self, states: Sequence[ServiceState]) -> ServiceState:
        first = states[0]
        if len(states) == 1:
            return first
        running = sum(state.state is ServiceStatus.RUNNING for state in states)
        # The rest still serves if most are running.
        reason = None if running == len(states) else f"{running} of {len(states)} brokers respond"
        worst = next((each for each in states if each.state is not ServiceStatus.RUNNING), first)
        addresses = ",".join(state.address for state in states)
        return ServiceState(self.name, worst.state, addresses, first.pid, first.log, reason)
