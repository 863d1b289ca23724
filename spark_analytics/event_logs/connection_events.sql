-- The events of connections, each with when its connection was closed, and who is at the other end of it.
WITH of_connections AS (
    SELECT
        *,
        -- The next close: other programs may use the name of a connection again.
        last_value(CASE WHEN event = 'connection_closed' THEN number END) IGNORE NULLS OVER (
            PARTITION BY instance, connection ORDER BY number DESC ROWS UNBOUNDED PRECEDING
        ) AS closed_number
    FROM batch_events
    WHERE event IN (
        'connection_opened', 'connect', 'connection_closed', 'play_started', 'play_stopped', 'publish_started',
        'publish_stopped', 'codec_detected', 'media_statistics'
    )
)
SELECT
    *,
    max(CASE WHEN event = 'connection_closed' AND number = closed_number THEN time END) OVER (
        PARTITION BY instance, connection, closed_number
    ) AS closed_at,
    -- Behind a proxy, who it is becomes known only when the connection was opened already.
    coalesce(
        max(CASE WHEN event = 'connection_closed' AND number = closed_number THEN peer END) OVER (
            PARTITION BY instance, connection, closed_number
        ),
        last_value(peer) IGNORE NULLS OVER (
            PARTITION BY instance, connection, closed_number ORDER BY number ROWS UNBOUNDED PRECEDING
        )
    ) AS known_peer,
    last_value(client) IGNORE NULLS OVER (
        PARTITION BY instance, connection, closed_number ORDER BY number ROWS UNBOUNDED PRECEDING
    ) AS known_client
FROM of_connections
