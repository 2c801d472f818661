-- 1.4 million assessed items, about 190 MB. A share of them has no score yet: the average converts every score
-- to numeric, so that share is what tunes the aggregate's time to the machine without touching the row count.
DROP TABLE IF EXISTS herd_items;

CREATE TABLE herd_items AS
SELECT
    n                                                                       AS id,
    1                                                                       AS project_id,
    'category-' || lpad((n * 7919 % 12)::text, 2, '0')                      AS category,
    CASE WHEN n % 100 < :scored_percent
         THEN (n * 48271 % 10000 / 100.0)::real END                         AS quality_score,
    'source-' || n % 40                                                     AS source,
    timestamptz '2025-01-01 00:00:00+00' + n * interval '7 seconds'         AS created_at,
    md5(n::text) || substr(md5((n + 1)::text), 1, 24)                       AS payload
FROM generate_series(1::bigint, 1400000) AS n;
