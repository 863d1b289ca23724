-- The events of destinations.
--
-- state: of those events that change it.   state_run: counts the changes of it.
-- side: `connected`, `out`, or `none` (not wanted at all).   side_run: counts the changes of that.
-- out_run: the last of those in which the destination was out.   broadcast: counts its broadcasts.
WITH sure_states AS (
    SELECT
        *,
        CASE event
            WHEN 'destination_connected' THEN 'connected'
            WHEN 'destination_failed' THEN 'down'
            WHEN 'destination_given_up' THEN 'down'
            WHEN 'destination_closed' THEN 'none'
        END AS sure,
        count(CASE WHEN event = 'destination_closed' THEN 1 END) OVER (
            PARTITION BY instance, destination, app, stream
            ORDER BY number ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS broadcast
    FROM batch_events
    WHERE event IN (
            'destination_connecting', 'destination_connected', 'destination_failed', 'destination_given_up',
            'destination_closed', 'destination_statistics'
        )
        -- What was lost without a connection belongs to an outage; other losses do not.
        OR (event = 'destination_dropped' AND reason = 'not_connected')
),
before AS (
    SELECT
        *,
        last_value(sure) IGNORE NULLS OVER (
            PARTITION BY instance, destination, app, stream
            ORDER BY number ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS sure_before
    FROM sure_states
),
states AS (
    SELECT
        *,
        CASE
            WHEN sure IS NOT NULL THEN sure
            WHEN event = 'destination_connecting' AND coalesce(sure_before, 'none') = 'none' THEN 'connecting'
            -- Connecting again without a failure: an operator wanted it.
            WHEN event = 'destination_connecting' THEN 'down'
        END AS state
    FROM before
),
sides AS (
    SELECT *, CASE WHEN state IN ('connecting', 'down') THEN 'out' ELSE state END AS side FROM states
),
neighbours AS (
    SELECT
        *,
        last_value(state) IGNORE NULLS OVER (
            PARTITION BY instance, destination, app, stream
            ORDER BY number ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS state_before,
        last_value(side) IGNORE NULLS OVER (
            PARTITION BY instance, destination, app, stream
            ORDER BY number ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS side_before
    FROM sides
),
runs AS (
    SELECT
        *,
        CAST(count(CASE WHEN state IS NOT NULL AND state IS DISTINCT FROM state_before THEN 1 END) OVER (
            PARTITION BY instance, destination, app, stream ORDER BY number ROWS UNBOUNDED PRECEDING
        ) AS BIGINT) AS state_run,
        CAST(count(CASE WHEN side IS NOT NULL AND side IS DISTINCT FROM side_before THEN 1 END) OVER (
            PARTITION BY instance, destination, app, stream ORDER BY number ROWS UNBOUNDED PRECEDING
        ) AS BIGINT) AS side_run
    FROM neighbours
)
SELECT
    *,
    last_value(CASE WHEN side = 'out' THEN side_run END) IGNORE NULLS OVER (
        PARTITION BY instance, destination, app, stream ORDER BY number ROWS UNBOUNDED PRECEDING
    ) AS out_run
FROM runs
