"""The SQL statements that merge a projection into the tables.

Each takes one JSON document with all rows of its table, in the order of their keys. The statements
also run in a fixed order, so two writers lock rows in the same order. Every merge is a minimum, a
maximum or the latest value: the result does not depend on the order of events.
"""

from __future__ import annotations

from headwater.catalog.ingest.rows import END_STATES


def _facets(table: str, column: str = "facets") -> str:
    """Newer facets replace the stored ones; only late facets need the slow merge."""
    return f"""
    {column} = CASE WHEN {table}.{column}_at < excluded.{column}_from
        THEN {table}.{column} || excluded.{column}
        ELSE merge_facets({table}.{column}, excluded.{column}) END,
    {column}_from = least({table}.{column}_from, excluded.{column}_from),
    {column}_at = greatest({table}.{column}_at, excluded.{column}_at)"""


# Of several ends of a run the last one of these is kept, then the latest.
_ENDS = f"ARRAY[{', '.join(repr(state) for state in END_STATES)}]"

# Compares texts as Python does: the result must not depend on the collation of the database, nor on
# which events arrive in one transaction.
_TEXT = ' COLLATE "C"'


def _later(table: str, value: str, at: str, collate: str = "") -> str:
    """The latest value; at the same time, the greater one."""
    return f"""
    {value} = CASE WHEN excluded.{at} IS NOT NULL AND ({table}.{at} IS NULL
        OR ({table}.{at}, {table}.{value}{collate})
            < (excluded.{at}, excluded.{value}{collate}))
        THEN excluded.{value} ELSE {table}.{value} END,
    {at} = greatest({table}.{at}, excluded.{at})"""


NAMESPACES = """
INSERT INTO namespaces (id, name, created_at, updated_at)
SELECT id, name, at, at FROM json_to_recordset(%s) AS x(id uuid, name text, at timestamptz)
ON CONFLICT (id) DO UPDATE SET
    created_at = least(namespaces.created_at, excluded.created_at),
    updated_at = CASE WHEN namespaces.updated_at = namespaces.created_at
        THEN least(namespaces.updated_at, excluded.updated_at) ELSE namespaces.updated_at END,
    hidden = false
WHERE namespaces.hidden OR excluded.created_at < namespaces.created_at
"""

SOURCES = f"""
INSERT INTO sources (id, name, type, connection_url, url_at, created_at, updated_at)
SELECT id, name, type, connection_url, url_at, first, last FROM json_to_recordset(%s)
    AS x(id uuid, name text, type text, connection_url text, url_at timestamptz,
         first timestamptz, last timestamptz)
ON CONFLICT (id) DO UPDATE SET
    created_at = least(sources.created_at, excluded.created_at),
    updated_at = greatest(sources.updated_at, excluded.updated_at),
    type = CASE WHEN (sources.url_at, sources.connection_url{_TEXT})
        < (excluded.url_at, excluded.connection_url{_TEXT})
        THEN excluded.type ELSE sources.type END,
    {_later("sources", "connection_url", "url_at", _TEXT)}
"""

# Sources that a limited key named. Any other event replaces the address, whatever its time.
SOURCE_NAMES = """
INSERT INTO sources (id, name, type, connection_url, url_at, created_at, updated_at)
SELECT id, name, type, '', to_timestamp(0), at, at FROM json_to_recordset(%s)
    AS x(id uuid, name text, type text, at timestamptz)
ON CONFLICT (id) DO NOTHING
"""

DATASETS = f"""
INSERT INTO datasets (id, namespace_id, namespace, name, canonical_id, source, source_at,
    created_at, updated_at, facets, facets_from, facets_at)
SELECT id, namespace_id, namespace, name, id, source, source_at, first, last,
    facets, facets_from, facets_at FROM json_to_recordset(%s)
    AS x(id uuid, namespace_id uuid, namespace text, name text, source text,
         source_at timestamptz, first timestamptz, last timestamptz,
         facets jsonb, facets_from bigint, facets_at bigint)
ON CONFLICT (id) DO UPDATE SET
    created_at = CASE WHEN datasets.reference THEN excluded.created_at
        ELSE least(datasets.created_at, excluded.created_at) END,
    updated_at = CASE WHEN datasets.reference THEN excluded.updated_at
        ELSE greatest(datasets.updated_at, excluded.updated_at) END,
    hidden = false,
    reference = false,
    {_later("datasets", "source", "source_at", _TEXT)},
    {_facets("datasets")}
"""

