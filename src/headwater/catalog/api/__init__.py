"""The lineage service over HTTP: routes, who may use them, and how much."""

from headwater.catalog.api.app import create_app

__all__ = ["create_app"]
