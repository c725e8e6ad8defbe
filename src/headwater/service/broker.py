"""The local Kafka broker: one KRaft node on loopback, from the pinned jars."""

from __future__ import annotations

import base64
import shutil
import socket
import uuid
from pathlib import Path

from headwater.errors import HeadwaterError, UnsupportedVersionError
from headwater.jvm.jars import ensure_jars, scala_library
from headwater.jvm.java import find_java
from headwater.jvm.versions import KAFKA_VERSION
from headwater.kafka import ping
from headwater.model.local_files import state_folder
from headwater.model.progress import Progress, no_progress
from headwater.service.managed import LocalService, ServiceState, ServiceStatus
from headwater.service.ownership import Identity
from headwater.service.preflight import check_free_space, check_port_free
from headwater.service.processes import (
    end_of_log,
    run_to_end,
    start_detached,
)
from headwater.settings import Settings

_PROPERTIES = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://localhost:{port},CONTROLLER://localhost:{controller_port}
advertised.listeners=PLAINTEXT://localhost:{port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
controller.quorum.voters=1@localhost:{controller_port}
log.dirs={data}
# A mistyped topic name must not create a topic.
auto.create.topics.enable=false
# One node: internal topics have one replica, and few partitions for a fast start.
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
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
    """The broker of one Headwater home."""

    name = "kafka"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, f"-Dheadwater.home={settings.home_dir}", settings.kafka.port)
        self._folder = settings.home_dir / "kafka"
        self._data = self._folder / "data"

    @property
    def _identity(self) -> Identity:
        return Identity(self._marker, "", "java", self._log.with_suffix(".out"))

    def start(self, progress: Progress = no_progress) -> ServiceState:
        settings = self._settings
        process = self.process()
        if process is None:
            check_free_space(self._folder, settings)
            self._check_data_version()
            check_port_free(settings.kafka.port, "HEADWATER_KAFKA__PORT")
            check_port_free(settings.kafka.controller_port, "HEADWATER_KAFKA__CONTROLLER_PORT")
            java = [str(find_java(settings).binary)]
            jars = ensure_jars(["broker"], settings, progress)
            java += ["-cp", ":".join(str(jar) for jar in [*jars, scala_library()])]
            properties = self._write_configuration()
            self._format(java, properties)
            heap = f"-Xmx{settings.kafka.heap_mb}m"
            logging = f"-Dlog4j2.configurationFile={self._folder / 'log4j2.properties'}"
            process = start_detached(
                [*java, heap, self._marker, logging, "kafka.Kafka", str(properties)],
                self._log.with_suffix(".out"),
            )
        self._wait_until_ready(process, self._newest_log())
        return self._state(ServiceStatus.RUNNING, process.pid)

    @property
    def _address(self) -> str:
        return f"localhost:{self._settings.kafka.port}"

    def _newest_log(self) -> Path:
        # Before logging is configured the JVM writes to standard output only.
        early = self._log.with_suffix(".out")
        return self._log if self._log.exists() or end_of_log(early) == "" else early

    def _is_ready(self) -> bool:
        # Detects a closed port at once; the Kafka client would retry until its timeout.
        port = self._settings.kafka.port
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.settimeout(1)
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return False
        try:
            return ping(self._settings.kafka, timeout_seconds=5) > 0
        except HeadwaterError:
            return False

    def _write_configuration(self) -> Path:
        for folder in (self._folder, self._log.parent):
            state_folder(self._settings.home_dir, folder.name)
        (self._folder / "log4j2.properties").write_text(_LOGGING.format(log=self._log))
        properties = self._folder / "server.properties"
        kafka = self._settings.kafka
        properties.write_text(
            _PROPERTIES.format(
                port=kafka.port, controller_port=kafka.controller_port, data=self._data
            )
        )
        return properties

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
        digest = uuid.uuid5(uuid.NAMESPACE_URL, f"headwater:{self._folder}").bytes
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
