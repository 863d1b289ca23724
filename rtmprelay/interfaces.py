"""What the parts of the relay expect of each other, and of plugins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from zope.interface import Attribute, Interface

if TYPE_CHECKING:
    from rtmprelay.events import Event
    from rtmprelay.streams.frames import FrameBatch, LiveFrame
    from rtmprelay.streams.live_stream import LiveStream


class IFrameSubscriber(Interface):
    """Someone who gets every frame of a live stream. None of the methods may wait or raise."""

    def begin(startup: Sequence[LiveFrame], wait_for_keyframe: bool) -> None:
        """The stream is live for you from here on; these frames come first.

        Called when you subscribe to a live stream, and again each time its publisher returns. When
        `wait_for_keyframe` is set, video before the next keyframe cannot be decoded.
        """

    def frames_arrived(batch: FrameBatch) -> None:
        """Frames came in together."""

    def publisher_left() -> None:
        """No frames will come until `publisher_returned`."""

    def publisher_returned() -> None:
        """The stream has a publisher again; `begin` follows."""


class IStreamPublisher(Interface):
    """Someone who publishes a live stream."""

    connection_id: str = Attribute("The publisher's name in logs.")

    def publish_superseded() -> None:
        """Another publisher took the stream over because you were silent."""


class IStreamObserver(Interface):
    """Someone who wants to know which streams are live: destinations, recorders."""

    def stream_started(stream: LiveStream) -> None:
        """A publisher begins."""

    def stream_stopped(stream: LiveStream, clean: bool) -> None:
        """The publisher has gone; `clean` if it said so, and did not just vanish."""


class IEventSink(Interface):
    """Someone who wants to know what happens: logs, hooks, the dashboard."""

    def event_happened(time: float, event: Event) -> None:
        """Something happened at this time (seconds since 1970). Must not wait or raise."""
