-- How reliable was each destination (with :by_day, on each day)? Whole days are as `index` has counted them. Up to two parts
-- of days, before and after them, are counted here by the same rules: from :a_since_us to :a_until_us on :a_day, and so b.
WITH parts AS (
    SELECT CAST(:a_since_us AS BIGINT) AS since_us, CAST(:a_until_us AS BIGINT) AS until_us, CAST(:a_day AS DATE) AS day
    WHERE :a_since_us IS NOT NULL
    UNION ALL
    SELECT CAST(:b_since_us AS BIGINT), CAST(:b_until_us AS BIGINT), CAST(:b_day AS DATE)
    WHERE :b_since_us IS NOT NULL
),
-- When each stream had a publisher. Publishers overlap when one takes over from another that is not known to be lost yet.
published AS (
    SELECT
        p.day,
        coalesce(v.instance, '') AS instance,
        coalesce(v.app, '') AS app,
        coalesce(v.stream, '') AS stream,
        greatest(unix_micros(v.started_at), p.since_us) AS begins,
        -- One that goes on is live for as long as the state is known.
        least(coalesce(unix_micros(v.ended_at), p.until_us), p.until_us) AS ends
    FROM publishes v
    JOIN parts p ON unix_micros(v.started_at) < p.until_us
        AND (v.ended_at IS NULL OR unix_micros(v.ended_at) > p.since_us)
),
marked AS (
    SELECT
        *,
        CASE
            WHEN begins <= max(ends) OVER (
                PARTITION BY day, instance, app, stream ORDER BY begins, ends
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
            THEN 0 ELSE 1
        END AS is_first
    FROM published
    WHERE begins < ends
),
numbered AS (
    SELECT
        *,
        sum(is_first) OVER (
            PARTITION BY day, instance, app, stream ORDER BY begins, ends ROWS UNBOUNDED PRECEDING) AS number
    FROM marked
),
live AS (
    SELECT day, instance, app, stream, min(begins) AS begins, max(ends) AS ends
    FROM numbered
    GROUP BY day, instance, app, stream, number
),
-- A channel that is always on may have been connected at any time before.
states AS (
    SELECT
        p.day,
        coalesce(s.destination, '') AS destination,
        coalesce(s.instance, '') AS instance,
        coalesce(s.app, '') AS app,
        coalesce(s.stream, '') AS stream,
        s.state,
        unix_micros(s.began) AS begins,
        unix_micros(s.began) + CAST(round(s.seconds * 1e6) AS BIGINT) AS ends
    FROM destination_states s
    JOIN parts p ON unix_micros(s.began) < p.until_us
        AND unix_micros(s.began) + CAST(round(s.seconds * 1e6) AS BIGINT) > p.since_us
),
uptime AS (
    SELECT
        s.destination,
        s.day,
        sum((least(l.ends, s.ends) - greatest(l.begins, s.begins)) / 1e6) AS live_seconds,
        sum(CASE WHEN s.state = 'connected'
            THEN (least(l.ends, s.ends) - greatest(l.begins, s.begins)) / 1e6 ELSE 0e0 END) AS connected_seconds
    FROM states s
    JOIN live l ON s.day = l.day AND s.instance = l.instance AND s.app = l.app AND s.stream = l.stream
        AND l.begins < s.ends AND l.ends > s.begins
    GROUP BY s.destination, s.day
),
outage_sums AS (
    SELECT
        coalesce(o.destination, '') AS destination,
        p.day,
        count(*) AS outages,
        count(CASE WHEN o.ended_how = 'recovered' THEN 1 END) AS reconnects,
        sum(o.seconds) AS outage_seconds,
        coalesce(sum(o.lost_messages), 0) AS lost_messages,
        max(o.seconds) AS longest_outage_seconds,
        percentile(CASE WHEN o.ended_how = 'recovered' THEN o.seconds END, 0.95) AS recovery_p95_seconds
    FROM outages o
    JOIN parts p ON unix_micros(o.began) >= p.since_us AND unix_micros(o.began) < p.until_us
    GROUP BY coalesce(o.destination, ''), p.day
),
-- The events that tell of drops, without the copies of them that are in other files.
drops AS (
    SELECT
        p.day,
        e.instance,
        e.number,
        e.time,
        max(coalesce(e.destination, '')) AS destination,
        max(coalesce(e.reason, 'unknown')) AS reason,
        max(coalesce(e.count, 0)) AS count
    FROM events e
    JOIN parts p ON e.day = p.day AND unix_micros(e.time) >= p.since_us AND unix_micros(e.time) < p.until_us
    WHERE e.event = 'destination_dropped'
    GROUP BY p.day, e.instance, e.number, e.time
),
deliveries_sums AS (
    SELECT
        coalesce(d.who, '') AS destination,
        p.day,
        coalesce(sum(d.messages), 0) AS messages,
        coalesce(sum(d.bytes), 0) AS bytes
    FROM deliveries d
    JOIN parts p ON d.day = p.day AND unix_micros(d.ended) >= p.since_us AND unix_micros(d.ended) < p.until_us
    WHERE d.role = 'destination'
    GROUP BY coalesce(d.who, ''), p.day
),
whole_days AS (
    SELECT * FROM destinations
    WHERE :has_whole_days AND day >= :first_whole_day AND day <= :last_whole_day
),
days AS (
    SELECT
        coalesce(destination, '') AS destination, day, live_seconds, connected_seconds, outages, reconnects,
        outage_seconds, lost_messages, bytes, dropped, longest_outage_seconds, recovery_p95_seconds
    FROM whole_days
    UNION ALL
    SELECT destination, day, live_seconds, connected_seconds, 0, 0, 0e0, 0, 0, 0, NULL, NULL FROM uptime
    UNION ALL
    SELECT destination, day, 0e0, 0e0, outages, reconnects, outage_seconds, lost_messages, 0, 0,
        longest_outage_seconds, recovery_p95_seconds
    FROM outage_sums
    UNION ALL
    SELECT destination, day, 0e0, 0e0, 0, 0, 0e0, 0, 0, count, NULL, NULL FROM drops
    UNION ALL
    SELECT destination, day, 0e0, 0e0, 0, 0, 0e0, 0, bytes, 0, NULL, NULL FROM deliveries_sums
),
sums AS (
    SELECT
        destination,
        CASE WHEN :by_day THEN day END AS day,
        coalesce(sum(live_seconds), 0e0) AS live_seconds,
        coalesce(sum(connected_seconds), 0e0) AS connected_seconds,
        CAST(coalesce(sum(outages), 0) AS BIGINT) AS outages,
        CAST(coalesce(sum(reconnects), 0) AS BIGINT) AS reconnects,
        coalesce(sum(outage_seconds), 0e0) AS outage_seconds,
        CAST(coalesce(sum(lost_messages), 0) AS BIGINT) AS lost_messages,
        CAST(coalesce(sum(bytes), 0) AS DOUBLE) AS bytes,
        CAST(coalesce(sum(dropped), 0) AS BIGINT) AS dropped,
        max(longest_outage_seconds) AS longest_seconds,
        -- Of the worst day: exact ones are in `outages`.
        max(recovery_p95_seconds) AS recovery_p95_seconds
    FROM days
    GROUP BY destination, CASE WHEN :by_day THEN day END
),
entries AS (
    SELECT coalesce(destination, '') AS destination, day, explode(map_entries(dropped_by_reason)) AS entry
    FROM whole_days
),
reasons AS (
    SELECT destination, CASE WHEN :by_day THEN day END AS day, entry.key AS reason, entry.value AS count FROM entries
    UNION ALL
    SELECT destination, CASE WHEN :by_day THEN day END, reason, count FROM drops
),
reason_sums AS (
    SELECT destination, day, reason, CAST(sum(count) AS BIGINT) AS count FROM reasons GROUP BY destination, day, reason
),
reason_maps AS (
    SELECT destination, day, map_from_entries(array_sort(collect_list(struct(reason, count)))) AS dropped_by_reason
    FROM reason_sums
    GROUP BY destination, day
),
errors AS (
    SELECT coalesce(destination, '') AS destination, max_by(last_error, began) AS last_error
    FROM outages
    WHERE last_error <> '' AND day >= :first_day AND day <= :last_day
        AND (:since IS NULL OR began >= :since OR ended IS NULL OR ended > :since)
        AND (:until IS NULL OR began < :until)
    GROUP BY coalesce(destination, '')
)
SELECT
    s.destination,
    s.day,
    CASE WHEN s.live_seconds > 0 THEN 100e0 * s.connected_seconds / s.live_seconds END AS uptime_percent,
    s.live_seconds / 3600e0 AS live_hours,
    s.outages,
    s.outage_seconds,
    s.longest_seconds,
    s.recovery_p95_seconds,
    s.reconnects,
    s.bytes / 1e9 AS gb,
    s.lost_messages,
    s.dropped,
    r.dropped_by_reason,
    e.last_error
FROM sums s
LEFT JOIN reason_maps r ON s.destination = r.destination AND s.day IS NOT DISTINCT FROM r.day
LEFT JOIN errors e ON s.destination = e.destination
ORDER BY uptime_percent NULLS LAST, s.destination, s.day NULLS FIRST
