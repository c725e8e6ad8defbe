-- Lineage events that a run's process had to drop, such as on a full disk: its own, or older ones.
ALTER TABLE run_progress ADD COLUMN events_lost bigint;
