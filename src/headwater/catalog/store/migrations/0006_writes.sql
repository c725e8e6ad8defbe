-- The last event that reports a write to an output. Unlike `last_seen`, it is not set by the events of
-- a stream that names an output, such as its dead letter topic, and has written nothing to it.
ALTER TABLE dataset_versions ADD COLUMN written_at timestamptz;
UPDATE dataset_versions SET written_at = last_seen WHERE run_id IS NOT NULL;
ALTER TABLE datasets ADD COLUMN written_at timestamptz;
UPDATE datasets SET written_at = current_at WHERE current_written;

-- The events of a run.
CREATE INDEX events_by_run ON events (run_id, event_time DESC, key DESC) WHERE run_id IS NOT NULL;
