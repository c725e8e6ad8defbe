"""The durable queue of OpenLineage events on disk, and its sender."""
