"""Counters of `verify` in the format of Prometheus."""

from __future__ import annotations

import socket
import urllib.request
from pathlib import Path

import pytest

from headwater.cli.follow_order import OrderMetrics
from headwater.errors import InputError, PortTakenError
from headwater.storage.metrics_export import serve, write_file

KINDS = ("inversion", "gap", "duplicate")


def lines_of(text: str) -> dict[str, float]:
    samples = (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, value in samples if "_created" not in name}


def test_every_kind_starts_with_0_and_follows_the_totals(tmp_path: Path) -> None:
    metrics = OrderMetrics("out", KINDS)
    file = tmp_path / "order.prom"
    write_file(metrics.registry, file)
    assert set(lines_of(file.read_text()).values()) == {0.0}
    metrics.update(10, {"inversion": 2})
    metrics.update(15, {"inversion": 3, "gap": 1})
    write_file(metrics.registry, file)
    assert lines_of(file.read_text()) == {
        'headwater_order_violations_total{kind="inversion",topic="out"}': 3,
        'headwater_order_violations_total{kind="gap",topic="out"}': 1,
        'headwater_order_violations_total{kind="duplicate",topic="out"}': 0,
        'headwater_order_judged_records_total{topic="out"}': 15,
    }


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(KeyError):
        OrderMetrics("out", KINDS).update(1, {"something else": 1})


def test_counters_are_served_on_loopback_while_the_body_runs() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    metrics = OrderMetrics("out", KINDS)
    with serve(metrics.registry, port) as address:
        assert address == f"http://127.0.0.1:{port}/metrics"
        metrics.update(1, {"gap": 1})
        with urllib.request.urlopen(address, timeout=5) as response:  # noqa: S310 - our own
            text = response.read().decode()
        assert lines_of(text)['headwater_order_violations_total{kind="gap",topic="out"}'] == 1
        with pytest.raises(PortTakenError, match=str(port)), serve(metrics.registry, port):
            pass
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)


def test_an_unwritable_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        write_file(OrderMetrics("out", KINDS).registry, tmp_path / "none" / "order.prom")
