"""The demo's source keeps the pace of a live stream."""

from __future__ import annotations

from twisted.internet.task import Clock

from rtmprelay.demo.source import Source
from rtmprelay.media import MediaFrame
from tests.helpers import group, start_frames

FRAMES = [*start_frames(), *group(0), *group(200)]


def test_source_sends_each_frame_when_it_is_due() -> None:
    clock, sent, ended = Clock(), list[MediaFrame](), list[float]()
    clock.advance(50)
    source = Source(clock, iter(FRAMES), sent.append, on_end=lambda: ended.append(clock.seconds()))
    assert source.seconds == 0
    source.start()
    assert sent == [frame for frame in FRAMES if frame.timestamp_ms == 0]
    clock.advance(0.039)
    assert len(sent) == 5
    clock.advance(0.0011)
    assert [frame.timestamp_ms for frame in sent[5:]] == [40, 40]
    clock.pump([0.01] * 50)
    assert sent == FRAMES
    assert source.tape.messages == len(FRAMES) - 1
    assert len(ended) == 1
    assert not clock.getDelayedCalls()


def test_source_catches_up_after_a_delay() -> None:
    clock, sent = Clock(), list[MediaFrame]()
    clock.advance(1)
    Source(clock, iter(FRAMES), sent.append).start()
    clock.advance(0.2)
    assert [frame.timestamp_ms for frame in sent][-1] == 200


def test_source_ends_after_the_given_time() -> None:
    clock, sent, ended = Clock(), list[MediaFrame](), list[bool]()
    clock.advance(1)
    source = Source(clock, iter(FRAMES), sent.append, 0.2, lambda: ended.append(True))
    source.start()
    clock.pump([0.01] * 50)
    assert sent == FRAMES[:13]
    assert ended == [True]


def test_stopped_source_sends_nothing_more() -> None:
    clock, sent = Clock(), list[MediaFrame]()
    clock.advance(1)
    source = Source(clock, iter(FRAMES), sent.append)
    source.start()
    source.stop()
    source.stop()
    clock.advance(1)
    assert len(sent) == 5
    assert not clock.getDelayedCalls()
