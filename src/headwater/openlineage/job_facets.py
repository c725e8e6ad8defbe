"""What people say of a job, by its name: part of every run of it in this process."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

_said: dict[str, dict[str, Mapping[str, Any]]] = {}
_access = threading.Lock()


def describe_job(job_name: str, job_facets: Mapping[str, Mapping[str, Any]]) -> None:
    """Put these facets on the job, in all events of runs that begin from now on."""
    with _access:
        _said[job_name] = {**_said.get(job_name, {}), **job_facets}


def described(job_name: str) -> dict[str, Mapping[str, Any]]:
    """The facets that were said of it."""
    with _access:
        return dict(_said.get(job_name, {}))
