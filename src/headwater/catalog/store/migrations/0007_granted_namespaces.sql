-- A key may be granted several namespaces; NULL: all. `namespace` keeps the first of them, for a
-- service of an earlier version that still runs.
ALTER TABLE api_keys ADD COLUMN namespaces text[];
UPDATE api_keys SET namespaces = ARRAY[namespace] WHERE namespace IS NOT NULL;

-- A dataset that is only known because keys of other namespaces named it: a node in the graph.
ALTER TABLE datasets ADD COLUMN reference boolean NOT NULL DEFAULT false;
