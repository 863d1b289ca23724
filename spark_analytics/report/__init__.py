"""One page with plots, for people: what was recorded, who watched, and how the destinations did."""