# Datasets that a limited key named for another namespace: a node for its edges, and nothing else.
REFERENCES = """
INSERT INTO datasets (id, namespace_id, namespace, name, canonical_id, created_at, updated_at,
    reference)
SELECT id, namespace_id, namespace, name, id, first, last, true FROM json_to_recordset(%s)
    AS x(id uuid, namespace_id uuid, namespace text, name text, first timestamptz,
         last timestamptz)
ON CONFLICT (id) DO NOTHING
"""

SYMLINKS = """
INSERT INTO symlinks (alias_id, dataset_id, seen_at)
SELECT alias_id, dataset_id, at FROM json_to_recordset(%s)
    AS x(alias_id uuid, dataset_id uuid, at timestamptz)
ON CONFLICT (alias_id, dataset_id) DO UPDATE
    SET seen_at = least(symlinks.seen_at, excluded.seen_at)
    WHERE symlinks.seen_at > excluded.seen_at
RETURNING alias_id, dataset_id
"""

# All links connected to the datasets, in both directions.
SYMLINK_FAMILY = """
WITH RECURSIVE family(id) AS (
    SELECT unnest(%s::uuid[])
    UNION
    SELECT CASE WHEN s.alias_id = f.id THEN s.dataset_id ELSE s.alias_id END
    FROM family f JOIN symlinks s ON s.alias_id = f.id OR s.dataset_id = f.id
)
SELECT s.alias_id, s.dataset_id, s.seen_at
FROM symlinks s WHERE s.alias_id IN (SELECT id FROM family) LIMIT 10000
"""

CANONICAL = """
UPDATE datasets SET canonical_id = x.canonical_id
FROM json_to_recordset(%s) AS x(id uuid, canonical_id uuid)
WHERE datasets.id = x.id AND datasets.canonical_id <> x.canonical_id
RETURNING datasets.id
"""

# Runs whose version depends on the canonical name of one of the datasets. Limited, because one
# event must not update thousands of runs: older runs keep their version.
RUNS_OF_DATASETS = """
SELECT DISTINCT rd.run_id FROM edges e
CROSS JOIN LATERAL (
    SELECT id FROM runs WHERE job_id = e.job_id ORDER BY seen_at DESC, id DESC LIMIT 100
) r
JOIN run_datasets rd ON rd.run_id = r.id AND rd.dataset_id = e.dataset_id
WHERE e.dataset_id = ANY(%s) LIMIT 10000
"""

# An event that uses an alias restores a deleted dataset.
REVIVED = """
UPDATE datasets c SET hidden = false FROM datasets a
WHERE a.id = ANY(%s) AND a.canonical_id <> a.id AND c.id = a.canonical_id AND c.hidden
"""

DOCUMENTS = """
INSERT INTO documents (dataset_id, hash, body)
SELECT dataset_id, hash, body FROM json_to_recordset(%s)
    AS x(dataset_id uuid, hash uuid, body text)
ON CONFLICT (dataset_id, hash) DO UPDATE SET sent_at = now()
    WHERE documents.sent_at < now() - interval '1 hour'
"""

VERSIONS = f"""
INSERT INTO dataset_versions (id, dataset_id, run_id, created_at, last_seen, written_at, fields,
    lifecycle, read, facets, facets_from, facets_at)
SELECT id, dataset_id, run_id, first, last, written_at, fields, lifecycle, read, facets,
    facets_from, facets_at FROM json_to_recordset(%s)
    AS x(id uuid, dataset_id uuid, run_id uuid, first timestamptz, last timestamptz,
         written_at timestamptz, fields uuid, lifecycle text, read boolean, facets jsonb,
         facets_from bigint, facets_at bigint)
ON CONFLICT (id) DO UPDATE SET
    read = dataset_versions.read AND excluded.read,
    created_at = least(dataset_versions.created_at, excluded.created_at),
    last_seen = greatest(dataset_versions.last_seen, excluded.last_seen),
    written_at = greatest(dataset_versions.written_at, excluded.written_at),
    {_facets("dataset_versions")}
"""

