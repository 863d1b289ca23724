-- Who watched, play by play? Plays that overlap with the time, of one stream or of all, in the order in which they began.
SELECT
    coalesce(app, '') AS app,
    coalesce(stream, '') AS stream,
    started_at,
    ended_at,
    watch_seconds,
    bytes,
    messages,
    dropped,
    stalls,
    protocol,
    startup,
    throughput_kbps,
    ended_how,
    peer,
    client,
    coalesce(connection, '') AS connection
FROM viewers
WHERE day >= :first_day AND day <= :last_day
    AND (:since IS NULL OR started_at >= :since OR ended_at IS NULL OR ended_at > :since)
    AND (:until IS NULL OR started_at < :until)
    AND (:all_streams OR (app = :app AND stream = :stream))
ORDER BY started_at NULLS LAST, coalesce(connection, '')
