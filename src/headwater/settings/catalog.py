"""The section of the lineage service."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from pydantic import Field, SecretStr

from headwater.settings.sections import Section


class CatalogSettings(Section):
    """The lineage service and its database."""

    renamed: ClassVar[Mapping[str, str]] = {
        "most_waiting_events": "max_queued_events",
        "most_named": "max_named",
    }

    url: str | None = Field(
        None,
        min_length=1,
        description="Where jobs send their lineage, such as `http://marquez:5000`. "
        "Default: the local service.",
    )
    api_key: SecretStr | None = Field(
        None, description="Key or token that jobs send with their lineage, as a bearer."
    )
    database_url: SecretStr | None = Field(
        None,
        description="A PostgreSQL (14 or newer) to use. When set, none is started locally.",
    )
    host: str = Field(
        "127.0.0.1",
        min_length=1,
        description="Address that the service listens on. Beyond loopback it asks for API keys "
        "or OIDC tokens.",
    )
    port: int = Field(5000, ge=1, le=65535, description="Port of the service's API.")
    page_port: int = Field(3000, ge=1, le=65535, description="Port of the service's page.")
    require_keys: bool = Field(
        False, description="Whether keys or tokens are asked for on loopback, too."
    )
    tls_certificate: Path | None = Field(
        None, description="Certificate chain (PEM) for HTTPS; goes with `tls_key`."
    )
    tls_key: Path | None = Field(None, description="Private key (PEM) of the certificate.")
    cors_origins: tuple[str, ...] = Field(
        (), description='Origins whose pages may call the API, such as `["https://lineage"]`.'
    )
    allowed_hosts: tuple[str, ...] = Field(
        (),
        description="Host names by which the service may be called; on loopback without keys "
        "only loopback names are answered.",
    )
    oidc_issuer: str | None = Field(
        None, description="Issuer of OIDC bearer tokens to accept, as in their `iss`."
    )
    oidc_audience: str | None = Field(None, description="What their `aud` must hold.")
    oidc_keys_url: str | None = Field(
        None, description="The issuer's key set (JWKS). Without it the issuer is asked for it."
    )
    oidc_roles_claim: str = Field(
        "roles", description="The claim with the roles `read`, `write` or `admin`."
    )
    max_body_mb: float = Field(
        16.0, gt=0, description="Largest body of a request, unpacked, in MiB; above it 413."
    )
    max_depth: int = Field(
        100, ge=10, le=200, description="Deepest nesting of JSON in a request; above it 413."
    )
    max_batch_events: int = Field(
        10_000, ge=1, description="Most events of one batch; above it 413."
    )
    max_rows: int = Field(
        1000, ge=1, description="Most entries of a list; more are cut with `truncated`."
    )
    max_nodes: int = Field(
        5000, ge=1, description="Most nodes of a graph; more are cut with `truncated`."
    )
    max_queries: int = Field(
        8, ge=1, description="Questions that are answered at once; others wait, then get 429."
    )
    max_connections: int = Field(
        1000, ge=1, description="Connections that are held at once; above it 503."
    )
    max_queued_events: int = Field(
        2000, ge=1, description="Events that may wait to be stored; above it 429."
    )
    query_seconds: float = Field(
        10.0, gt=0, description="How long one query may take; a graph is cut, others get 429."
    )
    body_seconds: float = Field(
        30.0, gt=0, description="How long a client may take to send its body; then 408."
    )
    max_named: int = Field(
        200,
        ge=1,
        le=10_000,
        description="Datasets and jobs that `/metrics` tells by name; all others are one, `other`.",
    )
    retention_days: float = Field(
        0.0,
        ge=0,
        description="Age at which events and runs are removed; the graph stays. 0: never.",
    )
