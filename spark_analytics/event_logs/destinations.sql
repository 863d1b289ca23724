-- Rows of `destinations` from :first_day on: day by day, how much of the time in which there was something to send each
-- destination got it. `all_...`: the tables as they will be, as far as they reach that day; `drops_once`: the events
-- `destination_dropped`, each once.
WITH pieces AS (
    SELECT
        s.destination,
        s.app || '/' || s.stream AS stream,
        s.state,
        greatest(unix_micros(s.began), p.published) AS live_from,
        least(unix_micros(s.began) + CAST(floor(s.seconds * 1e6 + 0.5e0) AS BIGINT), p.unpublished) AS live_until
    FROM all_destination_states s
    JOIN live_times p ON s.instance = p.instance AND s.app = p.app AND s.stream = p.stream
        AND p.published < unix_micros(s.began) + CAST(floor(s.seconds * 1e6 + 0.5e0) AS BIGINT)
        AND p.unpublished > unix_micros(s.began)
),
days AS (
    SELECT
        *,
        explode(sequence(
            CAST(floor(live_from / 8.64e10) AS BIGINT), CAST(floor(live_until / 8.64e10) AS BIGINT), CAST(1 AS BIGINT)
        )) AS number
    FROM pieces
),
parts AS (
    SELECT
        *,
        to_date(timestamp_micros(number * 86400000000)) AS day,
        least(live_until, (number + 1) * 86400000000) - greatest(live_from, number * 86400000000) AS part
    FROM days
),
live AS (
    SELECT
        destination,
        day,
        sum(part) / 1e6 AS live_seconds,
        sum(CASE WHEN state = 'connected' THEN part ELSE 0 END) / 1e6 AS connected_seconds,
        count(DISTINCT stream) AS streams
    FROM parts
    WHERE part > 0
    GROUP BY destination, day
),
outage_sums AS (
    SELECT
        destination,
        day,
        count(CASE WHEN ended_how = 'recovered' THEN 1 END) AS reconnects,
        count(*) AS outages,
        sum(CAST(floor(seconds * 1e6 + 0.5e0) AS BIGINT)) / 1e6 AS outage_seconds,
        max(seconds) AS longest_outage_seconds,
        percentile(CASE WHEN ended_how = 'recovered' THEN seconds END, 0.95) AS recovery_p95_seconds,
        try_sum(lost_messages) AS lost_messages
    FROM all_outages
    GROUP BY destination, day
),
reasons AS (
    SELECT destination, day, coalesce(reason, 'unknown') AS reason, coalesce(try_sum(count), 0) AS dropped
    FROM drops_once
    GROUP BY destination, day, coalesce(reason, 'unknown')
),
dropped AS (
    SELECT
        destination,
        day,
        map_from_entries(array_sort(collect_list(struct(reason, dropped)))) AS dropped_by_reason,
        try_sum(dropped) AS dropped
    FROM reasons
    GROUP BY destination, day
),
sent AS (
    SELECT who AS destination, day, try_sum(messages) AS messages, try_sum(bytes) AS bytes
    FROM all_deliveries
    WHERE role = 'destination'
    GROUP BY who, day
),
named AS (
    SELECT destination, day FROM live
    UNION
    SELECT destination, day FROM outage_sums
    UNION
    SELECT destination, day FROM dropped
    UNION
    SELECT destination, day FROM sent
)
SELECT
    n.destination,
    coalesce(l.live_seconds, 0e0) AS live_seconds,
    coalesce(l.connected_seconds, 0e0) AS connected_seconds,
    100 * try_divide(l.connected_seconds, l.live_seconds) AS uptime_percent,
    coalesce(l.streams, 0) AS streams,
    coalesce(o.reconnects, 0) AS reconnects,
    coalesce(o.outages, 0) AS outages,
    coalesce(o.outage_seconds, 0e0) AS outage_seconds,
    o.longest_outage_seconds,
    o.recovery_p95_seconds,
    coalesce(o.lost_messages, 0) AS lost_messages,
    coalesce(s.messages, 0) AS messages,
    coalesce(s.bytes, 0) AS bytes,
    coalesce(d.dropped, 0) AS dropped,
    d.dropped_by_reason,
    n.day
FROM named n
LEFT JOIN live l ON n.destination = l.destination AND n.day = l.day
LEFT JOIN outage_sums o ON n.destination = o.destination AND n.day = o.day
LEFT JOIN dropped d ON n.destination = d.destination AND n.day = d.day
LEFT JOIN sent s ON n.destination = s.destination AND n.day = s.day
WHERE n.day >= :first_day
