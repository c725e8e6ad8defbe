"""Messages of alerts go to public targets and nowhere else, however a target is written.

The process that sends is the real one; what must not be reached is a real server on this machine,
which keeps a list of all that reached it.
"""

from __future__ import annotations

import ipaddress
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator

import pytest
from pydantic import SecretStr
from tests.alert_support import Hook, hook

from headwater.catalog.alerting.channels import Channel, read_channels
from headwater.catalog.alerting.egress import Egress, embedded, is_public
from headwater.catalog.alerting.messages import trial
from headwater.catalog.alerting.sending import Sender
from headwater.errors import EgressRefusedError, HeadwaterError, NotificationError, SettingError
from headwater.settings.alerts import AlertsSettings

PRIVATE = [
    "127.0.0.1",
    "127.9.9.9",
    "0.0.0.0",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "169.254.169.254",
    "192.0.0.1",
    "198.18.0.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "fe80::1",
    "fe80::1%eth0",
    "fc00::1",
    "fec0::1",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "::127.0.0.1",
    "64:ff9b::a00:1",
    "2002:7f00:1::",
    "2001:0:7f00:1::1",
    "3fff::1",
    "3fff:fff::1",
]


@pytest.mark.parametrize("address", PRIVATE)
def test_an_address_that_is_not_public_is_refused(address: str) -> None:
    egress = Egress()
    with pytest.raises(PermissionError):
        egress.check(address)
    assert egress.refused


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:4700::1111", "64:ff9b::808:808"])
def test_a_public_address_is_not(address: str) -> None:
    Egress().check(address)


@pytest.mark.parametrize("text", ["localhost", "example.com", "", "2130706433", "0177.0.0.1"])
def test_what_is_no_address_by_the_time_of_connecting_is_refused(text: str) -> None:
    with pytest.raises(PermissionError):
        Egress(["0.0.0.0/0", "::/0"]).check(text)


def test_an_allowed_network_is_allowed_and_no_other() -> None:
    egress = Egress(["10.1.0.0/16", "fd00::/8"])
    for allowed in ("10.1.2.3", "::ffff:10.1.2.3", "fd00::1"):
        egress.check(allowed)
    for refused in ("10.2.0.1", "127.0.0.1", "::1"):
        with pytest.raises(PermissionError):
            egress.check(refused)


def test_an_address_within_an_address_is_the_one_that_counts() -> None:
    for text in ("::ffff:1.2.3.4", "2002:102:304::", "64:ff9b::102:304", "::1.2.3.4"):
        assert embedded(ipaddress.ip_address(text)) == ipaddress.ip_address("1.2.3.4")
    assert not is_public(embedded(ipaddress.ip_address("::1")))


def sender(*allowed: str) -> Sender:
    settings = AlertsSettings(allow_private=allowed, send_seconds=10)
    made = Sender(Channel("hook", "webhook", SecretStr("json://unused")), settings)
    made.warm()
    return made


@pytest.fixture(scope="module")
def closed() -> Iterator[Sender]:
    """A sending process that may go to public addresses only."""
    made = sender()
    yield made
    made.close()


@pytest.fixture(scope="module")
def open_to_one() -> Iterator[Sender]:
    """A sending process that may go to 127.0.0.1 as well."""
    made = sender("127.0.0.1/32")
    yield made
    made.close()


@pytest.fixture(scope="module")
def inside() -> Iterator[Hook]:
    """A server inside, on all addresses of loopback, which nothing may reach."""
    with hook("::" if socket.has_dualstack_ipv6() else "0.0.0.0") as server:
        yield server


@pytest.fixture(scope="module")
def other_inside() -> Iterator[Hook]:
    with hook("127.0.0.2") as server:
        yield server


def send(to: Sender, address: str) -> None:
    to.channel = Channel("hook", "webhook", SecretStr(address))
    to.send(trial("hook"))


@pytest.mark.parametrize("scheme", ["http", "json"])
@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "2130706433",
        "0177.0.0.1",
        "0x7f000001",
        "127.1",
        "0",
        "localhost",
    ],
)
def test_no_spelling_of_this_machine_is_reached(
    closed: Sender, inside: Hook, scheme: str, host: str
) -> None:
    before = list(inside.paths)
    with pytest.raises((EgressRefusedError, NotificationError)) as error:
        send(closed, f"{scheme}://me:s3cret@{host}:{inside.port}/t0ken")
    assert inside.paths == before
    # Apprise does not take every spelling; ours is as good as the guard alone.
    if scheme == "http":
        assert "HEADWATER_ALERTS__ALLOW_PRIVATE" in str(error.value.hint)
    assert "s3cret" not in f"{error.value} {error.value.facts}"


