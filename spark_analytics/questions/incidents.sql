-- What went wrong, and when? Incidents that begin from :since on and before :until, of one stream or of all.
-- :kinds is empty for all kinds, and otherwise has a comma before and after each.
SELECT wall, app, stream, kind, length_ms, bytes, detail, path, time_ms, byte_offset
FROM incidents
WHERE day >= :first_day AND day <= :last_day
    AND (:since IS NULL OR wall >= :since)
    AND (:until IS NULL OR wall < :until)
    AND (:all_streams OR (app = :app AND stream = :stream))
    AND (:kinds = '' OR contains(:kinds, concat(',', kind, ',')))
ORDER BY wall NULLS LAST, app NULLS LAST, stream NULLS LAST, byte_offset NULLS LAST, kind NULLS LAST
