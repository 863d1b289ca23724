"""Who may publish, and which streams there are."""

from __future__ import annotations

import pytest
from twisted.logger import capturedLogs
from typing_extensions import override
from zope.interface import implementer

from rtmprelay.errors import LimitExceededError
from rtmprelay.interfaces import IStreamObserver
from rtmprelay.streams.limits import StreamLimits
from rtmprelay.streams.live_stream import LiveStream
from rtmprelay.streams.registry import StreamBusyError, StreamNotFoundError, StreamRegistry
from tests.streams.helpers import FakePublisher, KeepingSubscriber, audio, data, video
from tests.streams.merging_helpers import Receiver


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


def test_publisher_silent_for_5_seconds_is_superseded() -> None:
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


def test_silent_publisher_is_replaced_after_the_configured_time() -> None:
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


def test_unknown_stream_is_not_found() -> None:
    with pytest.raises(StreamNotFoundError):
        StreamRegistry().live("live/none")


# -- observers, limits and totals ----------------------------------------------------------------------------


@implementer(IStreamObserver)
class KeepingObserver:
    def __init__(self) -> None:
        self.told: list[tuple[object, ...]] = []

    def stream_started(self, stream: LiveStream) -> None:
        self.told.append(("started", stream.key))

    def stream_stopped(self, stream: LiveStream, clean: bool) -> None:
        self.told.append(("stopped", stream.key, clean))


class FailingObserver(KeepingObserver):
    @override
    def stream_started(self, stream: LiveStream) -> None:
        raise ZeroDivisionError("planted")


def test_observers_are_notified_of_every_start_and_how_it_ended() -> None:
    registry, observer = StreamRegistry(), KeepingObserver()
    registry.add_observer(observer)
    publisher = FakePublisher()
    for clean in (True, False):
        registry.unpublish(registry.publish("live/cam", publisher, 0.0), publisher, clean=clean)
    registry.publish("live/cam", publisher, 0.0)
    registry.publish("live/cam", FakePublisher(), 5.0)
    assert observer.told == [
        ("started", "live/cam"),
        ("stopped", "live/cam", True),
        ("started", "live/cam"),
        ("stopped", "live/cam", False),
        ("started", "live/cam"),
        ("stopped", "live/cam", False),
        ("started", "live/cam"),
    ]


def test_failing_observer_is_logged_and_the_others_are_notified() -> None:
    registry, observer = StreamRegistry(), KeepingObserver()
    registry.add_observer(FailingObserver())
    registry.add_observer(observer)
    with capturedLogs() as logged:
        stream = registry.publish("live/cam", FakePublisher(), 0.0)
    assert registry.live("live/cam") is stream
    assert observer.told == [("started", "live/cam")]
    (line,) = logged
    assert line["log_format"] == "An observer of live streams failed"
    assert line["log_failure"].type is ZeroDivisionError


def test_viewers_above_the_limit_are_refused_and_counted() -> None:
    registry = StreamRegistry(StreamLimits(max_players=2))
    stream = registry.publish("live/cam", FakePublisher(), 0.0)
    registry.publish("live/other", FakePublisher(), 0.0)
    for _ in range(2):
        assert registry.watchable("live/cam") is stream
        stream.subscribe(KeepingSubscriber())
    for refused in (1, 2, 3):
        with pytest.raises(LimitExceededError) as caught:
            registry.watchable("live/cam")
        assert str(caught.value) == "live/cam has 2 players already (limit: max_players)"
        assert caught.value.limit == "max_players"
        assert registry.players_refused == refused
    assert registry.watchable("live/other").key == "live/other"
    with pytest.raises(StreamNotFoundError):
        registry.watchable("live/none")
    assert registry.players_refused == 3


def test_without_a_limit_any_number_may_watch() -> None:
    registry = StreamRegistry(StreamLimits(max_players=None))
    stream = registry.publish("live/cam", FakePublisher(), 0.0)
    for _ in range(50):
        registry.watchable("live/cam").subscribe(KeepingSubscriber())
    assert stream.viewers == 50
    assert registry.players_refused == 0


def test_totals_keep_what_publishers_and_players_that_left_had() -> None:
    registry = StreamRegistry()
    for number in (1, 2):
        publisher, player = FakePublisher(), Receiver()
        player.audience = "rtmp"
        stream = registry.publish("live/cam", publisher, 0.0)
        stream.subscribe(player)
        frames = [video(0, key=True), video(40), *[audio(time) for time in (0, 20, 40)], data(5)]
        stream.publish_frames(frames, 0.0)
        registry.leave(stream, player)
        assert stream.departed.messages_sent == 6
        registry.unpublish(stream, publisher, clean=True)
        size = sum(len(frame.payload) for frame in frames)
        received = registry.received
        assert (received.messages, received.bytes) == (6 * number, size * number)
        assert (received.video_frames, received.keyframes) == (2 * number, number)
        assert received.audio_frames == 3 * number
        assert (registry.departed.messages_sent, registry.departed.bytes_sent) == (6 * number, size * number)
