"""The process that sends alert messages: `python -m headwater.catalog.alerting.worker`.

The first input line is the configuration; each further line is a message, which is answered with
one output line. The checks of `egress` apply to the entire process. Addresses are passed through
the pipe, because other users can read the command line and the environment. The output of
libraries is discarded, because it may contain addresses.
"""

from __future__ import annotations

import json
import sys
from typing import Any, TextIO
from urllib.parse import quote, urlsplit, urlunsplit

from headwater.catalog.alerting.egress import Egress

_CONNECT_SECONDS = 5.0
_TYPES = {"info": "info", "warning": "warning", "critical": "failure"}


def main(incoming: TextIO, responses: TextIO) -> None:
    """Serve until the pipe is closed."""
    configuration = json.loads(incoming.readline() or "null")
    if configuration is None:
        return
    _load_libraries(everything=not configuration["webhook"])
    egress = Egress(configuration["allowed"])
    egress.install()
    for line in incoming:
        request = json.loads(line)
        egress.refused = None
        try:
            problem = _send(request)
        except Exception as error:
            # Its message may contain the address.
            problem = type(error).__name__
        response = {"problem": problem, "refused": egress.refused if problem else None}
        responses.write(json.dumps(response) + "\n")
        responses.flush()


def _load_libraries(*, everything: bool) -> None:
    """Import before the checks are installed: imports may start processes, sending may not."""
    import requests

    if everything:
        import apprise

        # Apprise imports its plugins when it parses the first address, which takes a second.
        apprise.Apprise().details()
    send = requests.Session.send

    def without_redirects(self: Any, request: Any, **named: Any) -> Any:
        return send(self, request, **{**named, "allow_redirects": False})

    requests.Session.send = without_redirects  # type: ignore[method-assign]


def _send(request: dict[str, Any]) -> str | None:
    """Send a message; the error, or None if it was accepted."""
    if urlsplit(request["address"]).scheme.lower() in ("http", "https"):
        return _post(request)
    return _notify(request)


def _post(request: dict[str, Any]) -> str | None:
    import requests

    session = requests.Session()
    # Ignore the proxies and password files of the machine.
    session.trust_env = False
    payload = request["payload"]
    try:
        with session.post(
            request["address"],
            json=payload,
            headers={"Idempotency-Key": f"{payload['incident']}/{payload['state']}"},
            timeout=(_CONNECT_SECONDS, request["seconds"]),
            # The body of the response is not read.
            stream=True,
        ) as response:
            status = response.status_code
    except requests.Timeout:
        return "no response in time"
    except requests.RequestException as error:
        return f"no connection ({type(error).__name__})"
    if 200 <= status < 300:
        return None
    if 300 <= status < 400:
        return f"answered {status}: redirects are not followed"
    return f"answered {status}"


def _notify(request: dict[str, Any]) -> str | None:
    import apprise

    asset = apprise.AppriseAsset(
        app_id="Headwater", app_desc="Headwater", app_url="", async_mode=False
    )
    payload = request["payload"]
    address = _for_incident(request["address"], payload["incident"])
    channel = apprise.Apprise(asset=asset)
    if not channel.add(address):
        return "the address is invalid"
    kind = "success" if payload["state"] == "ended" else _TYPES[payload["severity"]]
    accepted = channel.notify(
        body=payload["text"],
        title=payload["title"],
        notify_type=kind,
        # Escapes markup in names if the mail is HTML.
        body_format=apprise.NotifyFormat.TEXT,
    )
    return None if accepted else "did not accept the message"


def _for_incident(address: str, incident: str) -> str:
    """PagerDuty resolves an incident by the key with which it was opened."""
    parts = urlsplit(address)
    if parts.scheme.lower() != "pagerduty":
        return address
    mapped = f"action=map&dedup={quote(incident)}"
    return urlunsplit(parts._replace(query=f"{parts.query}&{mapped}".lstrip("&")))


if __name__ == "__main__":
    stdout = sys.stdout
    sys.stdout = sys.stderr
    main(sys.stdin, stdout)
