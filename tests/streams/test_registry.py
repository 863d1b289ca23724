"""Who may publish, and which streams there are."""

from __future__ import annotations

import pytest

from rtmprelay.streams.limits import StreamLimits
from rtmprelay.streams.live_stream import LiveStream
from rtmprelay.streams.registry import StreamBusyError, StreamNotFoundError, StreamRegistry
from tests.streams.helpers import FakePublisher, KeepingSubscriber, audio


def publisher_of(stream: LiveStream) -> object:
    return stream.publisher


def test_a_stream_has_one_publisher() -> None:
    registry = StreamRegistry()
    first = FakePublisher("c000001")
    stream = registry.publish("live/cam", first, 0.0)
    with pytest.raises(StreamBusyError, match="live/cam has a publisher already"):
        registry.publish("live/cam", FakePublisher(), 4.9)
    assert publisher_of(stream) is first
    assert first.superseded == 0
    assert registry.publish("live/other", FakePublisher(), 0.0) is not stream
    assert {stream.key for stream in registry} == {"live/cam", "live/other"}


def test_a_publisher_silent_for_5_seconds_gives_way() -> None:
    registry = StreamRegistry()
    silent, next_one = FakePublisher(), FakePublisher()
    stream = registry.publish("live/cam", silent, 0.0)
    player = KeepingSubscriber()
    stream.subscribe(player)
    stream.publish_frames([audio(0)], 3.0)
    with pytest.raises(StreamBusyError):
        registry.publish("live/cam", next_one, 7.9)
    assert registry.publish("live/cam", next_one, 8.0) is stream
    assert publisher_of(stream) is next_one
    assert silent.superseded == 1
    assert player.told == ["begin", "left", "returned", "begin"]


def test_the_silence_can_be_set() -> None:
    registry = StreamRegistry(StreamLimits(silent_publisher=1.0))
    registry.publish("live/cam", FakePublisher(), 0.0)
    assert registry.publish("live/cam", FakePublisher(), 1.0).publisher is not None


def test_the_goodbye_of_a_superseded_publisher_does_nothing() -> None:
    registry = StreamRegistry()
    silent, next_one = FakePublisher(), FakePublisher()
    stream = registry.publish("live/cam", silent, 0.0)
    registry.publish("live/cam", next_one, 5.0)
    registry.unpublish(stream, silent, clean=False)
    assert publisher_of(registry.live("live/cam")) is next_one


def test_a_superseded_publisher_that_ends_at_once_does_not_take_the_stream_along() -> None:
    registry = StreamRegistry()

    class Leaver(FakePublisher):
        def publish_superseded(self) -> None:
            registry.unpublish(stream, self, clean=False)
            registry.leave(stream, player)

    player = KeepingSubscriber()
    stream = registry.publish("live/cam", Leaver(), 0.0)
    stream.subscribe(player)
    registry.publish("live/cam", FakePublisher(), 5.0)
    assert registry.live("live/cam") is stream


def test_a_stream_that_nobody_uses_is_forgotten() -> None:
    registry = StreamRegistry()
    publisher, player = FakePublisher(), KeepingSubscriber()
    stream = registry.publish("live/cam", publisher, 0.0)
    stream.subscribe(player)
    registry.unpublish(stream, publisher, clean=True)
    assert registry.get("live/cam") is stream
    with pytest.raises(StreamNotFoundError, match="live/cam is not published"):
        registry.live("live/cam")
    registry.leave(stream, player)
    assert registry.get("live/cam") is None
    assert len(registry) == 0


def test_a_player_leaving_a_forgotten_stream_leaves_its_successor_alone() -> None:
    registry = StreamRegistry()
    publisher = FakePublisher()
    old = registry.publish("live/cam", publisher, 0.0)
    registry.unpublish(old, publisher, clean=True)
    new = registry.publish("live/cam", publisher, 1.0)
    registry.leave(old, KeepingSubscriber())
    assert new is not old
    assert registry.get("live/cam") is new


def test_streams_may_go_while_they_are_looked_at() -> None:
    registry = StreamRegistry()
    publisher = FakePublisher()
    for name in "abc":
        registry.publish(name, publisher, 0.0)
    for stream in registry:
        registry.unpublish(stream, publisher, clean=True)
    assert len(registry) == 0


def test_nobody_has_heard_of_an_unknown_stream() -> None:
    with pytest.raises(StreamNotFoundError):
        StreamRegistry().live("live/none")
