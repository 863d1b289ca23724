-- Which destinations are known? Other tables name no more of them than these.
SELECT destination FROM destinations WHERE destination IS NOT NULL
UNION
SELECT destination FROM destination_states WHERE destination IS NOT NULL
UNION
SELECT destination FROM outages WHERE destination IS NOT NULL
ORDER BY destination
