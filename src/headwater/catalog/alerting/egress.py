"""Restricts connections to public addresses and the networks that the operator allows.

The check runs when a connection is made, not when an address is parsed: Python calls audit hooks
before every `connect`, with the actual address. So neither the notation of a target (`2130706433`,
`0177.0.0.1`, `[::ffff:127.0.0.1]`) nor DNS rebinding nor a redirect matters, and no library can
bypass it. It is installed in the sending process (`headwater.catalog.alerting.worker`), which does
nothing else.
"""

from __future__ import annotations

import ipaddress
import sys
from collections.abc import Sequence
from typing import Any

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# IPv6 networks whose addresses embed the IPv4 address that is actually reached.
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_COMPATIBLE = ipaddress.ip_network("::/96")
# Documentation prefix (RFC 9637); not all supported Python versions know it.
_EXAMPLES = ipaddress.ip_network("3fff::/20")
# Audit events of starting a process, or of sending without a connection.
_REFUSED = (
    "os.exec",
    "os.fork",
    "os.forkpty",
    "os.posix_spawn",
    "os.spawn",
    "os.system",
    "pty.spawn",
    "socket.bind",
    "socket.sendmsg",
    "socket.sendto",
    "subprocess.Popen",
)


class Egress:
    """The audit hook, and the target that it refused last."""

    def __init__(self, allowed: Sequence[str] = ()) -> None:
        self._allowed = [ipaddress.ip_network(each) for each in allowed]
        self.refused: str | None = None

    def install(self) -> None:
        """Install the hook for this process; it can't be removed."""
        sys.addaudithook(self._audit)

    def check(self, host: str) -> None:
        """Check an address before a connection.

        Raises:
            PermissionError: it is neither public nor allowed. An OSError, so that libraries treat
                it like any other failed connection.
        """
        try:
            address = ipaddress.ip_address(host.partition("%")[0])
        except ValueError:
            # A name would be resolved again after the check.
            raise self._refuse("an unresolved name") from None
        effective = embedded(address)
        if not any(effective in network for network in self._allowed) and not is_public(effective):
            raise self._refuse(str(effective))

    def _audit(self, event: str, values: tuple[Any, ...]) -> None:
        if event == "socket.connect":
            _, address = values
            if not isinstance(address, tuple) or not address:
                raise self._refuse("a local socket")
            self.check(str(address[0]))
        elif event in _REFUSED:
            raise self._refuse(event)

    def _refuse(self, what: str) -> PermissionError:
        self.refused = what
        return PermissionError(f"not allowed: {what}")


def embedded(address: Address) -> Address:
    """The address that is actually reached."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    ipv4 = address.ipv4_mapped or address.sixtofour
    if ipv4 is None and (address in _NAT64 or (address in _COMPATIBLE and int(address) > 1)):
        ipv4 = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return ipv4 or address


def is_public(address: Address) -> bool:
    """Whether the address is globally routable."""
    if address.is_multicast or address.is_unspecified or address.is_reserved:
        return False
    if isinstance(address, ipaddress.IPv6Address) and (address.is_site_local or address.teredo):
        return False
    return address.is_global and address not in _EXAMPLES
