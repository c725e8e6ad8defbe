"""Local Kafka brokers: KRaft nodes on loopback, from the pinned jars."""

from __future__ import annotations

import base64
import shutil
import socket
import uuid
from pathlib import Path

import psutil

from headwater.errors import HeadwaterError, UnsupportedVersionError
from headwater.jvm.installed import find_java
from headwater.jvm.jars import ensure_jars
from headwater.jvm.versions import KAFKA_VERSION
from headwater.kafka import ping
from headwater.model.local_files import state_folder
from headwater.model.progress import Progress, no_progress
from headwater.service.managed import (
    LocalService,
    ServiceState,
    ServiceStatus,
    wait_until_ready,
)
from headwater.service.ownership import Identity, listens
from headwater.service.preflight import check_free_space, check_port_free
from headwater.service.processes import (
    end_of_log,
    run_to_end,
    start_detached,
)
from headwater.settings import Settings
from headwater.settings.kafka import node_port

_PROPERTIES = """\
process.roles=broker,controller
node.id={node}
listeners=PLAINTEXT://localhost:{port},CONTROLLER://localhost:{controller_port}
advertised.listeners=PLAINTEXT://localhost:{port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
controller.quorum.voters={voters}
log.dirs={data}
# A mistyped topic name must not create a topic.
auto.create.topics.enable=false
default.replication.factor={replicas}
min.insync.replicas={in_sync}
# Few partitions for a fast start.
offsets.topic.replication.factor={replicas}
offsets.topic.num.partitions=4
transaction.state.log.replication.factor={replicas}
transaction.state.log.min.isr={in_sync}
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor={replicas}
share.coordinator.state.topic.min.isr={in_sync}
share.coordinator.state.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
# The default of 128 MiB is half of this heap in one allocation, which can fail. 16 MiB is enough
# to compact half a million keys per pass.
log.cleaner.dedupe.buffer.size=16777216
"""

_LOGGING = """\
status=error
appenders=file
appender.file.type=RollingFile
appender.file.name=file
appender.file.fileName={log}
appender.file.filePattern={log}.%i
appender.file.layout.type=PatternLayout
appender.file.layout.pattern=[%d] %p %m (%c)%n
appender.file.policies.type=Policies
appender.file.policies.size.type=SizeBasedTriggeringPolicy
appender.file.policies.size.size=20MB
appender.file.strategy.type=DefaultRolloverStrategy
appender.file.strategy.max=3
rootLogger.level=info
rootLogger.appenderRefs=file
rootLogger.appenderRef.file.ref=file
"""


