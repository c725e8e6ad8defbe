-- Facets stand as name -> [moment, text]; `facets_from` and `facets_at` are the earliest and the
-- latest moment among them.
--
-- Ids follow from names (headwater/catalog/identity.py), so that nothing is looked up before it is
-- written. Names may be longer than an index entry: they are never indexed whole.

CREATE TABLE namespaces (
    id uuid PRIMARY KEY,
    name text NOT NULL,
    owner text NOT NULL DEFAULT 'anonymous',
    description text,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    hidden boolean NOT NULL DEFAULT false
);

CREATE TABLE sources (
    id uuid PRIMARY KEY,
    name text NOT NULL,
    type text NOT NULL,
    connection_url text NOT NULL,
    url_at timestamptz NOT NULL,
    description text,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL
);

CREATE TABLE tags (
    name text PRIMARY KEY,
    description text
);

-- The event as it was sent. `key` is the hash of its content: the same event is the same row.
CREATE TABLE events (
    key uuid PRIMARY KEY,
    kind text NOT NULL,
    event_type text,
    event_time timestamptz NOT NULL,
    received_at timestamptz NOT NULL DEFAULT now(),
    run_id uuid,
    body text NOT NULL
);
CREATE INDEX events_by_time ON events (event_time, key);

CREATE TABLE datasets (
    id uuid PRIMARY KEY,
    namespace_id uuid NOT NULL,
    namespace text NOT NULL,
    name text NOT NULL,
    -- Itself, unless this is another name of a dataset (OpenLineage's symlinks).
    canonical_id uuid NOT NULL,
    type text NOT NULL DEFAULT 'DB_TABLE',
    physical_name text,
    source text,
    source_at timestamptz,
    description text,
    schema_location text,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    facets jsonb NOT NULL DEFAULT '{}',
    facets_from bigint NOT NULL DEFAULT 0,
    facets_at bigint NOT NULL DEFAULT 0,
    -- The latest version that counts: written by a run that completed or streams, or only seen.
    current_version uuid,
    current_written boolean NOT NULL DEFAULT false,
    current_at timestamptz,
    fields uuid,
    fields_at timestamptz,
    hidden boolean NOT NULL DEFAULT false
);
CREATE INDEX datasets_by_name ON datasets (namespace_id, left(name, 120));
CREATE INDEX datasets_by_short_name ON datasets (left(name, 120));
CREATE INDEX datasets_by_canonical ON datasets (canonical_id) WHERE canonical_id <> id;

CREATE TABLE symlinks (
    alias_id uuid NOT NULL,
    dataset_id uuid NOT NULL,
    seen_at timestamptz NOT NULL,
    PRIMARY KEY (alias_id, dataset_id)
);
CREATE INDEX symlinks_by_dataset ON symlinks (dataset_id);

-- Texts of facets and column lists, each once per dataset.
CREATE TABLE documents (
    dataset_id uuid NOT NULL,
    hash uuid NOT NULL,
    body text NOT NULL,
    sent_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (dataset_id, hash)
);

CREATE TABLE dataset_versions (
    id uuid PRIMARY KEY,
    dataset_id uuid NOT NULL,
    run_id uuid,
    created_at timestamptz NOT NULL,
    last_seen timestamptz NOT NULL,
    fields uuid,
    lifecycle text,
    description text,
    schema_location text,
    facets jsonb NOT NULL DEFAULT '{}',
    facets_from bigint NOT NULL DEFAULT 0,
    facets_at bigint NOT NULL DEFAULT 0
);
CREATE INDEX dataset_versions_by_dataset ON dataset_versions (dataset_id, created_at DESC);
CREATE INDEX dataset_versions_by_run ON dataset_versions (run_id) WHERE run_id IS NOT NULL;

CREATE TABLE dataset_tags (
    dataset_id uuid NOT NULL,
    field text NOT NULL DEFAULT '',
    tag text NOT NULL,
    tagged_at timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX dataset_tags_once ON dataset_tags (dataset_id, md5(field), tag);

CREATE TABLE jobs (
    id uuid PRIMARY KEY,
    namespace_id uuid NOT NULL,
    namespace text NOT NULL,
    name text NOT NULL,
    parent_id uuid,
    parent_at timestamptz,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    facets jsonb NOT NULL DEFAULT '{}',
    facets_from bigint NOT NULL DEFAULT 0,
    facets_at bigint NOT NULL DEFAULT 0,
    own_facets jsonb NOT NULL DEFAULT '{}',
    own_facets_from bigint NOT NULL DEFAULT 0,
    own_facets_at bigint NOT NULL DEFAULT 0,
    hidden boolean NOT NULL DEFAULT false
);
CREATE INDEX jobs_by_namespace ON jobs (namespace_id, updated_at DESC, id);
CREATE INDEX jobs_by_time ON jobs (updated_at DESC, id);
CREATE INDEX jobs_by_parent ON jobs (parent_id) WHERE parent_id IS NOT NULL;

CREATE TABLE job_tags (
    job_id uuid NOT NULL,
    tag text NOT NULL,
    tagged_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (job_id, tag)
);

CREATE TABLE runs (
    id uuid PRIMARY KEY,
    job_id uuid NOT NULL,
    job_at timestamptz NOT NULL,
    seen_at timestamptz NOT NULL,
    last_event_at timestamptz,
    started_at timestamptz,
    running_at timestamptz,
    ended_at timestamptz,
    end_state text,
    completed boolean NOT NULL DEFAULT false,
    streaming boolean NOT NULL DEFAULT false,
    parent_run_id uuid,
    version uuid,
    location text,
    nominal_start timestamptz,
    nominal_end timestamptz,
    args text,
    facets jsonb NOT NULL DEFAULT '{}',
    facets_from bigint NOT NULL DEFAULT 0,
    facets_at bigint NOT NULL DEFAULT 0,
    job_facets jsonb NOT NULL DEFAULT '{}',
    job_facets_from bigint NOT NULL DEFAULT 0,
    job_facets_at bigint NOT NULL DEFAULT 0
);
CREATE INDEX runs_by_job ON runs (job_id, seen_at DESC, id DESC);
CREATE INDEX runs_by_version ON runs (job_id, version, seen_at DESC) WHERE version IS NOT NULL;
CREATE INDEX runs_by_time ON runs (seen_at DESC, id DESC);

CREATE TABLE run_datasets (
    run_id uuid NOT NULL,
    dataset_id uuid NOT NULL,
    output boolean NOT NULL,
    at timestamptz NOT NULL,
    version_id uuid,
    version_at timestamptz,
    facets jsonb NOT NULL DEFAULT '{}',
    facets_from bigint NOT NULL DEFAULT 0,
    facets_at bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (run_id, dataset_id, output)
);

-- The graph: the union of what all runs did, kept when the runs themselves are removed.
CREATE TABLE edges (
    job_id uuid NOT NULL,
    dataset_id uuid NOT NULL,
    output boolean NOT NULL,
    first_seen timestamptz NOT NULL,
    last_seen timestamptz NOT NULL,
    PRIMARY KEY (job_id, dataset_id, output)
) WITH (fillfactor = 80);
CREATE INDEX edges_by_dataset ON edges (dataset_id, job_id);

-- One row for each column lineage that a job has told of an output; its edges are written once.
CREATE TABLE column_sets (
    dataset_id uuid NOT NULL,
    job_id uuid NOT NULL,
    hash uuid NOT NULL,
    first_seen timestamptz NOT NULL,
    last_seen timestamptz NOT NULL,
    PRIMARY KEY (dataset_id, job_id, hash)
) WITH (fillfactor = 80);

CREATE TABLE column_edges (
    dataset_id uuid NOT NULL,
    hash uuid NOT NULL,
    field text NOT NULL,
    input_id uuid NOT NULL,
    input_field text NOT NULL,
    transformations text NOT NULL,
    description text,
    type text
);
CREATE UNIQUE INDEX column_edges_once
    ON column_edges (dataset_id, hash, md5(field), input_id, md5(input_field));
CREATE INDEX column_edges_by_input ON column_edges (input_id);

-- Which records a micro-batch read and wrote.
CREATE TABLE record_ranges (
    run_id uuid NOT NULL,
    batch bigint NOT NULL,
    output boolean NOT NULL,
    dataset_id uuid NOT NULL,
    topic text NOT NULL,
    partition integer NOT NULL,
    first_offset bigint NOT NULL,
    last_offset bigint NOT NULL,
    job_version text,
    at timestamptz NOT NULL,
    PRIMARY KEY (run_id, batch, output, dataset_id, partition, first_offset)
);
CREATE INDEX record_ranges_by_address
    ON record_ranges (left(topic, 249), partition, first_offset DESC) WHERE output;

-- Only hashes: a key can't be read from here. The key itself holds 256 random bits.
CREATE TABLE api_keys (
    id text PRIMARY KEY,
    name text NOT NULL,
    hash bytea NOT NULL,
    role text NOT NULL CHECK (role IN ('read', 'write', 'admin')),
    namespace text,
    created_at timestamptz NOT NULL DEFAULT now(),
    revoked_at timestamptz
);

-- Facets by name with the moment at which they were said: the later word holds.
CREATE FUNCTION merge_facets(known jsonb, said jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT coalesce(jsonb_object_agg(key, value), '{}') FROM (
        SELECT DISTINCT ON (key) key, value FROM (
            SELECT key, value FROM jsonb_each(known)
            UNION ALL
            SELECT key, value FROM jsonb_each(said)
        ) AS words
        ORDER BY key, (value->>0)::bigint DESC, (value->>1) COLLATE "C" DESC
    ) AS latest
$$;

-- Jobs around some jobs, level by level: those that share a dataset, under any of its names. One
-- call walks the whole way: a question over twenty levels must not cost twenty round trips. What
-- is next to a level lies in it, before it or after it, so that only two levels are to be excluded
-- and circles end. A walk that grows too large, or takes too long, is cut.
CREATE FUNCTION lineage_walk(
    start uuid[], depth integer, most integer, moment timestamptz, seconds double precision
) RETURNS TABLE (job uuid, truncated boolean)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    found uuid[] := ARRAY(SELECT DISTINCT s FROM unnest(start) AS s ORDER BY s LIMIT most);
    level uuid[] := found;
    previous uuid[] := '{}';
    following uuid[];
    touched uuid[];
    cut boolean := cardinality(start) > most;
    step integer := 0;
    deadline timestamptz := clock_timestamp() + make_interval(secs => seconds);
BEGIN
    WHILE step < depth AND cardinality(level) > 0 AND NOT cut LOOP
        touched := ARRAY(
            SELECT DISTINCT d.canonical_id FROM edges j JOIN datasets d ON d.id = j.dataset_id
            WHERE j.job_id = ANY(level) AND j.first_seen <= moment
        );
        touched := touched || ARRAY(
            SELECT a.id FROM datasets a
            WHERE a.canonical_id = ANY(touched) AND a.canonical_id <> a.id
        );
        following := ARRAY(
            SELECT e.job_id FROM edges e
            WHERE e.dataset_id = ANY(touched) AND e.first_seen <= moment
            EXCEPT (SELECT unnest(level) UNION ALL SELECT unnest(previous))
            ORDER BY 1
            LIMIT most - cardinality(found) + 1
        );
        cut := cardinality(following) > most - cardinality(found)
            OR (cardinality(following) > 0 AND clock_timestamp() > deadline);
        found := found || following[1 : most - cardinality(found)];
        previous := level;
        level := following;
        step := step + 1;
    END LOOP;
    RETURN QUERY SELECT f, cut FROM unnest(found) AS f;
END
$$;

INSERT INTO namespaces (id, name, description, created_at, updated_at) VALUES (
    '{default_namespace}', 'default',
    'The default global namespace for dataset, job, and run metadata not belonging to a user-specified namespace.',
    now(), now()
);
INSERT INTO tags (name, description) VALUES
    ('PII', 'Personally identifiable information'),
    ('SENSITIVE', 'Contains sensitive information');
