-- Which gaps of a recording begin before a moment?
SELECT wall, length_ms
FROM incidents
WHERE day >= :first_day AND day <= :last_day AND app = :app AND stream = :stream AND file_id = :file_id
    AND kind = 'gap' AND wall < :at
ORDER BY wall
