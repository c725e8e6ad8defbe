"""Parses OpenLineage events and projects them to rows. No clock, database or network."""

from headwater.catalog.ingest.checks import BadEventError
from headwater.catalog.ingest.event import DatasetRef, Event, EventKind, Receipt, read_event
from headwater.catalog.ingest.grants import limit_event
from headwater.catalog.ingest.json_text import parse_json
from headwater.catalog.ingest.projection import Projection, project

__all__ = [
    "BadEventError",
    "DatasetRef",
    "Event",
    "EventKind",
    "Projection",
    "Receipt",
    "limit_event",
    "parse_json",
    "project",
    "read_event",
]
