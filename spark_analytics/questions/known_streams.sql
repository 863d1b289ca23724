-- Is anything known of a stream? Other tables name no more streams than these.
SELECT app, stream FROM recordings WHERE app = :app AND stream = :stream
UNION
SELECT app, stream FROM publishes WHERE app = :app AND stream = :stream
UNION
SELECT app, stream FROM viewers WHERE app = :app AND stream = :stream
UNION
SELECT app, stream FROM outages WHERE app = :app AND stream = :stream
