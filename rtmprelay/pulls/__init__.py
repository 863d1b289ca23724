"""Streams of other servers, fetched while somebody here wants them."""
