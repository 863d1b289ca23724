"""Event logs that tests write: what happened, second by second, as the server would tell it."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

NOON = datetime(2026, 11, 16, 12, 0, 0, tzinfo=UTC)


def moment(seconds: float) -> datetime:
    """So many seconds after noon."""
    return NOON + timedelta(seconds=seconds)


class FakeServer:
    """One run of a server, with a clock that the test moves."""

    def __init__(self, instance: str = "i1", at: float = 0.0) -> None:
        self.instance = instance
        self.now = at
        self.lines: list[str] = []
        #: When each of them happened.
        self.times: list[datetime] = []
        #: How many lines there were at some points of the story.
        self.marks: dict[str, int] = {}
        self._began = at
        self._begun: dict[tuple[str, str], float] = {}

    def at(self, seconds: float) -> FakeServer:
        """Let it be so many seconds after noon."""
        self.now = seconds
        return self

    def tell(
        self, event: str, connection: str | None = None, stream: str | None = None, **fields: Any
    ) -> None:
        """Something happens now."""
        values = {
            "time": moment(self.now).isoformat(timespec="microseconds").replace("+00:00", "Z"),
            "event": event,
            "connection": connection,
            "stream": stream,
            "instance": self.instance,
            "number": len(self.lines) + 1,
            **fields,
        }
        self.lines.append(json.dumps(values))
        self.times.append(moment(self.now))

    def mark(self, name: str) -> None:
        """Remember this point."""
        self.marks[name] = len(self.lines)

    def lose(self, count: int) -> None:
        """So many events are lost."""
        self.lines += [""] * count
        self.times += [moment(self.now)] * count

    # -- what usually happens ------------------------------------------------------------------------------

    def start(self) -> None:
        self.tell("server_started", version="1.0", host="relay-1", node="east")

    def stop(self) -> None:
        self.tell("server_stopped", duration=self.now - self._began)

    def connect(self, connection: str, client: str = "ffplay", peer: str | None = None) -> None:
        self.tell("connection_opened", connection, peer=f"10.0.0.{int(connection[1:])}:999")
        self.tell("connect", connection, app="live", client=client, peer=peer)

    def close(self, connection: str, peer: str | None = None) -> None:
        peer = peer or f"10.0.0.{int(connection[1:])}:999"
        self.tell("connection_closed", connection, peer=peer, reason="x", limit=None, duration=1.0)

    def join(self, connection: str, stream: str = "live/test", **fields: Any) -> None:
        self._begun[connection, stream] = self.now
        self.tell("play_started", connection, stream, **fields)

    def leave(
        self,
        connection: str,
        stream: str = "live/test",
        reason: str = "the peer closed it",
        messages: int = 0,
        size: int = 0,
        dropped: dict[str, int] | None = None,
        stalls: int = 0,
        **fields: Any,
    ) -> None:
        dropped = dropped or {}
        self.tell(
            "play_stopped",
            connection,
            stream,
            duration=self.now - self._begun[connection, stream],
            messages=messages,
            bytes=size,
            dropped=sum(dropped.values()),
            dropped_by_reason=dropped,
            reason=reason,
            stalls=stalls,
            stalled_seconds=2.5 * stalls,
            **fields,
        )

    def report(
        self,
        connection: str,
        stream: str = "live/test",
        role: str = "player",
        seconds: float = 30.0,
        **counts: float | None,
    ) -> None:
        values = {"messages": 0, "bytes": 0, "dropped": 0, "queued": 0, "stalls": 0, **counts}
        self.tell("media_statistics", connection, stream, role=role, seconds=seconds, kbps=1.0, **values)

    def publish(self, connection: str, stream: str = "live/test") -> None:
        self._begun[connection, stream] = self.now
        self.tell("publish_started", connection, stream)

    def unpublish(
        self, connection: str, stream: str = "live/test", clean: bool = True, **counts: int
    ) -> None:
        self.tell(
            "publish_stopped",
            connection,
            stream,
            reason="the publisher ended it" if clean else "the connection was lost (the peer broke it off)",
            clean=clean,
            duration=self.now - self._begun[connection, stream],
            **{"messages": 0, "bytes": 0, **counts},
        )

    def destination(self, what: str, name: str = "YouTube", stream: str = "live/test", **fields: Any) -> None:
        self.tell(f"destination_{what}", None, stream, destination=name, **fields)

    # -- files ---------------------------------------------------------------------------------------------

    def text(self, first: int = 0, last: int | None = None) -> str:
        """Some of the lines, as they are in a file."""
        return "".join(line + "\n" for line in self.lines[first:last] if line)

    def write(self, folder: Path, first: int = 0, last: int | None = None, compress: bool = False) -> Path:
        """Write some of the lines to a file of their own."""
        when = json.loads(next(line for line in self.lines[first:] if line))["time"]
        name = f"events_{when[:10].replace('-', '')}_{when[11:19].replace(':', '')}-{first + 1}.jsonl"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / (name + (".gz" if compress else ""))
        data = self.text(first, last).encode()
        path.write_bytes(gzip.compress(data) if compress else data)
        return path


def story() -> FakeServer:
    """Ten minutes with a publisher, five viewers and two destinations; the figures in the tests follow from it."""
    server = FakeServer()
    server.start()
    server.at(1).connect("c1", "obs")
    server.at(2).publish("c1")
    server.tell("codec_detected", "c1", "live/test", stream_key="live/test", video="H.264", audio="AAC")
    server.destination("connecting", address="rtmp://a/live2")
    server.destination("connecting", name="archive", address="rtmp://b/in")
    server.at(3).destination("connected", address="rtmp://a/live2")
    server.at(4).destination("failed", name="archive", error_class="refused", reason="the key is wrong")
    server.destination("reconnecting", name="archive", attempt=2, delay=10.0, address="rtmp://b/in")
    server.at(10).connect("c2")
    server.join("c2")
    server.at(20).connect("c3")
    server.join("c3")
    server.at(32).report("c1", role="publisher", messages=1500, bytes=3_000_000)
    server.destination(
        "statistics", seconds=30.0, kbps=1.0, messages=1400, bytes=2_900_000, dropped=0, queued=0
    )
    server.mark("two watch")
    server.at(40).report("c2", messages=1000, bytes=2_000_000)
    server.at(50).report("c3", messages=900, bytes=1_900_000, dropped=100, stalls=1)
    server.at(61).leave(
        "c3", messages=1000, size=2_000_000, dropped={"queue_full": 90, "closed": 20}, stalls=2
    )
    server.tell("connection_closed", "c3", peer="10.0.0.3:999", reason="x", limit=None, duration=41.0)
    server.at(100).destination("failed", error_class="network", reason="the connection was lost")
    server.destination("reconnecting", attempt=2, delay=1.0, address="rtmp://a/live2")
    server.at(101).destination("connecting", address="rtmp://a/live2")
    server.at(102).destination(
        "failed", error_class="network", reason="nothing listens there (connection refused)"
    )
    server.mark("YouTube is out")
    server.at(110).join("c2", "live/other")
    server.at(115).connect("c4")
    server.join("c4")
    server.at(140).destination("connecting", address="rtmp://a/live2")
    server.at(140.5).destination("connected", address="rtmp://a/live2")
    server.mark("YouTube is back")
    server.destination("dropped", reason="not_connected", count=2000)
    server.at(150).destination("dropped", reason="queue_full", count=7)
    server.at(200).leave(
        "c4", reason="the peer took no byte for 30 s (limit: stall_timeout)", dropped={"closed": 5}
    )
    server.at(300).unpublish("c1", clean=False, messages=14_000, bytes=29_000_000)
    server.destination("held", linger=10.0)
    server.destination(
        "closed", name="archive", reason="the publisher was lost", messages=0, bytes=0, dropped=0
    )
    server.at(305).connect("c5", "obs")
    server.publish("c5")
    server.at(400).join("c4")
    server.at(600).leave("c4", reason="the server stops")
    server.leave("c2", messages=20_000, size=40_000_000, reason="the server stops")
    server.leave("c2", "live/other", reason="the server stops")
    server.unpublish("c5", messages=13_000, bytes=28_000_000)
    server.destination("closed", reason="the server stops", messages=25_000, bytes=55_000_000, dropped=2007)
    server.at(600.5).stop()
    return server
