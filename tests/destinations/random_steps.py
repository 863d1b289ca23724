"""Random steps: anything that can happen to a destination, with the accounts checked after each step."""

from __future__ import annotations

from twisted.internet.error import ConnectionRefusedError

from rtmprelay import events
from rtmprelay.media import MediaFrame
from rtmprelay.testing import MemoryClient
from tests.destinations.harness import MemoryRelay, coded
from tests.helpers import audio, group, inter, start_frames, video_header


class RandomSteps:
    """A relay with two destinations. Each public method is a step that happens to the first; the second notices nothing."""

    def __init__(self, relay: MemoryRelay | None = None) -> None:
        self.relay = relay or MemoryRelay()
        self.server = self.relay.add_stub()
        self.other = self.relay.add_stub("two")
        self.relay.add_destination(linger=2.0)
        self.relay.add_destination("two", "rtmp://two/live/key")
        self.encoder: MemoryClient | None = None
        self.time = 0
        self.publish()

    def publish(self) -> None:
        if self.encoder is None:
            self.encoder = self.relay.publish()
            self.headers()
            self.group()

    def headers(self) -> None:
        self._send([*start_frames()])

    def other_headers(self) -> None:
        self._send([video_header(b"%d" % self.time)])

    def group(self) -> None:
        self._send(group(self.time, size=3000))
        self.time += 200

    def two_frames(self) -> None:
        self._send([inter(self.time, 9000), audio(self.time)])
        self.time += 40

    def _send(self, frames: list[MediaFrame]) -> None:
        if self.encoder is not None:
            self.relay.send(self.encoder, *frames)

    def lose_server(self) -> None:
        self.server.lose_all()

    def refuse_publish(self) -> None:
        self.server.refuse_publish = ("NetStream.Publish.BadName", "no")

    def refuse_connections(self) -> None:
        self.server.failure = ConnectionRefusedError()

    def accept_again(self) -> None:
        self.server.failure = self.server.refuse_publish = None
        self.server.silent_about = set()

    def leave_publish_unanswered(self) -> None:
        self.server.silent_about = {"publish"}

    def stall(self) -> None:
        if self.server.connections:
            self.server.last.transport.stalled = True

    def read_again(self) -> None:
        for connection in self.server.connections:
            connection.transport.stalled = False

    def lose_publisher(self) -> None:
        if self.encoder is not None:
            self.encoder.disconnect(clean=False)
            self.encoder = None

    def end_publisher(self) -> None:
        if self.encoder is not None:
            self.encoder.end()
            self.encoder.disconnect()
            self.encoder = None

    def reconnect(self) -> None:
        self.relay.destinations.reconnect("one")

    def disable(self) -> None:
        self.relay.destinations.disable("one")

    def enable(self) -> None:
        self.relay.destinations.enable("one")

    def wait(self) -> None:
        self.relay.advance(0.7, step=0.35)

    def wait_long(self) -> None:
        self.relay.advance(12, step=1)

    def finish(self) -> None:
        """End the publisher, and let time pass until all connections have gone."""
        self.read_again()
        self.end_publisher()
        self.relay.advance(15)
        self.check()

    def check(self) -> None:
        self.relay.pump()
        self.relay.assert_balanced()
        for stub in (self.server, self.other):
            for connection in stub.connections:
                assert [name for name in connection.order if name == "publish"] in ([], ["publish"])
                if "FCUnpublish" in connection.order:
                    assert "media" not in connection.order[connection.order.index("FCUnpublish") :]
                pictures = [raw for raw in coded(connection.media) if raw.type_id == 9]
                assert not pictures or pictures[0].payload[0] >> 4 == 1, "it starts without a keyframe"
                times = [raw.timestamp for raw in coded(connection.media)]
                assert times == sorted(times)
        status = self.relay.status("one")
        arrived = sum(len(connection.media) for connection in self.server.connections)
        assert arrived <= status.messages_sent
        # The second destination got everything.
        assert self.relay.status("two").messages_dropped == 0
        assert self.relay.status("two").messages_sent == sum(
            len(connection.media) for connection in self.other.connections
        )
        assert not any(
            isinstance(event, events.DestinationFailed) and event.destination == "two"
            for event in self.relay.server.events
        )


STEPS = [name for name in vars(RandomSteps) if not name.startswith("_") and name not in ("check", "finish")]
