-- Rows of `outages`, with is_open and is_new. An outage that has ended is left open for :settling_us: what was lost in it is
-- told right after its end.
WITH steps AS (
    SELECT
        *,
        -- What was lost belongs to the last outage, although it is told when that is over.
        CASE WHEN event = 'destination_dropped' THEN out_run ELSE side_run END AS run
    FROM destination_steps
    WHERE state IS NOT NULL OR event = 'destination_dropped'
),
runs AS (
    SELECT
        instance,
        destination,
        app,
        stream,
        run,
        max(side) AS side,
        min(CASE WHEN state IS NOT NULL THEN time END) AS began,
        min(CASE WHEN state IS NOT NULL THEN number END) AS begin_number,
        count(CASE WHEN event = 'destination_failed' THEN 1 END) AS failures,
        min_by(reason, CASE WHEN event = 'destination_failed' THEN number END) AS error,
        min_by(error_class, CASE WHEN event = 'destination_failed' THEN number END) AS failure_class,
        max_by(reason, CASE WHEN event = 'destination_failed' THEN number END) AS last_error,
        bool_or(event = 'destination_given_up') AS given_up,
        try_sum(CASE WHEN event = 'destination_dropped' THEN count END) AS told_lost
    FROM steps
    GROUP BY instance, destination, app, stream, run
),
followed AS (
    SELECT
        *,
        lead(began) OVER (PARTITION BY instance, destination, app, stream ORDER BY run) AS next_began,
        lead(begin_number) OVER (PARTITION BY instance, destination, app, stream ORDER BY run) AS end_number,
        lead(side) OVER (PARTITION BY instance, destination, app, stream ORDER BY run) AS next_side,
        lag(side) OVER (PARTITION BY instance, destination, app, stream ORDER BY run) AS previous_side
    FROM runs
    WHERE side IS NOT NULL
),
known AS (
    SELECT
        f.*,
        v.server_how,
        v.settled,
        coalesce(f.next_began, v.gone_at) AS ended,
        greatest(unix_micros(coalesce(f.next_began, v.last_seen)) - unix_micros(f.began), 0) AS lasted,
        coalesce(f.previous_side = 'connected', false) AS was_connected,
        v.settled OR coalesce(unix_micros(v.last_seen) >= unix_micros(f.next_began) + :settling_us, false) AS is_final,
        coalesce(f.end_number <= v.known_number, false)
            AND coalesce(unix_micros(v.known_until) >= unix_micros(f.next_began) + :settling_us, false) AS was_final
    FROM followed f
    JOIN batch_servers v ON f.instance = v.instance
)
SELECT
    destination,
    app,
    stream,
    began,
    ended,
    lasted / 1e6 AS seconds,
    error,
    coalesce(failure_class, 'requested') AS error_class,
    last_error,
    failures,
    -- A server tells it when the outage is over; of one that died before, nobody knows.
    CASE WHEN next_side IS NULL THEN told_lost ELSE coalesce(told_lost, 0) END AS lost_messages,
    CASE
        WHEN next_side = 'connected' THEN 'recovered'
        WHEN next_side = 'none' THEN 'closed'
        WHEN server_how = 'running' THEN 'lasts'
        WHEN server_how = 'died' THEN 'server died'
        ELSE 'server stopped'
    END AS ended_how,
    was_connected,
    given_up,
    instance,
    to_date(began) AS day,
    NOT is_final AS is_open,
    is_final AND NOT was_final AS is_new
FROM known
WHERE side = 'out' AND (failures > 0 OR was_connected)
