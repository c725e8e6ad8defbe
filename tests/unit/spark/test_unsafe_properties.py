"""Properties of Kafka clients that would undo a guarantee are refused by name."""

from __future__ import annotations

import pytest

from headwater.delivery.modes import MODE_NAMES, delivery_mode
from headwater.errors import SettingError, UnsafeDeliveryError
from headwater.kafka.client import client_config
from headwater.settings import Settings
from headwater.settings.kafka import KafkaSettings
from headwater.spark.source import refuse_unsafe_properties

IN_FLIGHT = "max.in.flight.requests.per.connection"


def check(mode: str, **properties: str) -> None:
    options = {name.replace("_", "."): value for name, value in properties.items()}
    settings = Settings.model_validate({"spark": {"kafka_options": options}})
    refuse_unsafe_properties(mode, delivery_mode(mode).options(), settings)


@pytest.mark.parametrize("mode", MODE_NAMES)
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("acks", "1"),
        ("acks", "0"),
        ("retries", "0"),
        ("delivery.timeout.ms", "0"),
        ("transactional.id", "mine"),
        ("partitioner.ignore.keys", "true"),
        ("partitioner.class", "org.apache.kafka.clients.producer.RoundRobinPartitioner"),
        ("Transactional.Id", "mine"),
    ],
)
def test_what_breaks_every_mode_is_refused_by_name(mode: str, name: str, value: str) -> None:
    with pytest.raises(UnsafeDeliveryError, match=f"{mode} delivery .*{name}={value}: ") as refused:
        check(mode, **{name: value})
    assert f"remove {name} from HEADWATER_SPARK__KAFKA_OPTIONS" in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("mode", "name", "value"),
    [
        ("exactly-once", "enable.idempotence", "false"),
        ("exactly-once", IN_FLIGHT, "5"),
        ("exactly-once", "Max.In.Flight.Requests.Per.Connection", "5"),
        ("exactly-once", "interceptor.classes", "my.Interceptor"),
        ("transactional", "enable.idempotence", "FALSE"),
        ("transactional", IN_FLIGHT, "2"),
        ("individual", IN_FLIGHT, "5"),
        ("idempotent", "enable.idempotence", "false"),
        ("batched", IN_FLIGHT, "5"),
    ],
)
def test_what_breaks_a_mode_is_refused(mode: str, name: str, value: str) -> None:
    with pytest.raises(UnsafeDeliveryError, match=f"{name}={value}"):
        check(mode, **{name: value})


@pytest.mark.parametrize("mode", MODE_NAMES)
def test_safe_values_and_other_properties_are_kept(mode: str) -> None:
    own = {
        name.removeprefix("kafka."): value
        for name, value in delivery_mode(mode).options().items()
        if name.startswith("kafka.")
    }
    check(mode, **own, **{"security.protocol": "SASL_SSL", "delivery.timeout.ms": "60000"})
    check(mode, **{"Max.In.Flight.Requests.Per.Connection": own[IN_FLIGHT]})
    check(mode, acks="-1", retries="5", **{"linger.ms": "1", "transaction.timeout.ms": "1"})


@pytest.mark.parametrize("mode", sorted({*MODE_NAMES} - {"exactly-once"}))
def test_interceptors_are_kept_where_records_are_not_identified_by_their_headers(mode: str) -> None:
    check(mode, **{"interceptor.classes": "my.Interceptor"})


@pytest.mark.parametrize(
    ("name", "value"),
    [("isolation.level", "read_uncommitted"), ("enable.idempotence", "false"), ("acks", "1")],
)
def test_clients_outside_of_spark_refuse_unsafe_values(name: str, value: str) -> None:
    needed = {"isolation.level": "read_committed", "enable.idempotence": True, "acks": "all"}
    settings = KafkaSettings(client={name: value, "security.protocol": "ssl"})
    with pytest.raises(SettingError, match=f"kafka.client: {name}={value} can't be used"):
        client_config(settings, **needed)
    # Only where the client depends on it: an admin client does not.
    assert client_config(settings)[name] == value
    safe = KafkaSettings(client={"acks": "-1", "enable.idempotence": "True"})
    assert client_config(safe, **needed)["acks"] == "-1"
