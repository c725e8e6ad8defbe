"""The process that sends alert messages: `python -m headwater.catalog.alerting.worker`.

The first line that comes in says where messages may go; then one comes for each message, and one
goes out for each answer. The guard of `egress` holds
for the whole process. Addresses come by the pipe, not by the command line or the environment, which
others may read; whatever libraries print goes nowhere, because they may print addresses.
"""

from __future__ import annotations

import json
import sys
from typing import Any, TextIO
from urllib.parse import quote, urlsplit, urlunsplit

from headwater.catalog.alerting.egress import Egress

_CONNECT_SECONDS = 5.0
_TYPES = {"info": "info", "warning": "warning", "critical": "failure"}


def main(incoming: TextIO, answers: TextIO) -> None:
    """Serve until the pipe is closed."""
    first = json.loads(incoming.readline() or "null")
    if first is None:
        return
    _load_libraries(everything=not first["webhook"])
    egress = Egress(first["allowed"])
    egress.install()
    for line in incoming:
        asked = json.loads(line)
        egress.refused = None
        try:
            problem = _send(asked)
        except Exception as error:
            # Its text may hold the address.
            problem = type(error).__name__
        answer = {"problem": problem, "refused": egress.refused if problem else None}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _load_libraries(*, everything: bool) -> None:
    """Before the guard: importing may look at the machine, sending may not."""
    import requests

    if everything:
        import apprise

        # Kinds of channels are imported when the first address is read, which takes a second.
        apprise.Apprise().details()
    send = requests.Session.send

    def without_redirects(self: Any, request: Any, **named: Any) -> Any:
        return send(self, request, **{**named, "allow_redirects": False})

    requests.Session.send = without_redirects  # type: ignore[method-assign]


def _send(asked: dict[str, Any]) -> str | None:
    """What went wrong; None if the message was taken."""
    if urlsplit(asked["address"]).scheme.lower() in ("http", "https"):
        return _post(asked)
    return _notify(asked)


def _post(asked: dict[str, Any]) -> str | None:
    import requests

    session = requests.Session()
    # Neither a proxy nor a password file of the machine has a say.
    session.trust_env = False
    payload = asked["payload"]
    try:
        with session.post(
            asked["address"],
            json=payload,
            headers={"Idempotency-Key": f"{payload['incident']}/{payload['state']}"},
            timeout=(_CONNECT_SECONDS, asked["seconds"]),
            # The answer's body is nobody's business: it is not even read.
            stream=True,
        ) as answer:
            status = answer.status_code
    except requests.Timeout:
        return "no answer in time"
    except requests.RequestException as error:
        return f"no connection ({type(error).__name__})"
    if 200 <= status < 300:
        return None
    if 300 <= status < 400:
        return f"answered {status}: redirects are not followed"
    return f"answered {status}"


def _notify(asked: dict[str, Any]) -> str | None:
    import apprise

    asset = apprise.AppriseAsset(
        app_id="Headwater", app_desc="Headwater", app_url="", async_mode=False
    )
    payload = asked["payload"]
    address = _for_incident(asked["address"], payload["incident"])
    channel = apprise.Apprise(asset=asset)
    if not channel.add(address):
        return "the address can't be read"
    kind = "success" if payload["state"] == "ended" else _TYPES[payload["severity"]]
    taken = channel.notify(
        body=payload["text"],
        title=payload["title"],
        notify_type=kind,
        # So that names with markup in them stay names, in mails that are HTML.
        body_format=apprise.NotifyFormat.TEXT,
    )
    return None if taken else "did not take the message"


def _for_incident(address: str, incident: str) -> str:
    """PagerDuty ends an incident by the key that it was opened with."""
    parts = urlsplit(address)
    if parts.scheme.lower() != "pagerduty":
        return address
    mapped = f"action=map&dedup={quote(incident)}"
    return urlunsplit(parts._replace(query=f"{parts.query}&{mapped}".lstrip("&")))


if __name__ == "__main__":
    answers_to = sys.stdout
    sys.stdout = sys.stderr
    main(sys.stdin, answers_to)
