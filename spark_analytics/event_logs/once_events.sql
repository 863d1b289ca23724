-- Events that are read, each once: copies of them may be in several files.
WITH numbered AS (
    SELECT
        *,
        row_number() OVER (PARTITION BY instance, number, time, event ORDER BY file_id, line_end) AS copy
    FROM found_events
    WHERE event <> 'unreadable'
)
SELECT * FROM numbered WHERE copy = 1
