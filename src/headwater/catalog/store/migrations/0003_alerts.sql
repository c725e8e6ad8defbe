-- What runs tell of their progress (the facet headwater_progress). Counts only grow while a run
-- lives, so that the greatest word is the latest, in whichever order events arrive; the lag is a
-- level, and the later word holds. NULL: the run did not tell.
CREATE TABLE run_progress (
    run_id uuid PRIMARY KEY,
    rows_in bigint,
    rows_out bigint,
    rows_with_lineage bigint,
    late_rows bigint,
    dead_lettered bigint,
    order_violations bigint,
    lag bigint,
    lag_at timestamptz
);

-- The sums of runs that retention has removed: totals must not fall. One row.
CREATE TABLE removed_progress (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    rows_out bigint NOT NULL DEFAULT 0,
    rows_told bigint NOT NULL DEFAULT 0,
    rows_with_lineage bigint NOT NULL DEFAULT 0,
    late_rows bigint NOT NULL DEFAULT 0,
    dead_lettered bigint NOT NULL DEFAULT 0,
    order_violations bigint NOT NULL DEFAULT 0
);
INSERT INTO removed_progress DEFAULT VALUES;

-- A point a minute for the dashboard, bounded by age. Each service adds the events that it stored in
-- that minute; the first one notes the figures.
CREATE TABLE metric_points (
    at timestamptz PRIMARY KEY,
    events bigint NOT NULL DEFAULT 0,
    figures jsonb
);

-- How alerts stand: one row for each alert (subject '') and one for each subject that is not ok.
CREATE TABLE alert_states (
    alert text NOT NULL,
    subject text NOT NULL DEFAULT '',
    state text NOT NULL,
    since timestamptz NOT NULL,
    value text,
    body jsonb NOT NULL DEFAULT '{}'
);
CREATE UNIQUE INDEX alert_states_once ON alert_states (alert, md5(subject));

-- From firing to its end. The id follows from alert, subject and number.
CREATE TABLE alert_incidents (
    id uuid PRIMARY KEY,
    alert text NOT NULL,
    subject text NOT NULL DEFAULT '',
    number bigint NOT NULL,
    severity text NOT NULL,
    message text NOT NULL,
    value text,
    downstream jsonb NOT NULL DEFAULT '[]',
    downstream_count integer NOT NULL DEFAULT 0,
    started_at timestamptz NOT NULL,
    ended_at timestamptz
);
CREATE UNIQUE INDEX alert_incidents_open ON alert_incidents (alert, md5(subject))
    WHERE ended_at IS NULL;
CREATE INDEX alert_incidents_by_subject ON alert_incidents (alert, md5(subject), number DESC);
CREATE INDEX alert_incidents_by_time ON alert_incidents (started_at DESC, id);

-- Messages on their way: written with the incident, in one transaction.
CREATE TABLE alert_messages (
    incident_id uuid NOT NULL,
    kind text NOT NULL CHECK (kind IN ('fired', 'ended')),
    channel text NOT NULL,
    body jsonb NOT NULL,
    written_at timestamptz NOT NULL DEFAULT now(),
    tries integer NOT NULL DEFAULT 0,
    due_at timestamptz NOT NULL DEFAULT now(),
    sent_at timestamptz,
    given_up_at timestamptz,
    problem text,
    PRIMARY KEY (incident_id, kind, channel)
);
CREATE INDEX alert_messages_waiting ON alert_messages (channel, written_at)
    WHERE sent_at IS NULL AND given_up_at IS NULL;
