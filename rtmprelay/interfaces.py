"""The interfaces between the parts of the relay, and those that plugins provide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from zope.interface import Attribute, Interface

if TYPE_CHECKING:
    from twisted.internet.defer import Deferred

    from rtmprelay.access.request import AccessRequest, Verdict
    from rtmprelay.events import AnyEvent
    from rtmprelay.secret import Secret
    from rtmprelay.streams.frames import FrameBatch, LiveFrame
    from rtmprelay.streams.live_stream import LiveStream


class IFrameSubscriber(Interface):
    """Receives every frame of a live stream. None of the methods may block or raise."""

    def begin(startup: Sequence[LiveFrame], wait_for_keyframe: bool) -> None:
        """The stream is live; send these frames first.

        Called when you subscribe to a live stream, and again each time its publisher returns. When
        `wait_for_keyframe` is set, video before the next keyframe cannot be decoded.
        """

    def frames_arrived(batch: FrameBatch) -> bytes | None:
        """Frames arrived together. The bytes that you return are passed to your `write` once everybody was called."""

    def write(data: bytes) -> None:
        """Send what `frames_arrived` returned. Never called if that returns None."""

    def publisher_left() -> None:
        """The publisher is gone: no frames arrive until `publisher_returned`."""

    def publisher_returned() -> None:
        """The stream has a publisher again; `begin` follows."""


class IStreamOutput(IFrameSubscriber):
    """What a stream has one of, such as its recording: subscribed from the stream's begin to `end`."""

    def end(reason: str) -> None:
        """Finish with the frames that came so far. No frames follow."""


class IStreamPublisher(Interface):
    """Publishes a live stream."""

    connection_id: str = Attribute("The publisher's name in logs.")
    address: str = Attribute("The publisher's address, as people read it.")

    def publish_superseded() -> None:
        """Another publisher took over the stream because you sent nothing for too long."""

    def publish_ended(reason: str) -> None:
        """The operator ended the stream: tell the client why and close the connection."""


class IStreamObserver(Interface):
    """Is notified of streams that start and stop: destinations, recorders."""

    def stream_started(stream: LiveStream) -> None:
        """A publisher has begun to publish the stream."""

    def stream_stopped(stream: LiveStream, clean: bool) -> None:
        """The publisher is gone. `clean` is true if it ended the stream itself, and false if it was lost."""


class IEventSink(Interface):
    """Receives events: the log, hooks, the dashboard."""

    def event_happened(time: float, event: AnyEvent) -> None:
        """An event happened at this time (seconds since 1970). Must not block or raise."""


class IStreamAuthorizer(Interface):
    """Decides who may publish and play. An authorizer that is also an `IService` is started and stopped with the relay."""

    def authorize(request: AccessRequest) -> Verdict | Deferred[Verdict]:
        """Allow or refuse a request. An authorizer that fails or takes too long refuses it."""


class IStreamPlacement(Interface):
    """Fetches a stream that is not here, before the request for it is granted."""

    is_active: bool = Attribute("Whether there is anything to do for any stream.")

    def place(request: AccessRequest) -> Deferred[Verdict]:
        """Called with a request that the authorizers allow: fetch the stream that is to be played.

        Cancelled if the client goes. Bounded in time: a stream that does not come in time does not exist.
        """


class IUserDirectory(Interface):
    """An authorizer that knows users and passwords, which enables Adobe's authentication."""

    def wants_user(app: str) -> bool:
        """Whether clients that connect to this application must give a user and a password."""

    def password_of(user: str) -> Secret | None:
        """The password of a user in clear; None if there is no such user."""


class IStreamAuthorizerFactory(Interface):
    """Makes authorizers for `--auth NAME:ARGUMENT`. Plugins in `rtmprelay_plugins` provide it."""

    name: str = Attribute("Its name in the option.")
    help: str = Attribute("What it does, in one line.")
    argument_format: str = Attribute("The form of the argument, such as PATH.")

    def make(argument: str, reactor: object) -> IStreamAuthorizer:
        """Make an authorizer. Raises `rtmprelay.errors.ConfigError` if the argument is wrong."""


class IEventSinkFactory(Interface):
    """Makes event sinks for `--hook NAME:ARGUMENT`. Plugins in `rtmprelay_plugins` provide it."""

    name: str = Attribute("Its name in the option.")
    help: str = Attribute("What it does, in one line.")
    argument_format: str = Attribute("The form of the argument, such as URL.")

    def make(argument: str, reactor: object) -> IEventSink:
        """Make an event sink. Raises `rtmprelay.errors.ConfigError` if the argument is wrong.

        A sink that is also an `IService` is started and stopped with the relay.
        """


class IReloadable(Interface):
    """An authorizer or event sink that reads a file, and reads it again on SIGHUP."""

    def reload() -> None:
        """Read the file again. Raises `rtmprelay.errors.ConfigError` if its content is wrong, and keeps the previous content."""
