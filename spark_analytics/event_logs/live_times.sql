-- When streams had a publisher: from published to unpublished, in microseconds since 1970. The times of one stream do not
-- overlap: publishers do when one takes over from another that is not known to be lost yet.
WITH publishes_in_order AS (
    SELECT
        instance,
        app,
        stream,
        unix_micros(started_at) AS published,
        -- One that goes on is live for as long as the state is known.
        coalesce(unix_micros(ended_at), 7258118400000000) AS unpublished
    FROM all_publishes
    -- The clock may have been set back meanwhile.
    WHERE ended_at IS NULL OR started_at < ended_at
),
reached AS (
    SELECT
        *,
        max(unpublished) OVER (
            PARTITION BY instance, app, stream ORDER BY published, unpublished
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS live_until
    FROM publishes_in_order
),
numbered AS (
    SELECT
        *,
        count(CASE WHEN live_until IS NULL OR published > live_until THEN 1 END) OVER (
            PARTITION BY instance, app, stream ORDER BY published, unpublished ROWS UNBOUNDED PRECEDING
        ) AS which
    FROM reached
)
SELECT instance, app, stream, min(published) AS published, max(unpublished) AS unpublished
FROM numbered
GROUP BY instance, app, stream, which
