-- Alerts ask for the runs of a job with the latest news: the end of one, or the start of another.
CREATE INDEX runs_by_news ON runs (job_id, (coalesce(ended_at, seen_at)) DESC, id DESC);

-- Lists of runs in a state. Those that completed are most of all runs, which are there by time.
CREATE INDEX runs_without_success ON runs (end_state, seen_at DESC, id DESC)
    WHERE end_state <> 'COMPLETED';
CREATE INDEX runs_without_end ON runs (seen_at DESC, id DESC) WHERE end_state IS NULL;

-- Events over time are counted by type: with it in the index nobody reads their texts for that.
DROP INDEX events_by_time;
CREATE INDEX events_by_time ON events (event_time, key) INCLUDE (event_type);
