"""The JSON documents of a relay and the requests that change it."""
