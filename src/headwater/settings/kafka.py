"""Settings of the Kafka brokers and clients."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr

from headwater.settings.paths import LocalPath
from headwater.settings.sections import Section

# Between the ports of local brokers.
PORT_STEP = 10
# The form of security that is given once for all clients.
SECURITY_KEYS = (
    "security_protocol",
    "sasl_mechanism",
    "username",
    "password",
    "token_provider",
    "ca_file",
    "certificate_file",
    "key_file",
    "key_password",
)


class KafkaSettings(Section):
    """The Kafka brokers and clients."""

    bootstrap_servers: str | None = Field(
        None,
        min_length=1,
        description="Brokers to use. When set, `headwater up` does not start a broker.",
    )
    namespace: str | None = Field(
        None,
        min_length=1,
        description="Namespace of the topics of these brokers in events. Default: `kafka://` and "
        "the first address of `kafka.bootstrap_servers` in alphabetical order.",
    )
    replication_factor: int = Field(
        -1,
        ge=-1,
        le=32767,
        description="Replicas of topics that Headwater creates. -1: the broker's default.",
    )
    runs_topic: str = Field(
        "headwater-runs",
        min_length=1,
        max_length=249,
        pattern="^[a-zA-Z0-9._-]+$",
        description="Compacted topic with the job of each run, for records with a compact stamp "
        "(`jobs.stamp`).",
    )
    brokers: int | None = Field(
        None,
        ge=1,
        le=9,
        description="Number of local brokers; with three, topics have three replicas. Default: as "
        "many as the home has, or 1.",
    )
    port: int = Field(
        9092,
        ge=1,
        le=65535,
        description="Port of the first local broker; each other one is 10 higher.",
    )
    controller_port: int = Field(
        9093,
        ge=1,
        le=65535,
        description="Port of the first local broker's KRaft controller; each other one is 10 "
        "higher.",
    )
    heap_mb: int = Field(256, ge=128, description="Heap of the local broker, in MiB.")
    timeout_seconds: float = Field(30.0, gt=0, description="Timeout of one request to Kafka.")
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] | None = Field(
        None,
        description="How all Kafka clients connect. Default: `SASL_SSL` with a user or a token, "
        "`SSL` with certificates, otherwise `PLAINTEXT`.",
    )
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] | None = (
        Field(None, description="How all Kafka clients log in.")
    )
    username: str | None = Field(None, min_length=1, description="User of all Kafka clients.")
    password: SecretStr | None = Field(None, description="Password of the user.")
    token_provider: str | None = Field(
        None,
        pattern=r"^[\w.]+:\w+$",
        description="Function that returns tokens for OAUTHBEARER, as `module:function`.",
    )
    ca_file: LocalPath | None = Field(
        None,
        description="CA certificates for the brokers, as a PEM file. Default: those of the system.",
    )
    certificate_file: LocalPath | None = Field(
        None, description="Certificate of the clients (mTLS), as a PEM file."
    )
    key_file: LocalPath | None = Field(
        None, description="Key of the certificate, as a PEM file (PKCS#8)."
    )
    key_password: SecretStr | None = Field(None, description="Password of the key.")
    # Excluded from the repr, because it may contain passwords.
    client: dict[str, str] = Field(
        default_factory=dict,
        repr=False,
        description="Additional properties of the Python client, as librdkafka names them, such as "
        "`security.protocol`. Security of Spark's clients is derived from them.",
    )
    # Not a setting: clients get this section alone.
    java_client: dict[str, str] = Field(
        default_factory=dict, repr=False, exclude=True, description="A copy of spark.kafka_options."
    )


def node_port(first: int, node: int) -> int:
    """The port of one of several local brokers, or of its controller; the first is node 1."""
    return first + PORT_STEP * (node - 1)
