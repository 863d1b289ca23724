-- What was lost while a destination was out, who watched here meanwhile, and where is it recorded? Outages that overlap with
-- the time. What has no end goes on, and everything lasts for a microsecond at least, whatever clocks say that were set back.
WITH numbered AS (
    SELECT
        row_number() OVER (ORDER BY began, destination, app, stream, instance) AS id,
        coalesce(destination, '') AS destination,
        coalesce(app, '') AS app,
        coalesce(stream, '') AS stream,
        began,
        ended,
        seconds,
        error,
        error_class,
        failures,
        lost_messages,
        ended_how,
        unix_micros(began) AS begins,
        unix_micros(began) + greatest(CAST(round(seconds * 1e6) AS BIGINT), 1) AS ends
    FROM outages
    WHERE day >= :first_day AND day <= :last_day
        AND (:since IS NULL OR began >= :since OR ended IS NULL OR ended > :since)
        AND (:until IS NULL OR began < :until)
        AND (:all_streams OR (app = :app AND stream = :stream))
        AND (:destination IS NULL OR destination = :destination)
),
-- Plays belong to the day on which they began, and reports to the one on which they ended: other days than those from
-- :first_near_day to :last_near_day need not be read.
reach AS (
    SELECT min(begins) AS begins, max(ends) AS ends FROM numbered
),
plays AS (
    SELECT
        coalesce(v.app, '') AS app,
        coalesce(v.stream, '') AS stream,
        unix_micros(v.started_at) AS begins,
        greatest(coalesce(unix_micros(v.ended_at), :until_us), unix_micros(v.started_at) + 1) AS ends,
        v.ended_at IS NOT NULL AS has_end
    FROM viewers v
    JOIN reach r ON v.day >= :first_near_day AND v.day <= :last_near_day
        AND unix_micros(v.started_at) < r.ends
        AND (v.ended_at IS NULL OR greatest(unix_micros(v.ended_at), unix_micros(v.started_at) + 1) > r.begins)
),
watching AS (
    SELECT
        o.id,
        count(*) AS viewers,
        CAST(sum(CASE WHEN p.has_end AND p.ends <= o.ends THEN 1 ELSE 0 END) AS BIGINT) AS viewers_left
    FROM numbered o
    JOIN plays p ON o.app = p.app AND o.stream = p.stream AND p.begins < o.ends AND p.ends > o.begins
    GROUP BY o.id
),
reports AS (
    SELECT
        coalesce(d.app, '') AS app,
        coalesce(d.stream, '') AS stream,
        unix_micros(d.began) AS begins,
        greatest(coalesce(unix_micros(d.ended), :until_us), unix_micros(d.began) + 1) AS ends,
        d.dropped
    FROM deliveries d
    JOIN reach r ON d.day >= :first_near_day AND d.day <= :last_near_day
        AND unix_micros(d.began) < r.ends
        AND (d.ended IS NULL OR greatest(unix_micros(d.ended), unix_micros(d.began) + 1) > r.begins)
    WHERE d.role = 'viewer' AND d.dropped > 0
),
losses AS (
    SELECT o.id, CAST(sum(d.dropped) AS BIGINT) AS viewers_dropped
    FROM numbered o
    JOIN reports d ON o.app = d.app AND o.stream = d.stream AND d.begins < o.ends AND d.ends > o.begins
    GROUP BY o.id
),
recorded AS (
    SELECT
        o.id,
        o.begins AS outage_begins,
        o.ends AS outage_ends,
        f.file_id,
        f.path,
        unix_micros(f.started_at) AS begins,
        least(coalesce(unix_micros(f.ended_at), o.ends), o.ends) AS ends,
        -- There may be copies, and what is left of them: the best one is what is there, and whole.
        CASE WHEN f.vanished_at IS NULL THEN 0 ELSE 1 END AS vanished,
        CASE f.status WHEN 'ok' THEN 0 WHEN 'recovered' THEN 1 WHEN 'growing' THEN 2 ELSE 3 END AS damage
    FROM numbered o
    JOIN recordings f ON o.app = coalesce(f.app, '') AND o.stream = coalesce(f.stream, '')
        AND unix_micros(f.started_at) < o.ends
        AND (f.ended_at IS NULL OR greatest(unix_micros(f.ended_at), unix_micros(f.started_at) + 1) > o.begins)
),
-- Segments overlap a little, because their times are not so exact: what two of them show counts once.
in_order AS (
    SELECT
        *,
        row_number() OVER (PARTITION BY id ORDER BY begins, vanished, damage, path) AS number,
        coalesce(
            max(ends) OVER (
                PARTITION BY id ORDER BY begins, vanished, damage, path
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
            outage_begins) AS reached
    FROM recorded
),
recorded_sums AS (
    SELECT id, sum(greatest(ends - greatest(begins, reached, outage_begins), 0)) / 1e6 AS seconds
    FROM in_order
    GROUP BY id
),
firsts AS (
    SELECT id, file_id, path, outage_begins FROM in_order WHERE number = 1
),
offsets AS (
    SELECT
        f.id,
        coalesce(
            max(CASE WHEN unix_micros(k.wall) <= f.outage_begins THEN k.byte_offset END),
            -- The recording begins later: its first keyframe.
            min(k.byte_offset)
        ) AS byte_offset
    FROM firsts f
    JOIN keyframes k ON f.file_id = k.file_id
    GROUP BY f.id
)
SELECT
    o.destination,
    o.app,
    o.stream,
    o.began,
    o.ended,
    o.seconds,
    o.error,
    o.error_class,
    o.failures,
    o.lost_messages,
    o.ended_how,
    coalesce(w.viewers, 0) AS viewers,
    coalesce(w.viewers_left, 0) AS viewers_left,
    coalesce(l.viewers_dropped, 0) AS viewers_dropped,
    coalesce(CAST(s.seconds AS DOUBLE), 0e0) AS recorded_seconds,
    f.path,
    k.byte_offset
FROM numbered o
LEFT JOIN watching w ON o.id = w.id
LEFT JOIN losses l ON o.id = l.id
LEFT JOIN recorded_sums s ON o.id = s.id
LEFT JOIN firsts f ON o.id = f.id
LEFT JOIN offsets k ON o.id = k.id
ORDER BY o.began, o.destination, o.app, o.stream
