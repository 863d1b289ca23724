-- Rows of `publishes`, with is_open and is_new.
SELECT
    app,
    stream,
    started_at,
    ended_at,
    seconds,
    messages,
    bytes,
    video_codec,
    audio_codec,
    clean,
    CASE
        -- Its own end was not told.
        WHEN stopped_at IS NULL AND closed_at IS NOT NULL THEN 'lost'
        WHEN stopped_at IS NULL AND server_how = 'running' THEN 'live'
        WHEN stopped_at IS NULL AND server_how = 'died' THEN 'server died'
        WHEN stopped_at IS NULL THEN 'server stopped'
        WHEN reason = 'the server stops' THEN 'server stopped'
        WHEN clean THEN 'ended'
        ELSE 'lost'
    END AS ended_how,
    reason AS end_reason,
    peer,
    client,
    connection,
    instance,
    to_date(started_at) AS day,
    is_open,
    is_new
FROM plays_and_publishes
WHERE kind = 'publish'
