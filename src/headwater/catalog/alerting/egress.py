"""Where messages may go: public addresses, and the networks that the operator allows.

The check stands where a connection is made, not where an address is read: Python tells every
`connect` to an audit hook before it happens, with the very address that is about to be used. So it
does not matter how a target was written (`2130706433`, `0177.0.0.1`, `[::ffff:127.0.0.1]`), what
its name meant a moment ago, or who sent a redirect; and no library can go around it. It is
installed in the process that sends (`headwater.catalog.alerting.worker`), which does nothing else.
"""

from __future__ import annotations

import ipaddress
import socket
import sys
from collections.abc import Sequence
from typing import Any

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# IPv6 networks whose addresses hold an IPv4 address that is reached in their stead.
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_COMPATIBLE = ipaddress.ip_network("::/96")
# For examples in texts (RFC 9637); not every Python knows that yet.
_EXAMPLES = ipaddress.ip_network("3fff::/20")
# What would leave this process, or send without connecting.
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
    """The rule, and what it refused last."""

    def __init__(self, allowed: Sequence[str] = ()) -> None:
        self._allowed = [ipaddress.ip_network(each) for each in allowed]
        self.refused: str | None = None

    def install(self) -> None:
        """From now on, for this whole process; there is no way back."""
        sys.addaudithook(self._audit)

    def check(self, host: str) -> None:
        """Raises:
        PermissionError: the address is not public, and not allowed. An OSError, so that
            libraries treat it like any other connection that fails.
        """
        try:
            address = ipaddress.ip_address(host.partition("%")[0])
        except ValueError:
            # A name would be looked up again behind the check.
            raise self._refuse("a name that was not looked up") from None
        real = embedded(address)
        if not any(real in network for network in self._allowed) and not is_public(real):
            raise self._refuse(str(real))

    def _audit(self, event: str, values: tuple[Any, ...]) -> None:
        if event == "socket.connect":
            _, address = values
            if not isinstance(address, tuple) or not address:
                raise self._refuse("a socket of this machine")
            self.check(str(address[0]))
        elif event in _REFUSED:
            raise self._refuse(event)

    def _refuse(self, what: str) -> PermissionError:
        self.refused = what
        return PermissionError(f"not allowed: {what}")


def embedded(address: Address) -> Address:
    """The address that is really reached."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    found = address.ipv4_mapped or address.sixtofour
    if found is None and (address in _NAT64 or (address in _COMPATIBLE and int(address) > 1)):
        found = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return found or address


def is_public(address: Address) -> bool:
    """Whether anybody on the internet could mean the same machine by it."""
    if address.is_multicast or address.is_unspecified or address.is_reserved:
        return False
    if isinstance(address, ipaddress.IPv6Address) and (address.is_site_local or address.teredo):
        return False
    return address.is_global and address not in _EXAMPLES


def resolve(host: str, port: int) -> list[str]:
    """All addresses of a name, as a connection would try them."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(each[4][0]) for each in found))
