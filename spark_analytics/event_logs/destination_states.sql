-- Rows of `destination_states`, with is_open and is_new.
WITH runs AS (
    SELECT
        instance,
        destination,
        app,
        stream,
        state_run,
        max(state) AS state,
        min(time) AS began,
        min(number) AS begin_number,
        max_by(address, CASE WHEN address IS NOT NULL THEN number END) AS address
    FROM destination_steps
    WHERE state IS NOT NULL
    GROUP BY instance, destination, app, stream, state_run
),
followed AS (
    SELECT
        *,
        lead(began) OVER (PARTITION BY instance, destination, app, stream ORDER BY state_run) AS next_began,
        lead(begin_number) OVER (PARTITION BY instance, destination, app, stream ORDER BY state_run) AS end_number
    FROM runs
),
states AS (
    SELECT
        f.*,
        v.settled,
        v.known_number,
        coalesce(f.next_began, v.gone_at) AS ended,
        greatest(unix_micros(coalesce(f.next_began, v.last_seen)) - unix_micros(f.began), 0) AS lasted
    FROM followed f
    JOIN batch_servers v ON f.instance = v.instance
    WHERE f.state <> 'none'
),
live AS (
    SELECT
        s.instance,
        s.destination,
        s.app,
        s.stream,
        s.begin_number,
        sum(least(unix_micros(s.began) + s.lasted, p.unpublished) - greatest(unix_micros(s.began), p.published)) AS live
    FROM states s
    JOIN live_times p ON s.instance = p.instance AND s.app = p.app AND s.stream = p.stream
        AND p.published < unix_micros(s.began) + s.lasted AND p.unpublished > unix_micros(s.began)
    GROUP BY s.instance, s.destination, s.app, s.stream, s.begin_number
)
SELECT
    s.destination,
    s.app,
    s.stream,
    s.state,
    s.began,
    s.ended,
    s.lasted / 1e6 AS seconds,
    coalesce(l.live, 0) / 1e6 AS live_seconds,
    s.address,
    s.instance,
    to_date(s.began) AS day,
    s.end_number IS NULL AND NOT s.settled AS is_open,
    CASE WHEN s.end_number IS NULL THEN s.settled ELSE s.end_number > s.known_number END AS is_new
FROM states s
LEFT JOIN live l ON s.instance = l.instance AND s.destination = l.destination AND s.app = l.app
    AND s.stream = l.stream AND s.begin_number = l.begin_number
