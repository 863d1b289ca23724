-- Rows of `audience`: how many watch at the same time, minute by minute, from the minute on up to which the events of a
-- server were known before. With is_new, and is_open: the minute in which its last event is may not be over.
WITH plays AS (
    SELECT
        instance,
        app,
        stream,
        unix_micros(started_at) AS came,
        greatest(unix_micros(coalesce(ended_at, last_seen)), unix_micros(started_at)) AS went,
        ended_at IS NOT NULL AS has_left,
        CAST(floor(unix_micros(known_until) / 6e7) AS BIGINT) AS known_minute
    FROM plays_and_publishes
    WHERE kind = 'play'
),
bounds AS (
    SELECT
        *,
        greatest(CAST(floor(came / 6e7) AS BIGINT), coalesce(known_minute, 0)) AS first_minute,
        CAST(floor(went / 6e7) AS BIGINT) AS last_minute
    FROM plays
    WHERE known_minute IS NULL OR went >= known_minute * 60000000
),
-- A play has minutes for its last :most_days days, and the one in which it began. Longer ones come from clocks that were
-- set, and each would be millions of rows.
minutes AS (
    SELECT instance, app, stream, came, went, has_left, first_minute AS minute
    FROM bounds
    WHERE first_minute < last_minute - :most_days * 1440
    UNION ALL
    SELECT
        instance,
        app,
        stream,
        came,
        went,
        has_left,
        explode(sequence(greatest(first_minute, last_minute - :most_days * 1440), last_minute, CAST(1 AS BIGINT)))
            AS minute
    FROM bounds
),
each_minute AS (
    SELECT
        *,
        came >= minute * 60000000 AS comes,
        went < (minute + 1) * 60000000 AS goes,
        came < minute * 60000000 AND went > minute * 60000000 AS was_here,
        greatest(least(went, (minute + 1) * 60000000) - greatest(came, minute * 60000000), 0) AS watched
    FROM minutes
),
sums AS (
    SELECT
        instance,
        app,
        stream,
        minute,
        count(CASE WHEN was_here THEN 1 END) AS at_begin,
        sum(watched) / 1e6 AS watch_seconds,
        count(CASE WHEN comes THEN 1 END) AS joins,
        count(CASE WHEN has_left AND goes THEN 1 END) AS leaves
    FROM each_minute
    GROUP BY instance, app, stream, minute
),
edges AS (
    SELECT instance, app, stream, minute, came AS instant, 1 AS step FROM each_minute WHERE comes
    UNION ALL
    -- A play that ends exactly where the minute begins was not counted in it, so it may not be subtracted either.
    SELECT instance, app, stream, minute, went AS instant, -1 AS step FROM each_minute WHERE goes AND (comes OR was_here)
),
steps AS (
    SELECT
        instance,
        app,
        stream,
        minute,
        -- A viewer that leaves at the instant another joins is not concurrent with it.
        sum(step) OVER (
            PARTITION BY instance, app, stream, minute ORDER BY instant, step ROWS UNBOUNDED PRECEDING
        ) AS more
    FROM edges
),
highest AS (
    SELECT instance, app, stream, minute, max(more) AS more FROM steps GROUP BY instance, app, stream, minute
)
SELECT
    s.app,
    s.stream,
    timestamp_micros(s.minute * 60000000) AS minute,
    CAST(s.at_begin + greatest(coalesce(h.more, 0), 0) AS BIGINT) AS peak,
    s.watch_seconds / 60 AS average,
    s.watch_seconds,
    s.joins,
    s.leaves,
    s.instance,
    to_date(timestamp_micros(s.minute * 60000000)) AS day,
    NOT v.settled AND s.minute >= floor(unix_micros(v.last_seen) / 6e7) AS is_open,
    v.settled OR s.minute < floor(unix_micros(v.last_seen) / 6e7) AS is_new
FROM sums s
JOIN batch_servers v ON s.instance = v.instance
LEFT JOIN highest h ON s.instance = h.instance AND s.app = h.app AND s.stream = h.stream AND s.minute = h.minute
