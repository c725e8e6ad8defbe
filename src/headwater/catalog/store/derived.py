"""The SQL statements that update what follows from the merged rows of several events.

They run after `statements`, in the same transaction, and give the same result for any order of
events: the ends of runs whose parent ended, current versions, and versions of jobs.
"""

from __future__ import annotations

# Ends the runs that reported no end and whose parent has ended, unless they sent an event after
# that, and their children in turn; and reopens those for which this no longer holds. Only the given
# runs and what depends on them are visited. A child of a run that did not complete is aborted.
CLOSED_RUNS = """
WITH RECURSIVE affected(id) AS (
    SELECT unnest(%(runs)s::uuid[])
    UNION
    SELECT c.id FROM affected a
    JOIN runs p ON p.id = a.id AND p.end_state IS NOT NULL
    JOIN runs c ON c.parent_run_id = p.id
    WHERE c.end_state IS NULL OR c.closed
), ended(id, state, at) AS (
    SELECT c.id, CASE p.end_state WHEN 'COMPLETED' THEN 'COMPLETED' ELSE 'ABORTED' END, p.ended_at
    FROM affected a JOIN runs c ON c.id = a.id JOIN runs p ON p.id = c.parent_run_id
    WHERE (c.end_state IS NULL OR c.closed) AND p.end_state IS NOT NULL
        AND (NOT p.closed OR p.id NOT IN (SELECT id FROM affected))
        AND coalesce(c.last_event_at, c.seen_at) <= p.ended_at
    UNION
    SELECT c.id, e.state, e.at FROM ended e JOIN runs c ON c.parent_run_id = e.id
    WHERE (c.end_state IS NULL OR c.closed) AND coalesce(c.last_event_at, c.seen_at) <= e.at
)
UPDATE runs r SET end_state = e.state, ended_at = e.at, closed = e.id IS NOT NULL
FROM (SELECT id FROM affected UNION SELECT id FROM ended) a LEFT JOIN ended e ON e.id = a.id
WHERE r.id = a.id AND (r.end_state IS NULL OR r.closed)
    AND (r.end_state, r.ended_at) IS DISTINCT FROM (e.state, e.at)
"""

# A version counts if it was observed without a run, or if its run completed or streams.
COUNTS = "(v.run_id IS NULL OR r.streaming OR (r.end_state = 'COMPLETED' AND NOT r.closed))"

# Written versions precede described ones, and these precede versions that were only read.
_RANK = "v.run_id IS NOT NULL DESC, v.read, v.last_seen DESC, v.id DESC"
_FIELDS_RANK = "v.read, v.last_seen DESC, v.fields DESC"

# Updates the current version of the datasets that the runs and versions concern.
CURRENT_VERSIONS = f"""
WITH candidates AS (
    SELECT DISTINCT ON (v.dataset_id) v.dataset_id, v.id, v.run_id IS NOT NULL AS written,
        NOT v.read AS described, v.last_seen
    FROM dataset_versions v LEFT JOIN runs r ON r.id = v.run_id
    WHERE (v.id = ANY(%(versions)s) OR v.run_id = ANY(%(runs)s)) AND {COUNTS}
    ORDER BY v.dataset_id, {_RANK}
)
UPDATE datasets d SET current_version = c.id, current_written = c.written,
    current_described = c.described, current_at = c.last_seen
FROM candidates c WHERE d.id = c.dataset_id AND (d.current_at IS NULL
    OR (d.current_written, d.current_described, d.current_at, d.current_version)
        < (c.written, c.described, c.last_seen, c.id))
"""

# The last write of the same datasets: a stream may name an output for days without writing to it.
LAST_WRITES = f"""
UPDATE datasets d SET written_at = c.at FROM (
    SELECT v.dataset_id, max(v.written_at) AS at
    FROM dataset_versions v JOIN runs r ON r.id = v.run_id
    WHERE (v.id = ANY(%(versions)s) OR v.run_id = ANY(%(runs)s)) AND {COUNTS}
    GROUP BY v.dataset_id
) c WHERE d.id = c.dataset_id AND (d.written_at IS NULL OR d.written_at < c.at)
"""

