-- Rows of `viewers`, with is_open and is_new.
WITH plays AS (
    SELECT *, regexp_extract(reason, '[(]limit: ([a-z_]+)[)]$', 1) AS limit_name
    FROM plays_and_publishes
    WHERE kind = 'play'
)
SELECT
    app,
    stream,
    started_at,
    ended_at,
    seconds AS watch_seconds,
    messages,
    bytes,
    dropped,
    dropped_by_reason,
    stalls,
    stalled_seconds,
    protocol,
    startup,
    throughput_kbps,
    CASE
        -- Its own end was not told.
        WHEN stopped_at IS NULL AND closed_at IS NOT NULL THEN 'lost'
        WHEN stopped_at IS NULL AND server_how = 'running' THEN 'watching'
        WHEN stopped_at IS NULL AND server_how = 'died' THEN 'server died'
        WHEN stopped_at IS NULL THEN 'server stopped'
        -- The server ends the sentence of a limit with the limit's name.
        WHEN limit_name = 'stall_timeout' THEN 'too slow'
        WHEN limit_name <> '' THEN 'sent away'
        -- Exactly these: a sentence that merely contains a word of them says nothing reliable.
        WHEN reason IN ('the peer closed it', 'the client closed it', 'the viewer stopped', 'the stream ended')
            THEN 'left'
        -- Players of HLS say no goodbye: they ask for nothing any more.
        WHEN reason LIKE 'no playlist was asked for in % s' THEN 'left'
        WHEN reason = 'the peer broke it off' THEN 'lost'
        WHEN reason = 'the server stops' THEN 'server stopped'
        ELSE 'unknown'
    END AS ended_how,
    reason AS end_reason,
    peer,
    client,
    connection,
    instance,
    to_date(started_at) AS day,
    is_open,
    is_new
FROM plays
