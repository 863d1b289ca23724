-- Rows of `open_events`: the events that the next run needs, of connections and broadcasts that have not ended, or only
-- just. Statistics are added up: one row for each play, publish and broadcast.
WITH people AS (
    SELECT
        *,
        -- Between two starts or ends all reports belong to the same play.
        count(
            CASE WHEN event IN ('play_started', 'publish_started', 'play_stopped', 'publish_stopped') THEN 1 END
        ) OVER (
            PARTITION BY instance, connection, app, stream ORDER BY number ROWS UNBOUNDED PRECEDING
        ) AS part
    FROM connection_events
),
sent AS (
    SELECT
        *,
        max(CASE WHEN event = 'destination_closed' THEN time END) OVER (
            PARTITION BY instance, destination, app, stream, broadcast
        ) AS closed_at
    FROM destination_steps
),
needed AS (
    SELECT
        e.instance, e.number, e.time, e.event, e.connection, e.app, e.stream, e.destination, e.peer, e.client, e.address,
        e.reason, e.error_class, e.limit, e.clean, e.video, e.audio, e.path, e.duration, e.messages, e.bytes,
        e.dropped, e.dropped_by_reason, e.stalls, e.stalled_seconds, e.count, e.role, e.seconds, e.queued,
        e.protocol, e.startup, e.throughput_kbps, e.host, e.version, e.day,
        e.part
    FROM people e
    JOIN batch_servers v ON e.instance = v.instance
    WHERE NOT v.settled
        -- The minute in which the log ends is counted anew by the next run, and who left in it belongs to it.
        AND (e.closed_at IS NULL OR floor(unix_micros(e.closed_at) / 6e7) >= floor(unix_micros(v.last_seen) / 6e7))
    UNION ALL
    SELECT
        e.instance, e.number, e.time, e.event, e.connection, e.app, e.stream, e.destination, e.peer, e.client, e.address,
        e.reason, e.error_class, e.limit, e.clean, e.video, e.audio, e.path, e.duration, e.messages, e.bytes,
        e.dropped, e.dropped_by_reason, e.stalls, e.stalled_seconds, e.count, e.role, e.seconds, e.queued,
        e.protocol, e.startup, e.throughput_kbps, e.host, e.version, e.day,
        e.broadcast AS part
    FROM sent e
    JOIN batch_servers v ON e.instance = v.instance
    WHERE NOT v.settled
        AND (e.closed_at IS NULL OR unix_micros(e.closed_at) > unix_micros(v.last_seen) - :settling_us)
),
grouped AS (
    SELECT
        n.*,
        CASE WHEN n.event IN ('media_statistics', 'destination_statistics') THEN -1 - n.part ELSE n.number END AS which
    FROM needed n
)
SELECT
    g.instance,
    max(g.number) AS number,
    max(g.time) AS time,
    g.event,
    g.connection,
    g.app,
    g.stream,
    g.destination,
    max(g.peer) AS peer,
    max(g.client) AS client,
    max(g.address) AS address,
    max(g.reason) AS reason,
    max(g.error_class) AS error_class,
    max(g.limit) AS limit,
    bool_or(g.clean) AS clean,
    max(g.video) AS video,
    max(g.audio) AS audio,
    max(g.path) AS path,
    max(g.duration) AS duration,
    try_sum(g.messages) AS messages,
    try_sum(g.bytes) AS bytes,
    try_sum(g.dropped) AS dropped,
    any_value(g.dropped_by_reason) FILTER (WHERE g.dropped_by_reason IS NOT NULL) AS dropped_by_reason,
    try_sum(g.stalls) AS stalls,
    try_sum(CAST(floor(g.stalled_seconds * 1e6 + 0.5e0) AS BIGINT)) / 1e6 AS stalled_seconds,
    max(g.count) AS count,
    g.role,
    max(g.seconds) AS seconds,
    max(g.queued) AS queued,
    max(g.protocol) AS protocol,
    max(g.startup) AS startup,
    max_by(g.throughput_kbps, CASE WHEN g.throughput_kbps IS NOT NULL THEN g.number END) AS throughput_kbps,
    max(g.host) AS host,
    max(g.version) AS version,
    max(g.day) AS day
FROM grouped g
GROUP BY g.instance, g.connection, g.destination, g.app, g.stream, g.event, g.role, g.which