class KafkaBroker(LocalService):
    """One broker of a Headwater home, which is also a controller.

    Args:
        node: its number, from 1.
        nodes: the number of brokers in the cluster.
    """

    name = "kafka"

    def __init__(self, settings: Settings, node: int = 1, nodes: int = 1) -> None:
        marker = f"-Dheadwater.home={settings.home_dir}"
        home = settings.home_dir / "kafka"
        if node > 1:
            self.name = f"kafka-{node}"
            marker += f":{node}"
        self.node, self._nodes = node, nodes
        super().__init__(settings, marker, node_port(settings.kafka.port, node))
        self._folder = home if node == 1 else home / f"node-{node}"
        self._data = self._folder / "data"

    @property
    def _identity(self) -> Identity:
        return Identity(self._marker, "", "java", self._log.with_suffix(".out"))

    def start(self, progress: Progress = no_progress) -> ServiceState:
        return self.wait_until_ready(self.launch(progress))

    def launch(self, progress: Progress = no_progress) -> psutil.Process:
        """Start it unless it is running. One of several is ready when most of them are running."""
        settings = self._settings
        process = self.process()
        if process is None:
            check_free_space(self._folder, settings)
            self._check_data_version()
            check_port_free(self._port, "HEADWATER_KAFKA__PORT")
            check_port_free(self._controller_port(self.node), "HEADWATER_KAFKA__CONTROLLER_PORT")
            java = [str(find_java(settings).binary)]
            jars = ensure_jars(["broker"], settings, progress)
            java += ["-cp", ":".join(str(jar) for jar in jars)]
            properties = self._write_configuration()
            self._format(java, properties)
            heap = f"-Xmx{settings.kafka.heap_mb}m"
            logging = f"-Dlog4j2.configurationFile={self._folder / 'log4j2.properties'}"
            process = start_detached(
                [*java, heap, self._marker, logging, "kafka.Kafka", str(properties)],
                self._log.with_suffix(".out"),
            )
        return process

    def wait_until_ready(self, process: psutil.Process, *, brokers: int = 1) -> ServiceState:
        """Wait until it responds, and knows this number of brokers.

        Raises:
            ServiceStartError: it exited, or is not ready in time.
        """

        def is_ready() -> bool:
            return listens(process, self._port) and self._known_brokers() >= brokers

        wait_until_ready(self.name, process, is_ready, self._newest_log(), self._settings)
        return self._state(ServiceStatus.RUNNING, process.pid)

    @property
    def _address(self) -> str:
        return f"localhost:{self._port}"

    def _newest_log(self) -> Path:
        # Before logging is configured the JVM writes to standard output only.
        early = self._log.with_suffix(".out")
        return self._log if self._log.exists() or end_of_log(early) == "" else early

    def _is_ready(self) -> bool:
        return self._known_brokers() > 0

    def _known_brokers(self) -> int:
        # Detects a closed port at once; the Kafka client would retry until its timeout.
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.settimeout(1)
            if probe.connect_ex(("127.0.0.1", self._port)) != 0:
                return 0
        own = self._settings.kafka.model_copy(update={"bootstrap_servers": self._address})
        try:
            return ping(own, timeout_seconds=5)
        except HeadwaterError:
            return 0

    def _write_configuration(self) -> Path:
        for folder in (self._settings.home_dir / "kafka", self._log.parent):
            state_folder(self._settings.home_dir, folder.name)
        self._folder.mkdir(exist_ok=True)
        (self._folder / "log4j2.properties").write_text(_LOGGING.format(log=self._log))
        properties = self._folder / "server.properties"
        nodes = range(1, self._nodes + 1)
        properties.write_text(
            _PROPERTIES.format(
                node=self.node,
                port=self._port,
                controller_port=self._controller_port(self.node),
                voters=",".join(f"{n}@localhost:{self._controller_port(n)}" for n in nodes),
                replicas=min(3, self._nodes),
                in_sync=2 if self._nodes > 2 else 1,
                data=self._data,
            )
        )
        return properties

    def _controller_port(self, node: int) -> int:
        return node_port(self._settings.kafka.controller_port, node)

    def _format(self, java: list[str], properties: Path) -> None:
        if (self._data / "meta.properties").exists():
            return
        # Left by a format that was killed: it contains no records.
        shutil.rmtree(self._data, ignore_errors=True)
        command = ["kafka.tools.StorageTool", "format", "-t", self._cluster_id()]
        run_to_end(
            [*java, "-Xmx128m", *command, "-c", str(properties)],
            "formatting the broker's data directory",
            timeout_seconds=self._settings.services.start_timeout_seconds,
        )
        (self._folder / "VERSION").write_text(KAFKA_VERSION)

    def _cluster_id(self) -> str:
        # Derived from the path, so that it is deterministic. Kafka requires 16 bytes in URL-safe
        # base 64.
        digest = uuid.uuid5(
            uuid.NAMESPACE_URL, f"headwater:{self._settings.home_dir / 'kafka'}"
        ).bytes
        return base64.urlsafe_b64encode(b"h" + digest[1:]).decode().rstrip("=")

    def _check_data_version(self) -> None:
        file = self._folder / "VERSION"
        version = file.read_text().strip() if file.exists() else KAFKA_VERSION
        if _numbers(version) > _numbers(KAFKA_VERSION):
            raise UnsupportedVersionError(
                f"{self._data} was written by Kafka {version}; this is Kafka {KAFKA_VERSION}, "
                "which can't read newer data",
                hint="use a newer Headwater, choose another HEADWATER_HOME, or delete the data "
                "with `headwater down --wipe`",
            )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())