@pytest.mark.parametrize("host", ["169.254.169.254", "10.255.255.1", "[fd00::1]"])
def test_neither_metadata_nor_another_machine_inside_is_asked(closed: Sender, host: str) -> None:
    with pytest.raises(EgressRefusedError):
        send(closed, f"http://{host}/latest/meta-data")


@pytest.mark.parametrize("scheme", ["mailto", "mailtos"])
def test_the_guard_holds_for_mail_as_well(closed: Sender, inside: Hook, scheme: str) -> None:
    address = f"127.0.0.1:{inside.port}?from=a@b.example&to=c@d.example&mode=insecure"
    with pytest.raises(EgressRefusedError):
        send(closed, f"{scheme}://me:s3cret@{address}")


@pytest.mark.parametrize("scheme", ["http", "json"])
def test_a_redirect_is_not_followed(open_to_one: Sender, other_inside: Hook, scheme: str) -> None:
    """Not even to where messages may go: whoever answers has no say in it."""
    with hook() as first, hook() as third:
        for target in (f"http://127.0.0.2:{other_inside.port}/", third.url()):
            first.answer, first.location = 302, target
            with pytest.raises(NotificationError) as error:
                send(open_to_one, f"{scheme}://127.0.0.1:{first.port}/?redirect=yes")
            assert target not in str(error.value)
        assert len(first.paths) == 2
        assert other_inside.paths == third.paths == []
        first.answer, first.location = 200, None
        send(open_to_one, f"{scheme}://127.0.0.1:{first.port}/hook")
        assert len(first.got) == 1


def test_a_name_that_changes_its_meaning_is_checked_as_it_is_used(inside: Hook) -> None:
    """A name that is public when it is looked at and private when it is connected to."""
    script = f"""
        import socket
        from headwater.catalog.alerting.egress import Egress
        import requests
        real, answers = socket.getaddrinfo, iter(["93.184.216.34", "127.0.0.1", "127.0.0.1"])
        def rebinding(host, port, *rest, **named):
            return real(next(answers), port, *rest, **named)
        socket.getaddrinfo = rebinding
        egress = Egress()
        egress.install()
        egress.check(socket.getaddrinfo("rebind.example", 80)[0][4][0])
        try:
            requests.get("http://rebind.example:{inside.port}/", timeout=5)
        except requests.ConnectionError:
            print("refused", egress.refused)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, timeout=60, check=True
    )
    assert done.stdout.decode().split() == ["refused", "127.0.0.1"]


def test_nothing_else_leaves_the_process(inside: Hook) -> None:
    """Neither datagrams nor programs nor sockets of the machine; nor can the guard be put off."""
    script = f"""
        import os, socket, subprocess, sys
        from headwater.catalog.alerting.egress import Egress
        Egress().install()
        def attempts():
            yield lambda: socket.socket(type=socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", 9))
            yield lambda: socket.socket(socket.AF_UNIX).connect("/tmp/x")
            yield lambda: socket.socket().connect(("localhost", {inside.port}))
            yield lambda: socket.create_connection(("127.0.0.1", {inside.port}))
            yield lambda: socket.socket().connect_ex(("127.0.0.1", {inside.port}))
            yield lambda: subprocess.run(["true"])
            yield lambda: os.system("true")
            yield lambda: os.fork()
        for attempt in attempts():
            try:
                attempt()
            except PermissionError:
                print("refused")
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)],
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.decode().split() == ["refused"] * 8


@pytest.mark.parametrize(
    "address",
    [
        "file:///etc/passwd",
        "gopher://x",
        "syslog://",
        "dbus://",
        "ftp://x",
        "s3cret",
        "",
        "exec://x",
    ],
)
def test_other_schemes_are_refused_without_being_shown(address: str) -> None:
    with pytest.raises(SettingError) as error:
        read_channels({"hook": SecretStr(address)})
    assert "HEADWATER_ALERTS__CHANNELS__HOOK" in str(error.value)
    assert "s3cret" not in f"{error.value} {error.value.hint} {error.value.facts}"


def test_a_receiver_that_never_answers_costs_a_bounded_time_and_no_thread() -> None:
    with hook() as slow:
        slow.delay = 60.0
        to = Sender(
            Channel("hook", "webhook", SecretStr(slow.url())),
            AlertsSettings(allow_private=("127.0.0.1/32",), send_seconds=1),
        )
        with pytest.raises(HeadwaterError):
            to.send(trial("hook"))
        to.close()
