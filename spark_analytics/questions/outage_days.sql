-- From when to when were there outages that overlap with the time?
SELECT min(began) AS began, max(timestamp_micros(unix_micros(began) + CAST(round(seconds * 1e6) AS BIGINT))) AS ended
FROM outages
WHERE day >= :first_day AND day <= :last_day
    AND (:since IS NULL OR began >= :since OR ended IS NULL OR ended > :since)
    AND (:until IS NULL OR began < :until)
    AND (:all_streams OR (app = :app AND stream = :stream))
    AND (:destination IS NULL OR destination = :destination)
