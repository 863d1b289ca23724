"""HTTP connections and requests: their bounds, and who is served first."""
