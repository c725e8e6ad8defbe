"""The section of the lineage service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field, SecretStr

from headwater.settings.paths import LocalPath
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
        description="Address to which jobs send events, such as `http://marquez:5000`. "
        "Default: the local service.",
    )
    endpoint: str = Field(
        "api/v1/lineage",
        min_length=1,
        description="Path below `catalog.url` to which jobs send events.",
    )
    api_key: SecretStr | None = Field(
        None, description="API key or token that jobs send with events, as a bearer token."
    )
    database_url: SecretStr | None = Field(
        None,
        description="PostgreSQL (14 or newer) to use. When set, no local one is started.",
    )
    host: str = Field(
        "127.0.0.1",
        min_length=1,
        description="Address on which the service listens. Except on loopback, it requires API "
        "keys or OIDC tokens.",
    )
    port: int = Field(5000, ge=1, le=65535, description="Port of the API.")
    page_port: int = Field(3000, ge=1, le=65535, description="Port of the web page.")
    require_keys: bool = Field(
        False,
        description="Whether keys or tokens are required on loopback as well. Required with a "
        "proxy in front of the service.",
    )
    tls_certificate: LocalPath | None = Field(
        None, description="Certificate chain (PEM) for HTTPS; requires `tls_key`."
    )
    tls_key: LocalPath | None = Field(None, description="Private key (PEM) of the certificate.")
    cors_origins: tuple[str, ...] = Field(
        (), description='Origins that can call the API, such as `["https://lineage"]`.'
    )
    allowed_hosts: tuple[str, ...] = Field(
        (),
        description="Accepted values of the Host header. On loopback without keys, only loopback "
        "names are accepted.",
    )
    oidc_issuer: str | None = Field(
        None, description="Issuer of accepted OIDC bearer tokens (`iss`)."
    )
    oidc_audience: str | None = Field(None, description="Required audience of OIDC tokens (`aud`).")
    oidc_keys_url: str | None = Field(
        None, description="URL of the issuer's key set (JWKS). Default: discovered from the issuer."
    )
    oidc_roles_claim: str = Field(
        "roles", description="The claim with the roles `read`, `write` or `admin`."
    )
    oidc_namespaces_claim: str | None = Field(
        None,
        description="The claim with the namespaces that a token can access, `*` for all. Default: "
        "every token can access all namespaces.",
    )
    max_body_mb: float = Field(
        16.0,
        gt=0,
        description="Maximum size of a request body, decompressed, in MiB; above it 413.",
    )
    max_depth: int = Field(
        100, ge=10, le=200, description="Maximum nesting depth of JSON in a request; above it 413."
    )
    max_batch_events: int = Field(
        10_000, ge=1, description="Maximum number of events in a batch; above it 413."
    )
    max_future_seconds: float = Field(
        300.0,
        ge=0,
        le=315_360_000,
        description="How far ahead of its receipt the time of an event may be. An event with a "
        "later time counts as of its receipt; it is stored as it was sent.",
    )
    max_rows: int = Field(
        1000, ge=1, description="Maximum number of entries in a list; longer ones have `truncated`."
    )
    max_nodes: int = Field(
        5000, ge=1, description="Maximum number of nodes in a graph; larger ones have `truncated`."
    )
    max_queries: int = Field(
        8, ge=1, description="Maximum number of concurrent queries; others wait, then get 429."
    )
    max_response_mb: float = Field(
        8.0,
        gt=0,
        description="Maximum size of the facets and columns in a response, and of its other "
        "entries, in MiB; larger ones have `truncated`.",
    )
    max_connections: int = Field(
        1000,
        ge=1,
        description="Maximum number of open connections of each port. Above it those that wait "
        "for a request are closed, the oldest first; if none does, 503.",
    )
    max_queued_events: int = Field(
        2000, ge=1, description="Maximum number of events that wait to be stored; above it 429."
    )
    query_seconds: float = Field(
        10.0, gt=0, description="Timeout of a query; a graph is truncated, other queries get 429."
    )
    header_seconds: float = Field(
        10.0,
        gt=0,
        description="Timeout for the header of a request, from the start of the connection or of "
        "the request; then the connection is closed.",
    )
    body_seconds: float = Field(
        30.0, gt=0, description="Timeout for the body of a request; then 408."
    )
    drain_seconds: float = Field(
        0.0,
        ge=0,
        le=600,
        description="Time between SIGTERM and the closing of both ports. Readiness responds 503 "
        "meanwhile, so that a load balancer stops sending requests.",
    )
    max_named: int = Field(
        200,
        ge=1,
        le=10_000,
        description="Datasets and jobs with their own labels in `/metrics`; others are `other`.",
    )
    retention_days: float = Field(
        0.0,
        ge=0,
        description="Age at which events and runs are deleted; the graph is kept. 0: never.",
    )
