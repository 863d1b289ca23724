-- How many seconds of a recording that begin in a time have any frame?
SELECT count(*) AS seconds
FROM seconds
WHERE day >= :first_day AND day <= :last_day AND app = :app AND stream = :stream AND file_id = :file_id
    AND wall > :after AND wall <= :until
