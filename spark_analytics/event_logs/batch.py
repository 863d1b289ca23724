"""What one run of the index works on: new events, those that were left open before, and what is known of servers."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import attrs
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from spark_analytics.event_logs.servers import RUNNING, Server
from spark_analytics.event_schemas import OPEN_EVENTS, SAME_EVENT

#: `gone_at`: when it was heard of last, if it runs no more. `settled`: nothing more will come from it.
#: `known_...`: up to where its events were known before.
SERVER_SCHEMA = (
    "instance string, server_how string, last_seen timestamp, gone_at timestamp, settled boolean,"
    " known_number bigint, known_until timestamp"
)


def each_once(events: DataFrame) -> DataFrame:
    """Events without the copies of them that are in other files."""
    return events.dropDuplicates(list(SAME_EVENT))


# Of the server's all have these. A row without who or what it is about would be no answer to any question.
_IS_WHOLE = """CASE
    WHEN event IN ('play_started', 'play_stopped', 'publish_started', 'publish_stopped', 'codec_detected',
        'media_statistics') THEN connection IS NOT NULL AND stream IS NOT NULL
    WHEN startswith(event, 'connection_') THEN connection IS NOT NULL
    WHEN startswith(event, 'destination_') THEN destination IS NOT NULL AND stream IS NOT NULL
    ELSE true END"""


def whole(events: DataFrame) -> DataFrame:
    """Events that have what the tables need of them."""
    return events.where(_IS_WHOLE)


@attrs.frozen
class Batch:
    """New events and the open ones of the run before, which together tell what has ended meanwhile.

    Every table is made by the same functions, whether from all events at once or from one batch after the other: a row
    that has ended is written once, in the batch that has its end; a row that has not is written as it is so far, and
    anew by the next run.

    Attributes:
        events: New and open ones.
        servers: See SERVER_SCHEMA.
    """

    events: DataFrame
    servers: DataFrame

    @classmethod
    def of(cls, new: DataFrame, open_before: DataFrame, servers: Iterable[Server], now: datetime) -> Batch:
        """A batch from new events, and the table `open_events` of the run before."""
        columns = OPEN_EVENTS.column_names
        rows = [
            (
                server.instance,
                server.ended_how(now),
                server.last_seen,
                None if server.ended_how(now) == RUNNING else server.last_seen,
                server.is_settled(now),
                server.known_number,
                server.known_until,
            )
            for server in servers
        ]
        return cls(
            whole(new.select(columns).unionByName(open_before.select(columns))),
            new.sparkSession.createDataFrame(rows, SERVER_SCHEMA),
        )

    def with_servers(self, rows: DataFrame) -> DataFrame:
        """Rows with what is known of their servers."""
        return rows.join(fn.broadcast(self.servers), "instance")
