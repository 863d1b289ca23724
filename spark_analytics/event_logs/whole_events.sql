-- Events that have what the tables need of them. A row without who or what it is about would answer no question; all events
-- of the server have that.
SELECT *
FROM once_events
WHERE CASE
    WHEN event IN (
        'play_started', 'play_stopped', 'publish_started', 'publish_stopped', 'codec_detected', 'media_statistics'
    ) THEN connection IS NOT NULL AND stream IS NOT NULL
    WHEN left(event, 11) = 'connection_' THEN connection IS NOT NULL
    WHEN left(event, 12) = 'destination_' THEN destination IS NOT NULL AND stream IS NOT NULL
    ELSE true
END
