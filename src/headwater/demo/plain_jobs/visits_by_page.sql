-- The number of visits of each page.
WITH parsed AS (
  SELECT get_json_object(CAST(value AS STRING), '$.page') AS page FROM visits
)
SELECT page AS key, to_json(named_struct('page', page, 'visits', count(*))) AS value
FROM parsed
GROUP BY page
