-- Rows of `deliveries`: all statistics that are new, and what came between the last of them and an end.
WITH broadcasts AS (
    SELECT
        instance,
        destination,
        app,
        stream,
        min(time) AS started_at,
        max(CASE WHEN event = 'destination_closed' THEN time END) AS stopped_at,
        max(CASE WHEN event = 'destination_closed' THEN number END) AS stop_number,
        max(CASE WHEN event = 'destination_statistics' THEN time END) AS reported_at,
        max(CASE WHEN event = 'destination_closed' THEN messages END) AS total_messages,
        max(CASE WHEN event = 'destination_closed' THEN bytes END) AS total_bytes,
        max(CASE WHEN event = 'destination_closed' THEN dropped END) AS total_dropped,
        max(CASE WHEN event = 'destination_closed' THEN stalls END) AS total_stalls,
        max(CASE WHEN event = 'destination_closed' THEN stalled_seconds END) AS total_stalled_seconds,
        try_sum(CASE WHEN event = 'destination_statistics' THEN messages END) AS sum_messages,
        try_sum(CASE WHEN event = 'destination_statistics' THEN bytes END) AS sum_bytes,
        try_sum(CASE WHEN event = 'destination_statistics' THEN dropped END) AS sum_dropped,
        try_sum(CASE WHEN event = 'destination_statistics' THEN stalls END) AS sum_stalls,
        try_sum(
            CASE WHEN event = 'destination_statistics' THEN CAST(floor(stalled_seconds * 1e6 + 0.5e0) AS BIGINT) END
        ) / 1e6 AS sum_stalled_seconds
    FROM destination_steps
    GROUP BY instance, destination, app, stream, broadcast
),
rests AS (
    SELECT
        CASE WHEN kind = 'play' THEN 'viewer' ELSE 'publisher' END AS role,
        app,
        stream,
        connection AS who,
        instance,
        started_at,
        stopped_at,
        reported_at,
        rest_messages AS messages,
        rest_bytes AS bytes,
        rest_dropped AS dropped,
        rest_stalls AS stalls,
        rest_stalled_seconds AS stalled_seconds
    FROM plays_and_publishes
    WHERE has_just_stopped
    UNION ALL
    SELECT
        'destination' AS role,
        b.app,
        b.stream,
        b.destination AS who,
        b.instance,
        b.started_at,
        b.stopped_at,
        b.reported_at,
        greatest(coalesce(b.total_messages, 0) - coalesce(b.sum_messages, 0), 0) AS messages,
        greatest(coalesce(b.total_bytes, 0) - coalesce(b.sum_bytes, 0), 0) AS bytes,
        greatest(coalesce(b.total_dropped, 0) - coalesce(b.sum_dropped, 0), 0) AS dropped,
        greatest(coalesce(b.total_stalls, 0) - coalesce(b.sum_stalls, 0), 0) AS stalls,
        greatest(coalesce(b.total_stalled_seconds, 0e0) - coalesce(b.sum_stalled_seconds, 0e0), 0e0)
            AS stalled_seconds
    FROM broadcasts b
    JOIN batch_servers v ON b.instance = v.instance
    WHERE b.stop_number > v.known_number
),
bounded_rests AS (
    SELECT *, least(coalesce(reported_at, started_at), stopped_at) AS began FROM rests
)
SELECT
    CASE
        WHEN e.event = 'destination_statistics' THEN 'destination'
        WHEN e.role = 'player' THEN 'viewer'
        ELSE 'publisher'
    END AS role,
    e.app,
    e.stream,
    coalesce(e.destination, e.connection) AS who,
    e.instance,
    timestamp_micros(CAST(floor(unix_micros(e.time) - coalesce(e.seconds, 0e0) * 1e6) AS BIGINT)) AS began,
    e.time AS ended,
    e.seconds,
    coalesce(e.messages, 0) AS messages,
    coalesce(e.bytes, 0) AS bytes,
    coalesce(e.dropped, 0) AS dropped,
    coalesce(e.queued, 0) AS queued,
    coalesce(e.stalls, 0) AS stalls,
    coalesce(e.stalled_seconds, 0e0) AS stalled_seconds,
    false AS is_last,
    to_date(e.time) AS day
FROM batch_events e
JOIN batch_servers v ON e.instance = v.instance
WHERE e.event IN ('media_statistics', 'destination_statistics') AND e.number > v.known_number
UNION ALL
SELECT
    role,
    app,
    stream,
    who,
    instance,
    began,
    stopped_at AS ended,
    greatest((unix_micros(stopped_at) - unix_micros(began)) / 1e6, 0e0) AS seconds,
    messages,
    bytes,
    dropped,
    0 AS queued,
    stalls,
    stalled_seconds,
    true AS is_last,
    to_date(stopped_at) AS day
FROM bounded_rests
