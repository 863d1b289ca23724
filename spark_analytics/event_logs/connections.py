"""Connections: until when each is there, and who is behind it."""

from __future__ import annotations

from pyspark.sql import DataFrame

_EVENTS = """event IN ('connection_opened', 'connect', 'connection_closed', 'play_started', 'play_stopped',
    'publish_started', 'publish_stopped', 'codec_detected', 'media_statistics')"""

# The next one: other programs may use the name of a connection again.
_CLOSED = """last(IF(event = 'connection_closed', struct(time, number, peer), NULL), true)
    OVER (PARTITION BY instance, connection ORDER BY number DESC ROWS UNBOUNDED PRECEDING) AS closed"""

_UNTIL_NOW = "PARTITION BY instance, connection, closed.number ORDER BY number ROWS UNBOUNDED PRECEDING"


def of_connections(events: DataFrame) -> DataFrame:
    """The events of connections, with when each was closed: `closed_at` and `closed_number`, null if it was not; and
    `known_peer`, `known_client`.
    """
    return (
        events.where(_EVENTS)
        .selectExpr("*", _CLOSED)
        .selectExpr(
            "* EXCEPT (closed)",
            "closed.time AS closed_at",
            "closed.number AS closed_number",
            # Behind a proxy, who it is becomes known only when the connection was opened already.
            f"coalesce(closed.peer, last(peer, true) OVER ({_UNTIL_NOW})) AS known_peer",
            f"last(client, true) OVER ({_UNTIL_NOW}) AS known_client",
        )
    )
