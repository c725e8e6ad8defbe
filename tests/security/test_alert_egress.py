"""Alert messages are sent only to public addresses, however the target is written.

The tests use the real sending process, and real servers on this machine that record every request.
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
from headwater.catalog.alerting.messages import sample_message
from headwater.catalog.alerting.sending import ChannelSender
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
def test_a_public_address_is_accepted(address: str) -> None:
    Egress().check(address)


@pytest.mark.parametrize("text", ["localhost", "example.com", "", "2130706433", "0177.0.0.1"])
def test_a_target_that_is_not_an_ip_address_when_connecting_is_refused(text: str) -> None:
    with pytest.raises(PermissionError):
        Egress(["0.0.0.0/0", "::/0"]).check(text)


def test_only_the_allowed_networks_are_accepted() -> None:
    egress = Egress(["10.1.0.0/16", "fd00::/8"])
    for allowed in ("10.1.2.3", "::ffff:10.1.2.3", "fd00::1"):
        egress.check(allowed)
    for refused in ("10.2.0.1", "127.0.0.1", "::1"):
        with pytest.raises(PermissionError):
            egress.check(refused)


def test_an_ipv4_address_embedded_in_ipv6_is_the_one_that_is_checked() -> None:
    for text in ("::ffff:1.2.3.4", "2002:102:304::", "64:ff9b::102:304", "::1.2.3.4"):
        assert embedded(ipaddress.ip_address(text)) == ipaddress.ip_address("1.2.3.4")
    assert not is_public(embedded(ipaddress.ip_address("::1")))


def started_sender(*allowed: str) -> ChannelSender:
    settings = AlertsSettings(allow_private=allowed, send_seconds=10)
    sender = ChannelSender(Channel("hook", "webhook", SecretStr("json://unused")), settings)
    sender.warm()
    return sender


@pytest.fixture(scope="module")
def public_only() -> Iterator[ChannelSender]:
    """A sending process that may connect to public addresses only."""
    sender = started_sender()
    yield sender
    sender.close()


@pytest.fixture(scope="module")
def allowing_localhost() -> Iterator[ChannelSender]:
    """A sending process that may also connect to 127.0.0.1."""
    sender = started_sender("127.0.0.1/32")
    yield sender
    sender.close()


@pytest.fixture(scope="module")
def internal() -> Iterator[Hook]:
    """A server on all addresses of loopback, to which nothing may connect."""
    with hook("::" if socket.has_dualstack_ipv6() else "0.0.0.0") as server:
        yield server


@pytest.fixture(scope="module")
def other_internal() -> Iterator[Hook]:
    with hook("127.0.0.2") as server:
        yield server


def send(sender: ChannelSender, address: str) -> None:
    sender.channel = Channel("hook", "webhook", SecretStr(address))
    sender.send(sample_message("hook"))


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
    public_only: ChannelSender, internal: Hook, scheme: str, host: str
) -> None:
    before = list(internal.paths)
    with pytest.raises((EgressRefusedError, NotificationError)) as error:
        send(public_only, f"{scheme}://me:s3cret@{host}:{internal.port}/t0ken")
    assert internal.paths == before
    # Apprise refuses some spellings before the guard is reached; plain http does not.
    if scheme == "http":
        assert "HEADWATER_ALERTS__ALLOW_PRIVATE" in str(error.value.hint)
    assert "s3cret" not in f"{error.value} {error.value.attributes}"


@pytest.mark.parametrize("host", ["169.254.169.254", "10.255.255.1", "[fd00::1]"])
def test_neither_the_metadata_service_nor_private_machines_are_reached(
    public_only: ChannelSender, host: str
) -> None:
    with pytest.raises(EgressRefusedError):
        send(public_only, f"http://{host}/latest/meta-data")


@pytest.mark.parametrize("scheme", ["mailto", "mailtos"])
def test_the_guard_also_applies_to_mail(
    public_only: ChannelSender, internal: Hook, scheme: str
) -> None:
    address = f"127.0.0.1:{internal.port}?from=a@b.example&to=c@d.example&mode=insecure"
    with pytest.raises(EgressRefusedError):
        send(public_only, f"{scheme}://me:s3cret@{address}")


@pytest.mark.parametrize("scheme", ["http", "json"])
def test_a_redirect_is_not_followed(
    allowing_localhost: ChannelSender, other_internal: Hook, scheme: str
) -> None:
    """Not even to an allowed address: the receiver must not choose the target."""
    with hook() as first, hook() as third:
        for target in (f"http://127.0.0.2:{other_internal.port}/", third.url()):
            first.answer, first.location = 302, target
            with pytest.raises(NotificationError) as error:
                send(allowing_localhost, f"{scheme}://127.0.0.1:{first.port}/?redirect=yes")
            assert target not in str(error.value)
        assert len(first.paths) == 2
        assert other_internal.paths == third.paths == []
        first.answer, first.location = 200, None
        send(allowing_localhost, f"{scheme}://127.0.0.1:{first.port}/hook")
        assert len(first.got) == 1


def test_the_address_is_checked_when_connecting_so_that_dns_rebinding_fails(internal: Hook) -> None:
    """The name resolves to a public address when it is checked, and to a private one later."""
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
            requests.get("http://rebind.example:{internal.port}/", timeout=5)
        except requests.ConnectionError:
            print("refused", egress.refused)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, timeout=60, check=True
    )
    assert done.stdout.decode().split() == ["refused", "127.0.0.1"]


def test_datagrams_programs_and_unix_sockets_are_refused(internal: Hook) -> None:
    script = f"""
        import os, socket, subprocess, sys
        from headwater.catalog.alerting.egress import Egress
        Egress().install()
        def attempts():
            yield lambda: socket.socket(type=socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", 9))
            yield lambda: socket.socket(socket.AF_UNIX).connect("/tmp/x")
            yield lambda: socket.socket().connect(("localhost", {internal.port}))
            yield lambda: socket.create_connection(("127.0.0.1", {internal.port}))
            yield lambda: socket.socket().connect_ex(("127.0.0.1", {internal.port}))
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
    assert "s3cret" not in f"{error.value} {error.value.hint} {error.value.attributes}"


def test_sending_to_a_receiver_that_never_responds_times_out() -> None:
    with hook() as slow:
        slow.delay = 60.0
        sender = ChannelSender(
            Channel("hook", "webhook", SecretStr(slow.url())),
            AlertsSettings(allow_private=("127.0.0.1/32",), send_seconds=1),
        )
        with pytest.raises(HeadwaterError):
            sender.send(sample_message("hook"))
        sender.close()
