-- Who watched each stream, how long, and how did that go? Of plays that overlap with the time, only what is in it counts.
-- With :together, the viewers of all streams are one audience. Times are microseconds since 1970; :since_us and :until_us are far away where the time has no end.
WITH plays AS (
    SELECT
        CASE WHEN :together THEN '' ELSE coalesce(app, '') END AS app,
        CASE WHEN :together THEN '' ELSE coalesce(stream, '') END AS stream,
        coalesce(peer, connection, '') AS address,
        messages,
        bytes,
        dropped,
        stalls,
        startup,
        throughput_kbps,
        ended_how,
        greatest(unix_micros(started_at), :since_us) AS begins,
        -- A play that goes on is known up to the last event of its server.
        unix_micros(started_at)
            + CAST(round(greatest(coalesce(watch_seconds, 0e0), 0e0) * 1e6) AS BIGINT) AS known_until
    FROM viewers
    WHERE day >= :first_day AND day <= :last_day
        AND (:since IS NULL OR started_at >= :since OR ended_at IS NULL OR ended_at > :since)
        AND (:until IS NULL OR started_at < :until)
        AND (:all_streams OR (app = :app AND stream = :stream))
),
watched AS (
    SELECT *, greatest(begins, least(known_until, :until_us)) AS ends FROM plays
),
edges AS (
    SELECT app, stream, begins AS instant, 1 AS step FROM watched
    UNION ALL
    SELECT app, stream, ends AS instant, -1 AS step FROM watched
),
-- A viewer that leaves at the instant another joins is not concurrent with it: only the sum of an instant counts.
moments AS (
    SELECT app, stream, instant, sum(step) AS step FROM edges GROUP BY app, stream, instant
),
counted AS (
    SELECT
        app,
        stream,
        instant,
        CAST(sum(step) OVER (PARTITION BY app, stream ORDER BY instant ROWS UNBOUNDED PRECEDING) AS BIGINT) AS viewers
    FROM moments
),
peaks AS (
    SELECT app, stream, max(viewers) AS peak FROM counted GROUP BY app, stream
),
first_peaks AS (
    SELECT c.app, c.stream, min(c.instant) AS instant
    FROM counted c
    JOIN peaks p ON c.app = p.app AND c.stream = p.stream AND c.viewers = p.peak
    WHERE p.peak > 0
    GROUP BY c.app, c.stream
),
-- Where a viewer comes from: without the port, if there is one.
located AS (
    SELECT *, regexp_replace(address, ':[0-9]+$', '') AS host FROM watched
),
sums AS (
    SELECT
        app,
        stream,
        count(*) AS plays,
        count(DISTINCT CASE
            WHEN host <> '' AND (instr(host, ':') = 0 OR right(host, 1) = ']') THEN host ELSE address
            END) AS clients,
        CAST(sum(CASE WHEN ended_how = 'watching' THEN 1 ELSE 0 END) AS BIGINT) AS watching,
        CAST(sum(ends - begins) AS DOUBLE) / 1e6 AS seconds,
        -- What is not known, because a server died, counts as nothing.
        CAST(coalesce(sum(bytes), 0) AS DOUBLE) AS bytes,
        CAST(coalesce(sum(messages), 0) AS DOUBLE) AS messages,
        CAST(coalesce(sum(dropped), 0) AS DOUBLE) AS dropped,
        CAST(coalesce(sum(stalls), 0) AS BIGINT) AS stalls,
        -- Of the plays whose players tell it. In whole microseconds the sum is the same in any order.
        CAST(sum(CAST(floor(startup * 1e6 + 0.5e0) AS BIGINT)) AS DOUBLE) / 1e6 / count(startup) AS startup,
        CAST(sum(throughput_kbps) AS DOUBLE) / count(throughput_kbps) AS throughput_kbps,
        CAST(sum(CASE WHEN ended_how = 'too slow' THEN 1 ELSE 0 END) AS BIGINT) AS too_slow,
        CAST(sum(CASE WHEN ended_how = 'lost' THEN 1 ELSE 0 END) AS BIGINT) AS lost,
        CAST(sum(CASE WHEN ended_how = 'server died' THEN 1 ELSE 0 END) AS BIGINT) AS server_died
    FROM located
    GROUP BY app, stream
)
SELECT
    s.app,
    s.stream,
    s.plays,
    s.clients,
    s.watching,
    greatest(p.peak, 0) AS peak,
    timestamp_micros(f.instant) AS peak_at,
    s.seconds / 3600e0 AS watch_hours,
    s.seconds / s.plays AS average_seconds,
    s.bytes / 1e9 AS gb,
    CASE WHEN s.messages + s.dropped > 0 THEN 100e0 * s.dropped / (s.messages + s.dropped) ELSE 0e0 END
        AS dropped_percent,
    s.stalls,
    s.startup,
    s.throughput_kbps,
    s.too_slow,
    s.lost,
    s.server_died
FROM sums s
JOIN peaks p ON s.app = p.app AND s.stream = p.stream
LEFT JOIN first_peaks f ON s.app = f.app AND s.stream = f.stream
ORDER BY s.app, s.stream
