"""What the parts of the relay expect of each other, and of plugins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from zope.interface import Attribute, Interface

if TYPE_CHECKING:
    from twisted.internet.defer import Deferred

    from rtmprelay.access.request import AccessRequest, Verdict
    from rtmprelay.events import Event
    from rtmprelay.secret import Secret
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
    address: str = Attribute("Where the publisher comes from, for people.")

    def publish_superseded() -> None:
        """Another publisher took the stream over because you were silent."""

    def publish_ended(reason: str) -> None:
        """Whoever runs the server wants the stream to end: tell the client, and close."""


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


class IStreamAuthorizer(Interface):
    """Someone who says who may publish and play. One that is an `IService` too is started and stopped with the relay."""

    def authorize(request: AccessRequest) -> Verdict | Deferred[Verdict]:
        """Whether this is allowed. May take a while; whoever fails or takes too long has said no."""


class IUserDirectory(Interface):
    """An authorizer that knows users and their passwords: with it the server speaks Adobe's authentication."""

    def wants_user(app: str) -> bool:
        """Whether whoever opens this application is to be asked for a user and a password."""

    def password_of(user: str) -> Secret | None:
        """The password of a user, as it is; None if there is no such user."""


class IStreamAuthorizerFactory(Interface):
    """Makes authorizers, chosen by `--auth NAME:ARGUMENT`. Provided by plugins in `rtmprelay_plugins`."""

    name: str = Attribute("What the option calls it.")
    help: str = Attribute("What it does, in a line.")
    argument_format: str = Attribute("What the argument looks like, such as PATH.")

    def make(argument: str, reactor: object) -> IStreamAuthorizer:
        """Make one. Raises `rtmprelay.errors.ConfigError` if the argument cannot be used."""


class IEventSinkFactory(Interface):
    """Makes event sinks, chosen by `--hook NAME:ARGUMENT`. Provided by plugins in `rtmprelay_plugins`."""

    name: str = Attribute("What the option calls it.")
    help: str = Attribute("What it does, in a line.")
    argument_format: str = Attribute("What the argument looks like, such as URL.")

    def make(argument: str, reactor: object) -> IEventSink:
        """Make one. Raises `rtmprelay.errors.ConfigError` if the argument cannot be used.

        One that is an `IService` too is started and stopped with the relay.
        """


class IReloadable(Interface):
    """An authorizer or event sink that reads a file. SIGHUP makes it read the file again."""

    def reload() -> None:
        """Read it again. Raises `rtmprelay.errors.ConfigError` if it cannot be used; then what was read before stays."""
