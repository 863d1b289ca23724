-- What was recorded of each stream? One row for each, with sums over all recordings, also those that have vanished.
WITH counted AS (
    SELECT app, stream, count(*) AS incidents FROM incidents GROUP BY app, stream
),
recorded AS (
    SELECT
        app,
        stream,
        count(file_id) AS files,
        CAST(sum(duration_ms) AS DOUBLE) AS duration_ms,
        CAST(sum(size) AS DOUBLE) AS size,
        -- What was sent: files have room for an index at their beginning.
        CAST(coalesce(sum(video_bytes), 0) + coalesce(sum(audio_bytes), 0) AS DOUBLE) AS payload,
        min(started_at) AS first,
        max(ended_at) AS last,
        CAST(sum(CASE WHEN status IN ('ok', 'growing', 'recovered') THEN 0 ELSE 1 END) AS BIGINT) AS damaged,
        CAST(sum(lost_bytes) AS BIGINT) AS lost_bytes,
        CAST(sum(dropped_frames) AS BIGINT) AS dropped_frames,
        count(vanished_at) AS vanished
    FROM recordings
    GROUP BY app, stream
)
SELECT
    r.app,
    r.stream,
    r.files,
    r.duration_ms / 3.6e6 AS hours,
    r.size / 1e9 AS gb,
    CASE WHEN r.duration_ms > 0 THEN r.payload / (r.duration_ms / 1e3 * 125e0) END AS kbps,
    r.first,
    r.last,
    r.damaged,
    r.lost_bytes,
    r.dropped_frames,
    coalesce(c.incidents, 0) AS incidents,
    r.vanished
FROM recorded r
LEFT JOIN counted c ON r.app = c.app AND r.stream = c.stream
ORDER BY r.app NULLS LAST, r.stream NULLS LAST
