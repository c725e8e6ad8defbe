"""A broker with TLS, SCRAM, tokens, client certificates and ACLs; one for the test run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from tests.certificates import CertificateAuthority
from tests.waiting import wait_until

from headwater.service.broker import KafkaBroker
from headwater.settings import Settings
from headwater.testing.fixtures import local_settings
from headwater.testing.ports import free_port

USER = "ann"
# Each has to be escaped in a JAAS line.
PASSWORD = r'"quoted" \back\slash; and=\'more\''
# Listeners, with their protocols.
LISTENERS = {
    "SECURED": "SASL_SSL",
    "MUTUAL": "SSL",
    "EXPIRED": "SASL_SSL",
    "TOKENS": "SASL_PLAINTEXT",
}
_ADDED = """
listeners=PLAINTEXT://localhost:{port},CONTROLLER://localhost:{controller},{added}
advertised.listeners=PLAINTEXT://localhost:{port},{added}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{protocols}
inter.broker.listener.name=PLAINTEXT
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
default.replication.factor=1
min.insync.replicas=1
ssl.keystore.type=PEM
ssl.keystore.location={keystore}
ssl.truststore.type=PEM
ssl.truststore.location={ca}
listener.name.secured.sasl.enabled.mechanisms=SCRAM-SHA-512,SCRAM-SHA-256
listener.name.secured.scram-sha-512.sasl.jaas.config={scram} required;
listener.name.secured.scram-sha-256.sasl.jaas.config={scram} required;
listener.name.mutual.ssl.client.auth=required
ssl.principal.mapping.rules=RULE:^CN=(.*)$/$1/
listener.name.expired.ssl.keystore.location={expired}
listener.name.expired.ssl.keystore.type=PEM
listener.name.expired.sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.expired.scram-sha-512.sasl.jaas.config={scram} required;
listener.name.tokens.sasl.enabled.mechanisms=OAUTHBEARER
listener.name.tokens.oauthbearer.sasl.jaas.config={bearer} required;
"""
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


class SecuredBroker(KafkaBroker):
    """A local broker; its plain listener is the administrator's."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.admin = settings
        self.ports = {name: free_port() for name in LISTENERS}
        self.authority = CertificateAuthority(settings.home_dir / "certificates")

    def _write_configuration(self) -> Path:
        properties = super()._write_configuration()
        kafka = self._settings.kafka
        added = _ADDED.format(
            port=kafka.port,
            controller=kafka.controller_port,
            added=",".join(f"{name}://localhost:{port}" for name, port in self.ports.items()),
            protocols=",".join(f"{name}:{protocol}" for name, protocol in LISTENERS.items()),
            keystore=self._keystore("broker"),
            expired=self._keystore("expired", expired=True),
            ca=self.authority.file,
            scram=_SCRAM,
            bearer=_BEARER,
        )
        # The last value of a property counts.
        properties.write_text(properties.read_text() + added)
        return properties

    def _keystore(self, name: str, *, expired: bool = False) -> Path:
        """One file with the key and the certificate."""
        certificate, key = self.authority.issue(name, expired=expired)
        file = certificate.with_suffix(".pem")
        file.write_text(key.read_text() + certificate.read_text())
        return file

    def address(self, listener: str) -> str:
        return f"localhost:{self.ports[listener]}"

    def settings(
        self,
        listener: str = "SECURED",
        *,
        client: Mapping[str, str] | None = None,
        java: Mapping[str, str] | None = None,
        jobs: Mapping[str, Any] | None = None,
        **kafka: Any,
    ) -> Settings:
        """Settings with these keys of `[kafka]`, and these properties of clients."""
        section = {
            **self.admin.kafka.model_dump(exclude_none=True),
            "bootstrap_servers": self.address(listener),
            "timeout_seconds": 30.0,
            "client": dict(client or {}),
            **kafka,
        }
        everything = {name: getattr(self.admin, name) for name in type(self.admin).model_fields}
        spark = self.admin.spark.model_copy(update={"kafka_options": dict(java or {})})
        return Settings.model_validate(
            {**everything, "kafka": section, "spark": spark, "jobs": jobs or {}}
        )

    def login(self, user: str = USER, password: str = PASSWORD, **kafka: Any) -> Settings:
        """Settings of a user with a password, as keys of `[kafka]`."""
        return self.settings(
            **{
                "sasl_mechanism": "SCRAM-SHA-512",
                "username": user,
                "password": password,
                "ca_file": self.authority.file,
                **kafka,
            }
        )

    @cached_property
    def _client(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.admin.bootstrap_servers})

    def add_user(self, name: str, password: str = PASSWORD) -> None:
        """A user for both SCRAM mechanisms."""
        changes = [
            UserScramCredentialUpsertion(
                name, ScramCredentialInfo(mechanism, 4096), password.encode()
            )
            for mechanism in (ScramMechanism.SCRAM_SHA_512, ScramMechanism.SCRAM_SHA_256)
        ]
        for change in changes:
            for future in self._client.alter_user_scram_credentials([change]).values():
                future.result(10)

    def allow(
        self,
        user: str,
        operation: AclOperation,
        name: str,
        resource: ResourceType = ResourceType.TOPIC,
        pattern: ResourcePatternType = ResourcePatternType.LITERAL,
    ) -> None:
        """Add an ACL for the user."""
        acl = AclBinding(
            resource, name, pattern, f"User:{user}", "*", operation, AclPermissionType.ALLOW
        )
        for future in self._client.create_acls([acl]).values():
            future.result(10)
        # The controller responds before the broker applies it.
        wait_until(lambda: acl in self._acls(user), 20, f"{acl}")

    def revoke_all(self, user: str) -> None:
        """Delete all ACLs of the user."""
        for future in self._client.delete_acls([_all_of(user)]).values():
            future.result(10)
        wait_until(lambda: not self._acls(user), 20, f"no ACL of {user}")

    def _acls(self, user: str) -> list[AclBinding]:
        return list(self._client.describe_acls(_all_of(user)).result(10))


def _all_of(user: str) -> AclBindingFilter:
    return AclBindingFilter(
        ResourceType.ANY,
        None,  # type: ignore[arg-type]  # any name
        ResourcePatternType.ANY,
        f"User:{user}",
        None,  # type: ignore[arg-type]  # any host
        AclOperation.ANY,
        AclPermissionType.ANY,
    )


@contextmanager
def secured_broker(home: Path) -> Iterator[SecuredBroker]:
    """A running broker with one user."""
    broker = SecuredBroker(local_settings(home))
    broker.start()
    try:
        broker.add_user(USER)
        yield broker
    finally:
        broker.stop()
        shutil.rmtree(home / "kafka")
