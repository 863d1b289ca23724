-- Where can decoding of a recording start? Its keyframes, in the order of time.
SELECT byte_offset, timestamp_ms, time_ms, wall
FROM keyframes
WHERE day >= :first_day AND day <= :last_day AND app = :app AND stream = :stream AND file_id = :file_id
ORDER BY wall, byte_offset
