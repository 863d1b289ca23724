-- How many watched at the same time, minute by minute (or in steps of :step_us microseconds)? Viewers of all servers are
-- counted together, and with :together those of all streams. Steps in which nobody watched, joined or left are left out.
WITH plays AS (
    SELECT
        CASE WHEN :together THEN '' ELSE coalesce(app, '') END AS app,
        CASE WHEN :together THEN '' ELSE coalesce(stream, '') END AS stream,
        unix_micros(started_at) AS started,
        unix_micros(ended_at) AS ended,
        unix_micros(started_at)
            + CAST(round(greatest(coalesce(watch_seconds, 0e0), 0e0) * 1e6) AS BIGINT) AS known_until
    FROM viewers
    WHERE day >= :first_day AND day <= :last_day
        AND (:since IS NULL OR started_at >= :since OR ended_at IS NULL OR ended_at > :since)
        AND (:until IS NULL OR started_at < :until)
        AND (:all_streams OR (app = :app AND stream = :stream))
),
-- Of a play that is longer than :longest_us, its last part: it comes from a clock that was set, and would have steps
-- without end.
latest AS (
    SELECT app, stream, greatest(started, known_until - :longest_us, :since_us) AS begins, known_until FROM plays
),
watched AS (
    SELECT app, stream, begins, greatest(begins, least(known_until, :until_us)) AS ends FROM latest
),
edges AS (
    SELECT app, stream, begins AS instant, 1 AS step FROM watched
    UNION ALL
    SELECT app, stream, ends AS instant, -1 AS step FROM watched
),
moments AS (
    SELECT app, stream, instant, sum(step) AS step FROM edges GROUP BY app, stream, instant
),
counted AS (
    SELECT
        app,
        stream,
        instant AS begins,
        lead(instant) OVER (PARTITION BY app, stream ORDER BY instant) AS ends,
        CAST(sum(step) OVER (PARTITION BY app, stream ORDER BY instant ROWS UNBOUNDED PRECEDING) AS BIGINT) AS viewers
    FROM moments
),
stretches AS (
    SELECT
        app,
        stream,
        begins,
        ends,
        viewers,
        explode(sequence(
            CAST(floor(begins / CAST(:step_us AS DOUBLE)) AS BIGINT),
            CAST(floor((ends - 1) / CAST(:step_us AS DOUBLE)) AS BIGINT),
            CAST(1 AS BIGINT)
        )) AS number
    FROM counted
    WHERE viewers > 0 AND ends > begins
),
pieces AS (
    SELECT
        app,
        stream,
        number,
        viewers,
        viewers * (least(ends, (number + 1) * :step_us) - greatest(begins, number * :step_us)) AS watched_us,
        0 AS joins,
        0 AS leaves
    FROM stretches
    UNION ALL
    SELECT app, stream, CAST(floor(started / CAST(:step_us AS DOUBLE)) AS BIGINT), 0, 0, 1, 0
    FROM plays
    WHERE started >= :since_us AND started < :until_us
    UNION ALL
    SELECT app, stream, CAST(floor(ended / CAST(:step_us AS DOUBLE)) AS BIGINT), 0, 0, 0, 1
    FROM plays
    WHERE ended >= :since_us AND ended < :until_us
),
steps AS (
    SELECT
        app,
        stream,
        number,
        CAST(max(viewers) AS BIGINT) AS viewers,
        CAST(sum(watched_us) AS DOUBLE) AS watched_us,
        CAST(sum(joins) AS BIGINT) AS joins,
        CAST(sum(leaves) AS BIGINT) AS leaves
    FROM pieces
    GROUP BY app, stream, number
)
SELECT
    app,
    stream,
    timestamp_micros(number * :step_us) AS minute,
    viewers,
    -- Of the first and the last step, not all may be in the time.
    watched_us / (least((number + 1) * :step_us, :until_us) - greatest(number * :step_us, :since_us)) AS average,
    joins,
    leaves
FROM steps
ORDER BY minute, app, stream