JOBS = f"""
INSERT INTO jobs (id, namespace_id, namespace, name, parent_id, parent_at, created_at, updated_at,
    facets, facets_from, facets_at, own_facets, own_facets_from, own_facets_at)
SELECT id, namespace_id, namespace, name, parent_id, parent_at, first, last, facets, facets_from,
    facets_at, own_facets, own_facets_from, own_facets_at FROM json_to_recordset(%s)
    AS x(id uuid, namespace_id uuid, namespace text, name text, parent_id uuid,
         parent_at timestamptz, first timestamptz, last timestamptz,
         facets jsonb, facets_from bigint, facets_at bigint,
         own_facets jsonb, own_facets_from bigint, own_facets_at bigint)
ON CONFLICT (id) DO UPDATE SET
    created_at = least(jobs.created_at, excluded.created_at),
    updated_at = greatest(jobs.updated_at, excluded.updated_at),
    hidden = false,
    {_later("jobs", "parent_id", "parent_at")},
    {_facets("jobs")},
    {_facets("jobs", "own_facets")}
"""

_END = f"""excluded.end_state IS NOT NULL AND (runs.end_state IS NULL OR runs.closed OR
        (array_position({_ENDS}, runs.end_state), runs.ended_at)
            < (array_position({_ENDS}, excluded.end_state), excluded.ended_at))"""

RUNS = f"""
INSERT INTO runs (id, job_id, job_at, job_told, seen_at, last_event_at, started_at, running_at,
    ended_at, end_state, completed, streaming, parent_run_id, facets, facets_from, facets_at,
    job_facets, job_facets_from, job_facets_at)
SELECT id, job_id, job_at, job_told, seen_at, last_event_at, started_at, running_at, ended_at,
    end_state, completed, streaming, parent_run_id, facets, facets_from, facets_at,
    job_facets, job_facets_from, job_facets_at FROM json_to_recordset(%s)
    AS x(id uuid, job_id uuid, job_at timestamptz, job_told boolean, seen_at timestamptz,
         last_event_at timestamptz, started_at timestamptz, running_at timestamptz,
         ended_at timestamptz, end_state text, completed boolean, streaming boolean,
         parent_run_id uuid, facets jsonb, facets_from bigint, facets_at bigint,
         job_facets jsonb, job_facets_from bigint, job_facets_at bigint)
ON CONFLICT (id) DO UPDATE SET
    job_id = CASE WHEN (NOT excluded.job_told, excluded.job_at, excluded.job_id)
        < (NOT runs.job_told, runs.job_at, runs.job_id)
        THEN excluded.job_id ELSE runs.job_id END,
    job_at = CASE WHEN excluded.job_told = runs.job_told
        THEN least(runs.job_at, excluded.job_at)
        WHEN excluded.job_told THEN excluded.job_at ELSE runs.job_at END,
    job_told = runs.job_told OR excluded.job_told,
    seen_at = least(runs.seen_at, excluded.seen_at),
    last_event_at = greatest(runs.last_event_at, excluded.last_event_at),
    started_at = least(runs.started_at, excluded.started_at),
    running_at = least(runs.running_at, excluded.running_at),
    end_state = CASE WHEN {_END} THEN excluded.end_state ELSE runs.end_state END,
    ended_at = CASE WHEN {_END} THEN excluded.ended_at ELSE runs.ended_at END,
    closed = runs.closed AND excluded.end_state IS NULL,
    completed = runs.completed OR excluded.completed,
    streaming = runs.streaming OR excluded.streaming,
    parent_run_id = greatest(runs.parent_run_id, excluded.parent_run_id),
    {_facets("runs")},
    {_facets("runs", "job_facets")}
"""

