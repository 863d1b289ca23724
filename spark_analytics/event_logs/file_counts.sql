-- What events tell of each file, and of each server in it.
SELECT
    file_id,
    instance,
    count(CASE WHEN event <> 'unreadable' THEN 1 END) AS events,
    count(CASE WHEN event = 'unreadable' THEN 1 END) AS unreadable,
    max(line_end) AS read_until,
    min(time) AS first_event,
    max(time) AS last_event,
    min(number) AS first_number,
    max(number) AS last_number,
    max(host) AS host,
    max(version) AS version,
    max(CASE WHEN event = 'server_started' THEN node END) AS node,
    bool_or(event = 'server_stopped') AS has_stopped,
    -- Now and then both are the same by chance.
    bool_or(number <> line_end) AS is_numbered,
    max(CASE WHEN event = 'unreadable' AND reason <> 'no event' THEN reason END) AS problem
FROM counted_events
GROUP BY file_id, instance
