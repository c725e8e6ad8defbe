"""From the bytes of an OpenLineage event to rows. Pure: no clock, no database, no network."""

from headwater.catalog.ingest.bad_event import BadEventError
from headwater.catalog.ingest.event import DatasetRef, Event, Kind, read_event
from headwater.catalog.ingest.json_text import parse_json
from headwater.catalog.ingest.projection import Projection, project

__all__ = [
    "BadEventError",
    "DatasetRef",
    "Event",
    "Kind",
    "Projection",
    "parse_json",
    "project",
    "read_event",
]
