-- One row for each play and each publish, from its first event to its last, wherever in the logs these are.
--
-- stopped_at, reason, clean, dropped_by_reason: as its own end tells them; null without it.
-- rest_...: what came after the last of its statistics, which was at reported_at.
-- has_just_stopped: its end was not known before.
-- is_open: the next run has to look at it again.   is_new: all about it is known, and was not before.
WITH kinds AS (
    SELECT
        *,
        CASE
            WHEN event IN ('play_started', 'play_stopped') OR (event = 'media_statistics' AND role = 'player')
                THEN 'play'
            WHEN event IN ('publish_started', 'publish_stopped', 'codec_detected')
                OR (event = 'media_statistics' AND role = 'publisher')
                THEN 'publish'
        END AS kind,
        event IN ('play_started', 'publish_started') AS is_start,
        event IN ('play_stopped', 'publish_stopped') AS is_stop,
        event = 'media_statistics' AS is_report
    FROM connection_events
),
-- Any event may be lost. What follows tells which events belong to the same play: each play is called by the number of its
-- start; by that of its end (below zero) if its start was lost.
told AS (
    SELECT
        *,
        is_start OR is_stop AS is_edge,
        -- When it began, as an end tells it.
        unix_micros(time) - CASE WHEN is_stop THEN coalesce(duration, 0e0) ELSE 0e0 END * 1e6 AS begun
    FROM kinds
    WHERE kind IS NOT NULL
),
-- Plays of one connection with the same stream may overlap: an end belongs to the start that is nearest to the time at
-- which, by its own account, it began. That may be a little before the start was told.
neighbours AS (
    SELECT
        *,
        last_value(CASE WHEN is_start THEN number END) IGNORE NULLS OVER (
            PARTITION BY instance, connection, app, stream, kind, closed_number, is_edge
            ORDER BY begun, number ROWS UNBOUNDED PRECEDING
        ) AS before_number,
        last_value(CASE WHEN is_start THEN begun END) IGNORE NULLS OVER (
            PARTITION BY instance, connection, app, stream, kind, closed_number, is_edge
            ORDER BY begun, number ROWS UNBOUNDED PRECEDING
        ) AS before_begun,
        lead(CASE WHEN is_start THEN number END) OVER (
            PARTITION BY instance, connection, app, stream, kind, closed_number, is_edge ORDER BY begun, number
        ) AS after_number,
        lead(CASE WHEN is_start THEN begun END) OVER (
            PARTITION BY instance, connection, app, stream, kind, closed_number, is_edge ORDER BY begun, number
        ) AS after_begun
    FROM told
),
nearest AS (
    SELECT
        *,
        CASE
            WHEN after_number < number AND NOT coalesce(begun - before_begun <= after_begun - begun, false)
                THEN after_number
            WHEN before_number < number THEN before_number
        END AS start_number
    FROM neighbours
),
counted AS (
    SELECT
        *,
        row_number() OVER (
            PARTITION BY instance, connection, app, stream, kind, closed_number, event, start_number ORDER BY number
        ) AS which_end
    FROM nearest
),
edges AS (
    SELECT
        *,
        CASE
            WHEN is_start THEN number
            -- A second end of the same play is that of another, whose start was lost.
            WHEN is_stop AND (start_number IS NULL OR which_end > 1) THEN -1 - number
            WHEN is_stop THEN start_number
        END AS edge
    FROM counted
),
around AS (
    SELECT
        *,
        last_value(CASE WHEN edge IS NOT NULL THEN is_start END) IGNORE NULLS OVER (
            PARTITION BY instance, connection, app, stream, kind, closed_number
            ORDER BY number ROWS UNBOUNDED PRECEDING
        ) AS is_after_start,
        last_value(edge) IGNORE NULLS OVER (
            PARTITION BY instance, connection, app, stream, kind, closed_number
            ORDER BY number ROWS UNBOUNDED PRECEDING
        ) AS edge_before,
        last_value(CASE WHEN is_stop THEN edge END) IGNORE NULLS OVER (
            PARTITION BY instance, connection, app, stream, kind, closed_number
            ORDER BY number DESC ROWS UNBOUNDED PRECEDING
        ) AS end_after
    FROM edges
),
-- What comes after a start belongs to it, and what comes after an end to what ends next.
named AS (
    SELECT
        *,
        coalesce(edge, CASE WHEN is_after_start THEN edge_before ELSE end_after END) AS play
    FROM around
),
together AS (
    SELECT
        instance,
        connection,
        app,
        stream,
        kind,
        closed_number,
        play,
        max(CASE WHEN is_start THEN time END) AS start_time,
        max(CASE WHEN is_stop THEN time END) AS stopped_at,
        max(CASE WHEN is_stop THEN number END) AS stop_number,
        max(CASE WHEN is_stop THEN duration END) AS duration,
        max(CASE WHEN is_stop THEN reason END) AS reason,
        bool_or(CASE WHEN is_stop THEN clean END) AS clean,
        any_value(dropped_by_reason) FILTER (WHERE is_stop AND dropped_by_reason IS NOT NULL) AS dropped_by_reason,
        max(CASE WHEN is_start OR is_stop THEN protocol END) AS protocol,
        max(CASE WHEN is_stop THEN startup END) AS startup,
        max_by(throughput_kbps, CASE WHEN throughput_kbps IS NOT NULL THEN number END) AS throughput_kbps,
        max(CASE WHEN is_report THEN time END) AS reported_at,
        max_by(video, CASE WHEN event = 'codec_detected' THEN number END) AS video_codec,
        max_by(audio, CASE WHEN event = 'codec_detected' THEN number END) AS audio_codec,
        max(closed_at) AS closed_at,
        max_by(known_peer, number) AS peer,
        max_by(known_client, number) AS client,
        max(CASE WHEN is_stop THEN messages END) AS total_messages,
        max(CASE WHEN is_stop THEN bytes END) AS total_bytes,
        max(CASE WHEN is_stop THEN dropped END) AS total_dropped,
        max(CASE WHEN is_stop THEN stalls END) AS total_stalls,
        max(CASE WHEN is_stop THEN stalled_seconds END) AS total_stalled_seconds,
        try_sum(CASE WHEN is_report THEN messages END) AS sum_messages,
        try_sum(CASE WHEN is_report THEN bytes END) AS sum_bytes,
        try_sum(CASE WHEN is_report THEN dropped END) AS sum_dropped,
        try_sum(CASE WHEN is_report THEN stalls END) AS sum_stalls,
        -- In whole microseconds the sum is the same in any order.
        try_sum(CASE WHEN is_report THEN CAST(floor(stalled_seconds * 1e6 + 0.5e0) AS BIGINT) END) / 1e6
            AS sum_stalled_seconds
    FROM named
    GROUP BY instance, connection, app, stream, kind, closed_number, play
),
bounded AS (
    SELECT
        t.*,
        s.server_how,
        s.last_seen,
        s.settled,
        s.known_number,
        s.known_until,
        -- Without the event of its beginning, how long it lasted tells.
        coalesce(
            t.start_time,
            timestamp_micros(CAST(floor(unix_micros(t.stopped_at) - coalesce(t.duration, 0e0) * 1e6) AS BIGINT))
        ) AS started_at,
        -- Without that of its end, it ended with its connection at the latest.
        coalesce(t.stopped_at, t.closed_at, s.gone_at) AS over_at
    FROM together t
    JOIN batch_servers s ON t.instance = s.instance
    WHERE t.start_time IS NOT NULL OR t.stopped_at IS NOT NULL
),
completed AS (
    SELECT
        *,
        -- It is over, and nothing was ever told.
        over_at IS NOT NULL AND stopped_at IS NULL AND reported_at IS NULL AS is_untold
    FROM bounded
)
SELECT
    instance,
    connection,
    app,
    stream,
    kind,
    started_at,
    stopped_at,
    closed_at,
    reported_at,
    reason,
    clean,
    dropped_by_reason,
    protocol,
    startup,
    throughput_kbps,
    video_codec,
    audio_codec,
    peer,
    client,
    server_how,
    last_seen,
    known_until,
    settled,
    -- A clock may have been set back meanwhile.
    CASE WHEN over_at IS NOT NULL THEN greatest(over_at, started_at) END AS ended_at,
    coalesce(
        duration,
        greatest((unix_micros(coalesce(over_at, last_seen)) - unix_micros(start_time)) / 1e6, 0e0)
    ) AS seconds,
    -- Until its connection is closed, more may become known of who it is.
    closed_number IS NULL AND NOT settled AS is_open,
    CASE WHEN closed_number IS NULL THEN settled ELSE closed_number > known_number END AS is_new,
    coalesce(stop_number > known_number, false) AS has_just_stopped,
    coalesce(total_messages, sum_messages, CASE WHEN NOT is_untold THEN 0 END) AS messages,
    coalesce(total_bytes, sum_bytes, CASE WHEN NOT is_untold THEN 0 END) AS bytes,
    coalesce(total_dropped, sum_dropped, CASE WHEN NOT is_untold THEN 0 END) AS dropped,
    coalesce(total_stalls, sum_stalls, CASE WHEN NOT is_untold THEN 0 END) AS stalls,
    coalesce(total_stalled_seconds, sum_stalled_seconds, CASE WHEN NOT is_untold THEN 0e0 END) AS stalled_seconds,
    greatest(coalesce(total_messages, 0) - coalesce(sum_messages, 0), 0) AS rest_messages,
    greatest(coalesce(total_bytes, 0) - coalesce(sum_bytes, 0), 0) AS rest_bytes,
    greatest(coalesce(total_dropped, 0) - coalesce(sum_dropped, 0), 0) AS rest_dropped,
    greatest(coalesce(total_stalls, 0) - coalesce(sum_stalls, 0), 0) AS rest_stalls,
    greatest(coalesce(total_stalled_seconds, 0e0) - coalesce(sum_stalled_seconds, 0e0), 0e0) AS rest_stalled_seconds
FROM completed
