"""HTTP connections and requests: what each may cost, and how live streams go first."""
