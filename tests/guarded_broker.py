"""A broker with users and ACLs: the plain listener is the administrator's, the other one asks for
a password."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from headwater.service.broker import KafkaBroker
from headwater.settings import Settings
from headwater.testing.fixtures import local_settings
from headwater.testing.ports import free_port

USER, PASSWORD = "ann", "correct"
_ADDED = """
listeners=PLAINTEXT://localhost:{port},CONTROLLER://localhost:{controller},CLIENTS://localhost:{clients}
advertised.listeners=PLAINTEXT://localhost:{port},CLIENTS://localhost:{clients}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,CLIENTS:SASL_PLAINTEXT
inter.broker.listener.name=PLAINTEXT
sasl.enabled.mechanisms=PLAIN
listener.name.clients.plain.sasl.jaas.config=\
org.apache.kafka.common.security.plain.PlainLoginModule required user_{user}="{password}";
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
delete.topic.enable=false
"""


class GuardedBroker(KafkaBroker):
    """A local broker with a third listener, for users with a password."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._clients = free_port()

    def _write_configuration(self) -> Path:
        properties = super()._write_configuration()
        kafka = self._settings.kafka
        added = _ADDED.format(
            port=kafka.port,
            controller=kafka.controller_port,
            clients=self._clients,
            user=USER,
            password=PASSWORD,
        )
        # The last value of a property counts.
        properties.write_text(properties.read_text() + added)
        return properties

    def client(self, password: str = PASSWORD, timeout_seconds: float = 10.0) -> Settings:
        """Settings of the user with this password, in Python and in Spark."""
        login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        jaas = f'{module} required username="{USER}" password="{password}";'
        kafka = {
            "bootstrap_servers": f"localhost:{self._clients}",
            "timeout_seconds": timeout_seconds,
            "client": {**login, "sasl.username": USER, "sasl.password": password},
        }
        spark = {"kafka_options": {**login, "sasl.jaas.config": jaas}}
        settings = self._settings
        return settings.model_copy(
            update={
                "kafka": settings.kafka.model_copy(update=kafka),
                "spark": settings.spark.model_copy(update=spark),
            }
        )

    def allow(
        self,
        operation: AclOperation,
        name: str,
        resource: ResourceType = ResourceType.TOPIC,
        pattern: ResourcePatternType = ResourcePatternType.LITERAL,
    ) -> None:
        """Add an ACL for the user."""
        acl = AclBinding(
            resource, name, pattern, f"User:{USER}", "*", operation, AclPermissionType.ALLOW
        )
        admin = AdminClient({"bootstrap.servers": self._settings.bootstrap_servers})
        for future in admin.create_acls([acl]).values():
            future.result(10)


@contextmanager
def guarded_broker(home: Path) -> Iterator[tuple[GuardedBroker, Settings]]:
    """A running broker, and the settings of its administrator."""
    settings = local_settings(home)
    broker = GuardedBroker(settings)
    broker.start()
    try:
        yield broker, settings
    finally:
        broker.stop()
        shutil.rmtree(home / "kafka")
