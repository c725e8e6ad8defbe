"""Variables that Kubernetes sets for pods."""

from __future__ import annotations

import re

# What Kubernetes sets for the ports of a Service.
_SERVICE_URLS = ("tcp://", "udp://", "sctp://")
_SERVICE_PORT = re.compile(r"_PORT_\d{1,5}_(?:TCP|UDP|SCTP)(?:_(?:ADDR|PORT|PROTO))?$")


def is_of_kubernetes(name: str, value: str) -> bool:
    """Whether it is a variable that pods get for a Service whose name begins with `headwater`.

    Such as `HEADWATER_CATALOG_SERVICE_PORT_HTTP` or `HEADWATER_PORT_5000_TCP_ADDR`.
    `HEADWATER_KAFKA_PORT=9092` is a mistyped setting: the variable of a Service has a URL.
    """
    if "__" in name:
        return False
    if name.endswith("_SERVICE_HOST") or "_SERVICE_PORT" in name:
        return True
    return value.startswith(_SERVICE_URLS) or _SERVICE_PORT.search(name) is not None
