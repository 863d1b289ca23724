"""The harness of a live stream: the stream, a clock, and everybody who gets its frames."""

from __future__ import annotations

from twisted.internet.task import Clock

from rtmprelay.media import MediaFrame
from rtmprelay.streams.merging import Pace
from rtmprelay.streams.registry import StreamRegistry
from tests.streams.helpers import FakePublisher, audio_header, video, video_header
from tests.streams.merging_helpers import WINDOW, FixedMerging, Receiver

HEADERS = [video_header(), audio_header()]


class StreamHarness:
    """A stream with windows that the test sets, and its subscribers."""

    def __init__(self, viewer: float = WINDOW, server: float = WINDOW, reading: float = 0.0) -> None:
        self.clock = Clock()
        self.merging = FixedMerging(self.clock, viewer, server, reading)
        self.registry = StreamRegistry(merging=self.merging)
        self.publisher = FakePublisher()
        self.stream = self.registry.publish("live/cam", self.publisher, 0.0)
        self.receivers: list[Receiver] = []

    def add(self, pace: Pace = Pace.VIEWER, receiver: Receiver | None = None) -> Receiver:
        """Subscribe one more consumer."""
        receiver = receiver or Receiver()
        self.receivers.append(receiver)
        self.stream.subscribe(receiver, pace)
        self.check()
        return receiver

    def send(self, *frames: MediaFrame, waited: float = 0.0) -> None:
        """Frames come in together."""
        self.stream.publish_frames(frames, self.clock.seconds(), waited)
        self.check()

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.check()

    def check(self) -> None:
        """Every message is accounted for, at every step."""
        for receiver in self.receivers:
            assert receiver.is_balanced
            assert receiver.account.messages_sent == len(receiver.frames)

    @property
    def timers(self) -> int:
        return len(self.clock.getDelayedCalls())


def pictures(*times: int) -> list[MediaFrame]:
    """A keyframe at 0, other pictures after it."""
    return [video(time, key=time == 0) for time in times]
