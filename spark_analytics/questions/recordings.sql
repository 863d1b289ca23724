-- Which recordings of a stream are there? In the order of their start.
SELECT * FROM recordings WHERE app = :app AND stream = :stream ORDER BY started_at, path
