"""`python -m rtmprelay demo`: a relay, two destinations, a player and a recording, with proof that all of them get the same."""
