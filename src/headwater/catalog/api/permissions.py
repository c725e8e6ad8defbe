"""Which role each route asks for: one table, and no route beside it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum


class Role(IntEnum):
    """Each may do what those before it may do."""

    OPEN = 0
    READ = 1
    WRITE = 2
    ADMIN = 3


_NS = "/api/v1/namespaces/{namespace}"
_JOB = f"{_NS}/jobs/{{job}}"
_DATASET = f"{_NS}/datasets/{{dataset}}"
_RUN = "/api/v1/jobs/runs/{id}"
_RECORD = "/api/v1/records/{topic}/{partition}/{offset}"

RULES: Mapping[tuple[str, str], Role] = {
    ("GET", "/api/v1/health"): Role.OPEN,
    ("GET", "/api/v1/openapi.json"): Role.READ,
    ("POST", "/api/v1/lineage"): Role.WRITE,
    ("POST", "/api/v1/lineage/batch"): Role.WRITE,
    ("GET", "/api/v1/lineage"): Role.READ,
    ("GET", "/api/v1/graph"): Role.READ,
    ("GET", "/api/v1/column-lineage"): Role.READ,
    ("GET", "/api/v1/runlineage/upstream"): Role.READ,
    ("GET", "/api/v1/events/lineage"): Role.READ,
    ("GET", "/api/v1/search"): Role.READ,
    ("GET", "/api/v2beta/search/jobs"): Role.READ,
    ("GET", "/api/v2beta/search/datasets"): Role.READ,
    # Names of jobs and datasets are in them: they are for those who may read the catalog.
    ("GET", "/metrics"): Role.READ,
    ("GET", "/api/v1/metrics/now"): Role.READ,
    ("GET", "/api/v1/metrics/history"): Role.READ,
    ("GET", "/api/v1/alerts"): Role.READ,
    ("GET", "/api/v1/alerts/incidents"): Role.READ,
    ("GET", _RECORD): Role.READ,
    ("GET", f"{_RECORD}/ancestry"): Role.READ,
    ("GET", f"{_RECORD}/impact"): Role.READ,
    ("GET", f"{_RECORD}/replay"): Role.READ,
    ("GET", "/api/v1/stats/lineage-events"): Role.READ,
    ("GET", "/api/v1/stats/jobs"): Role.READ,
    ("GET", "/api/v1/stats/datasets"): Role.READ,
    ("GET", "/api/v1/stats/sources"): Role.READ,
    ("GET", "/api/v1/namespaces"): Role.READ,
    ("GET", _NS): Role.READ,
    ("PUT", _NS): Role.WRITE,
    ("DELETE", _NS): Role.ADMIN,
    ("GET", "/api/v1/sources"): Role.READ,
    ("GET", "/api/v1/sources/{source}"): Role.READ,
    ("PUT", "/api/v1/sources/{source}"): Role.WRITE,
    ("GET", "/api/v1/tags"): Role.READ,
    ("PUT", "/api/v1/tags/{name}"): Role.WRITE,
    ("GET", f"{_NS}/datasets"): Role.READ,
    ("GET", _DATASET): Role.READ,
    ("PUT", _DATASET): Role.WRITE,
    ("DELETE", _DATASET): Role.ADMIN,
    ("GET", f"{_DATASET}/versions"): Role.READ,
    ("GET", f"{_DATASET}/versions/{{version}}"): Role.READ,
    ("POST", f"{_DATASET}/tags/{{tag}}"): Role.WRITE,
    ("DELETE", f"{_DATASET}/tags/{{tag}}"): Role.WRITE,
    ("POST", f"{_DATASET}/fields/{{field}}/tags/{{tag}}"): Role.WRITE,
    ("DELETE", f"{_DATASET}/fields/{{field}}/tags/{{tag}}"): Role.WRITE,
    ("GET", "/api/v1/jobs"): Role.READ,
    ("GET", f"{_NS}/jobs"): Role.READ,
    ("GET", _JOB): Role.READ,
    ("PUT", _JOB): Role.WRITE,
    ("DELETE", _JOB): Role.ADMIN,
    ("GET", f"{_JOB}/versions"): Role.READ,
    ("GET", f"{_JOB}/versions/{{version}}"): Role.READ,
    ("POST", f"{_JOB}/tags/{{tag}}"): Role.WRITE,
    ("DELETE", f"{_JOB}/tags/{{tag}}"): Role.WRITE,
    ("GET", f"{_JOB}/runs"): Role.READ,
    ("POST", f"{_JOB}/runs"): Role.WRITE,
    ("GET", "/api/v1/jobs/runs"): Role.READ,
    ("GET", _RUN): Role.READ,
    ("GET", f"{_RUN}/facets"): Role.READ,
    ("GET", f"{_RUN}/batches"): Role.READ,
    ("POST", f"{_RUN}/start"): Role.WRITE,
    ("POST", f"{_RUN}/complete"): Role.WRITE,
    ("POST", f"{_RUN}/fail"): Role.WRITE,
    ("POST", f"{_RUN}/abort"): Role.WRITE,
}

# Routes whose events name their namespace; the handler compares it with the key's.
NAMED_IN_BODY = frozenset({("POST", "/api/v1/lineage"), ("POST", "/api/v1/lineage/batch")})
