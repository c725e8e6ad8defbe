-- Walks over column lineage look up single columns: a table may have thousands.
DROP INDEX column_edges_by_input;
CREATE INDEX column_edges_by_input ON column_edges (input_id, md5(input_field));