CURRENT_FIELDS = f"""
WITH candidates AS (
    SELECT DISTINCT ON (v.dataset_id) v.dataset_id, v.fields, NOT v.read AS described, v.last_seen
    FROM dataset_versions v LEFT JOIN runs r ON r.id = v.run_id
    WHERE (v.id = ANY(%(versions)s) OR v.run_id = ANY(%(runs)s)) AND v.fields IS NOT NULL
        AND {COUNTS}
    ORDER BY v.dataset_id, {_FIELDS_RANK}
)
UPDATE datasets d SET fields = c.fields, fields_described = c.described, fields_at = c.last_seen
FROM candidates c WHERE d.id = c.dataset_id AND (d.fields_at IS NULL
    OR (d.fields_described, d.fields_at, d.fields) < (c.described, c.last_seen, c.fields))
"""

# The datasets of runs that reported a success first and then a failure: their versions counted,
# and no longer do. Locked, so that the next statement sees the versions of other transactions.
UNCOUNTED = """
SELECT d.id FROM datasets d WHERE d.id IN (
    SELECT v.dataset_id FROM runs r JOIN dataset_versions v ON v.run_id = r.id
    WHERE r.id = ANY(%s) AND r.completed AND NOT r.streaming)
ORDER BY d.id FOR UPDATE
"""

RECOUNTED = f"""
UPDATE datasets d SET current_version = c.id, current_written = coalesce(c.written, false),
    current_described = coalesce(c.described, true), current_at = c.last_seen,
    fields = f.fields, fields_described = coalesce(f.described, false), fields_at = f.last_seen,
    written_at = w.at
FROM unnest(%s::uuid[]) AS x(id)
LEFT JOIN LATERAL (
    SELECT v.id, v.run_id IS NOT NULL AS written, NOT v.read AS described, v.last_seen
    FROM dataset_versions v LEFT JOIN runs r ON r.id = v.run_id
    WHERE v.dataset_id = x.id AND {COUNTS} ORDER BY {_RANK} LIMIT 1
) c ON true
LEFT JOIN LATERAL (
    SELECT v.fields, NOT v.read AS described, v.last_seen
    FROM dataset_versions v LEFT JOIN runs r ON r.id = v.run_id
    WHERE v.dataset_id = x.id AND v.fields IS NOT NULL AND {COUNTS} ORDER BY {_FIELDS_RANK} LIMIT 1
) f ON true
LEFT JOIN LATERAL (
    SELECT max(v.written_at) AS at FROM dataset_versions v JOIN runs r ON r.id = v.run_id
    WHERE v.dataset_id = x.id AND {COUNTS}
) w ON true
WHERE d.id = x.id
"""

# The parts of a job version, for runs that reported their end or stream.
RUN_SHAPES = """
SELECT r.id, j.namespace, j.name, r.version, r.location,
    (r.job_facets->'sourceCodeLocation'->>1) AS code,
    coalesce(json_agg(json_build_array(d.output, s.namespace, s.name))
        FILTER (WHERE d.run_id IS NOT NULL), '[]') AS datasets
FROM runs r JOIN jobs j ON j.id = r.job_id
LEFT JOIN run_datasets d ON d.run_id = r.id
LEFT JOIN datasets s0 ON s0.id = d.dataset_id
LEFT JOIN datasets s ON s.id = s0.canonical_id
WHERE r.id = ANY(%s) AND ((r.end_state IS NOT NULL AND NOT r.closed) OR r.streaming)
GROUP BY r.id, j.namespace, j.name
"""

RUN_VERSIONS = """
UPDATE runs SET version = x.version, location = x.location
FROM json_to_recordset(%s) AS x(id uuid, version uuid, location text)
WHERE runs.id = x.id AND (runs.version IS DISTINCT FROM x.version
    OR runs.location IS DISTINCT FROM x.location)
"""
