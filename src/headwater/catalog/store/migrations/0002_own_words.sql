-- Whether the run's own events name its job. What children say of their parent is hearsay: it holds
-- only as long as the run has said nothing itself.
ALTER TABLE runs ADD COLUMN job_told boolean NOT NULL DEFAULT true;

-- As before, and around what was deleted: a walk does not pass through a deleted job or dataset.
-- Each level runs the same three statements along the same indexes: planned once, a walk of twenty
-- levels takes a third of the time, because planning was most of it.
-- Along the indexes also when many events came since the last ANALYZE: a plan made for small
-- tables would read whole ones at each level.
CREATE OR REPLACE FUNCTION lineage_walk(
    start uuid[], depth integer, most integer, moment timestamptz, seconds double precision
) RETURNS TABLE (job uuid, truncated boolean)
LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
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
            SELECT DISTINCT c.id FROM edges j JOIN datasets d ON d.id = j.dataset_id
            JOIN datasets c ON c.id = d.canonical_id
            WHERE j.job_id = ANY(level) AND j.first_seen <= moment AND NOT c.hidden
        );
        touched := touched || ARRAY(
            SELECT a.id FROM datasets a
            WHERE a.canonical_id = ANY(touched) AND a.canonical_id <> a.id
        );
        following := ARRAY(
            SELECT e.job_id FROM edges e JOIN jobs j ON j.id = e.job_id
            WHERE e.dataset_id = ANY(touched) AND e.first_seen <= moment AND NOT j.hidden
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