RUN_DATASETS = f"""
INSERT INTO run_datasets (run_id, dataset_id, output, at, version_id, version_at, described,
    facets, facets_from, facets_at)
SELECT run_id, dataset_id, output, at, version_id, version_at, described, facets, facets_from,
    facets_at FROM json_to_recordset(%s)
    AS x(run_id uuid, dataset_id uuid, output boolean, at timestamptz, version_id uuid,
         version_at timestamptz, described boolean, facets jsonb, facets_from bigint,
         facets_at bigint)
ON CONFLICT (run_id, dataset_id, output) DO UPDATE SET
    described = run_datasets.described OR excluded.described,
    at = greatest(run_datasets.at, excluded.at),
    {_later("run_datasets", "version_id", "version_at")},
    {_facets("run_datasets")}
"""

EDGES = """
INSERT INTO edges (job_id, dataset_id, output, first_seen, last_seen)
SELECT job_id, dataset_id, output, first, last FROM json_to_recordset(%s)
    AS x(job_id uuid, dataset_id uuid, output boolean, first timestamptz, last timestamptz)
ON CONFLICT (job_id, dataset_id, output) DO UPDATE SET
    first_seen = least(edges.first_seen, excluded.first_seen),
    last_seen = greatest(edges.last_seen, excluded.last_seen)
"""

COLUMN_SETS = """
INSERT INTO column_sets (dataset_id, job_id, hash, first_seen, last_seen)
SELECT dataset_id, job_id, hash, first, last FROM json_to_recordset(%s)
    AS x(dataset_id uuid, job_id uuid, hash uuid, first timestamptz, last timestamptz)
ON CONFLICT (dataset_id, job_id, hash) DO UPDATE SET
    first_seen = least(column_sets.first_seen, excluded.first_seen),
    last_seen = greatest(column_sets.last_seen, excluded.last_seen)
"""

COLUMN_EDGES = """
INSERT INTO column_edges (dataset_id, hash, field, input_id, input_field, transformations,
    description, type)
SELECT dataset_id, hash, field, input_id, input_field, transformations, description, type
    FROM json_to_recordset(%s)
    AS x(dataset_id uuid, hash uuid, field text, input_id uuid, input_field text,
         transformations text, description text, type text)
ON CONFLICT DO NOTHING
"""

RANGES = """
INSERT INTO record_ranges (run_id, batch, output, dataset_id, topic, partition, first_offset,
    last_offset, job_version, at)
SELECT run_id, batch, output, dataset_id, topic, partition, first, last, job_version, at
    FROM json_to_recordset(%s)
    AS x(run_id uuid, batch bigint, output boolean, dataset_id uuid, topic text,
         partition integer, first bigint, last bigint, job_version text, at timestamptz)
ON CONFLICT (run_id, batch, output, dataset_id, partition, first_offset) DO UPDATE SET
    last_offset = greatest(record_ranges.last_offset, excluded.last_offset),
    job_version = greatest(record_ranges.job_version COLLATE "C", excluded.job_version),
    at = least(record_ranges.at, excluded.at)
"""

_COUNTS = (
    "rows_in",
    "rows_out",
    "rows_with_lineage",
    "late_rows",
    "dead_lettered",
    "order_violations",
    "events_lost",
)
PROGRESS = f"""
INSERT INTO run_progress (run_id, {", ".join(_COUNTS)}, lag, lag_at)
SELECT run_id, {", ".join(_COUNTS)}, lag, lag_at FROM json_to_recordset(%s)
    AS x(run_id uuid, {", ".join(f"{name} bigint" for name in _COUNTS)},
         lag bigint, lag_at timestamptz)
ON CONFLICT (run_id) DO UPDATE SET
    {", ".join(f"{n} = greatest(run_progress.{n}, excluded.{n})" for n in _COUNTS)},
    {_later("run_progress", "lag", "lag_at")}
"""

EVENTS = """
INSERT INTO events (key, kind, event_type, event_time, run_id, body)
SELECT key, kind, event_type, at, run_id, body FROM json_to_recordset(%s)
    AS x(key uuid, kind text, event_type text, at timestamptz, run_id uuid, body text)
ON CONFLICT (key) DO NOTHING RETURNING key
"""
