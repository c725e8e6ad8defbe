"""Ids derived from names: the same event gives the same ids, on any machine and in any order.

Rows are written without a lookup, and two writers that create the same object concurrently write
the same row.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from uuid import UUID

Name = tuple[str, str]


def namespace_id(name: str) -> UUID:
    return _digest("namespace", name)


def source_id(name: str) -> UUID:
    return _digest("source", name)


def dataset_id(namespace: str, name: str) -> UUID:
    return _digest("dataset", namespace, name)


def job_id(namespace: str, name: str) -> UUID:
    return _digest("job", namespace, name)


def run_id_of(namespace: str, job: str, run: str) -> UUID:
    """The id of a run whose name is not a UUID."""
    return _digest("run", namespace, job, run)


def dataset_version_id(dataset: UUID, fields: UUID, lifecycle: str, run: UUID | None) -> UUID:
    """A version of a dataset: written by a run, or observed without a run."""
    return _digest("version", str(dataset), str(fields), lifecycle, str(run or ""))


def unversioned_id(dataset: UUID) -> UUID:
    """The only version of a dataset that no event has given a version, such as a plain input."""
    return dataset_version_id(dataset, UUID(int=0), "", None)


def incident_id(alert: str, subject: str, number: int) -> UUID:
    """An incident of an alert, numbered per job, dataset or the service (an empty subject)."""
    return _digest("incident", alert, subject, str(number))


def content_id(content: bytes) -> UUID:
    """The id of a text that is stored once, however often it is sent."""
    return UUID(bytes=hashlib.blake2b(content, digest_size=16).digest())


def job_version_id(
    namespace: str,
    name: str,
    inputs: Iterable[Name],
    outputs: Iterable[Name],
    location: str | None,
) -> UUID:
    """The version of a job, as Marquez computes it: its inputs, its outputs and its code location.

    A job that moves here from Marquez keeps its versions.
    """
    parts = [namespace, name, _joined(inputs), _joined(outputs)]
    text = ":".join([*parts, location] if location else parts)
    return UUID(bytes=hashlib.md5(text.encode(), usedforsecurity=False).digest(), version=3)


def _joined(names: Iterable[Name]) -> str:
    return ":".join(part for name in sorted(names) for part in name)


def _digest(*parts: str) -> UUID:
    # NUL can't be part of a name, so no two lists of parts give the same bytes.
    content = "\0".join(parts).encode("utf-8", "surrogatepass")
    return UUID(bytes=hashlib.blake2b(content, digest_size=16).digest())
