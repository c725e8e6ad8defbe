-- Whether a version was only seen by readers. A reader reads the version that was written, if there
-- is one; its own version is shown only for what no run has written.
ALTER TABLE dataset_versions ADD COLUMN read boolean NOT NULL DEFAULT false;
-- Whether the current version and the columns were written or described, and not only read.
ALTER TABLE datasets ADD COLUMN current_described boolean NOT NULL DEFAULT true;
ALTER TABLE datasets ADD COLUMN fields_described boolean NOT NULL DEFAULT false;
UPDATE dataset_versions v SET read = true WHERE v.run_id IS NULL
    AND EXISTS (SELECT FROM run_datasets rd WHERE NOT rd.output AND rd.version_id = v.id);
UPDATE datasets d SET current_described = false
    FROM dataset_versions v WHERE v.id = d.current_version AND v.read;
UPDATE datasets d SET fields_described = true WHERE d.fields IS NOT NULL AND EXISTS (
    SELECT FROM dataset_versions v WHERE v.dataset_id = d.id AND v.fields = d.fields AND NOT v.read);

-- Whether the end of the run follows from the end of its parent: its own events have none.
ALTER TABLE runs ADD COLUMN closed boolean NOT NULL DEFAULT false;
CREATE INDEX runs_by_parent ON runs (parent_run_id) WHERE parent_run_id IS NOT NULL;
-- Quality of a dataset over time, as the runs that read it reported it; not those of keys that have
-- no access to the dataset.
ALTER TABLE run_datasets ADD COLUMN described boolean NOT NULL DEFAULT true;
CREATE INDEX run_datasets_with_quality ON run_datasets (dataset_id, at DESC)
    WHERE NOT output AND described AND facets ?| ARRAY['dataQualityMetrics', 'dataQualityAssertions'];

-- Events from the future: what they wrote counts as of now, so that the next event replaces it.
-- Only the rows of jobs and datasets with such an event are visited.
CREATE FUNCTION until_now(moment timestamptz) RETURNS timestamptz LANGUAGE sql STABLE AS
    'SELECT CASE WHEN moment > now() THEN now() ELSE moment END';
CREATE FUNCTION until_now(micros bigint) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN micros > (extract(epoch FROM now()) * 1000000)::bigint
        THEN (extract(epoch FROM now()) * 1000000)::bigint ELSE micros END
$$;
CREATE FUNCTION until_now(facets jsonb) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT coalesce(jsonb_object_agg(key,
        jsonb_set(value, '{0}', to_jsonb(until_now((value->>0)::bigint)))), '{}')
    FROM jsonb_each(facets)
$$;
CREATE TEMP TABLE ahead ON COMMIT DROP AS
    SELECT id FROM jobs WHERE updated_at > now() + interval '1 day'
    UNION ALL SELECT id FROM datasets WHERE updated_at > now() + interval '1 day';
UPDATE datasets SET created_at = until_now(created_at), updated_at = until_now(updated_at),
    source_at = until_now(source_at), current_at = until_now(current_at),
    written_at = until_now(written_at),
    fields_at = until_now(fields_at), facets = until_now(facets), facets_at = until_now(facets_at)
    WHERE id IN (SELECT id FROM ahead);
UPDATE dataset_versions SET created_at = until_now(created_at), last_seen = until_now(last_seen),
    written_at = until_now(written_at),
    facets = until_now(facets), facets_at = until_now(facets_at)
    WHERE dataset_id IN (SELECT id FROM ahead) AND last_seen > now();
UPDATE jobs SET created_at = until_now(created_at), updated_at = until_now(updated_at),
    parent_at = until_now(parent_at), facets = until_now(facets), facets_at = until_now(facets_at),
    own_facets = until_now(own_facets), own_facets_at = until_now(own_facets_at)
    WHERE id IN (SELECT id FROM ahead);
CREATE TEMP TABLE ahead_runs ON COMMIT DROP AS
    SELECT id FROM runs WHERE job_id IN (SELECT id FROM ahead)
    AND greatest(seen_at, last_event_at, running_at, ended_at) > now();
UPDATE runs SET job_at = until_now(job_at), seen_at = until_now(seen_at),
    last_event_at = until_now(last_event_at), started_at = until_now(started_at),
    running_at = until_now(running_at), ended_at = until_now(ended_at),
    facets = until_now(facets), facets_at = until_now(facets_at),
    job_facets = until_now(job_facets), job_facets_at = until_now(job_facets_at)
    WHERE id IN (SELECT id FROM ahead_runs);
UPDATE run_datasets SET at = until_now(at), version_at = until_now(version_at),
    facets = until_now(facets), facets_at = until_now(facets_at)
    WHERE run_id IN (SELECT id FROM ahead_runs);
UPDATE run_progress SET lag_at = until_now(lag_at) WHERE run_id IN (SELECT id FROM ahead_runs);
UPDATE edges SET first_seen = until_now(first_seen), last_seen = until_now(last_seen)
    WHERE job_id IN (SELECT id FROM ahead) AND last_seen > now();
UPDATE column_sets SET first_seen = until_now(first_seen), last_seen = until_now(last_seen)
    WHERE dataset_id IN (SELECT id FROM ahead) AND last_seen > now();
UPDATE sources SET created_at = until_now(created_at), updated_at = until_now(updated_at),
    url_at = until_now(url_at) WHERE updated_at > now() + interval '1 day';
DROP FUNCTION until_now(jsonb), until_now(bigint), until_now(timestamptz);
