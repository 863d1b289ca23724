"""What happens in the relay, as values: the same ones feed the log, the hooks, the dashboard and the event log."""

from __future__ import annotations

from typing import ClassVar

import attrs


@attrs.frozen(kw_only=True)
class Event:
    """Something that happened. No field ever holds a secret."""

    #: What machines call it.
    name: ClassVar[str]
    #: How the log puts it; `{field}` is filled in.
    sentence: ClassVar[str]
    #: How much it matters: "info", or "warn" for what an operator may want to act on.
    level: ClassVar[str] = "info"

    def fields(self) -> dict[str, object]:
        """The event's own fields."""
        return attrs.asdict(self, recurse=False)


@attrs.frozen(kw_only=True)
class ServerStarted(Event):
    """The relay runs. `instance` names this run: connections are numbered anew in each."""

    name = "server_started"
    sentence = "rtmprelay {version} started (run {instance})"
    instance: str
    version: str
    #: The name of the machine.
    host: str


@attrs.frozen(kw_only=True)
class ServerStopped(Event):
    """The relay has stopped, and everybody has gone."""

    name = "server_stopped"
    sentence = "rtmprelay stopped after {duration:.1f} s (run {instance})"
    instance: str
    duration: float


@attrs.frozen(kw_only=True)
class ServerAlive(Event):
    """Nothing else has happened for a minute. Only the event log has it: there it tells idle from dead."""

    name = "server_alive"
    sentence = "rtmprelay is alive"


@attrs.frozen(kw_only=True)
class ConnectionOpened(Event):
    """Somebody connected."""

    name = "connection_opened"
    sentence = "Connection {connection} accepted from {peer}"
    connection: str
    peer: str


@attrs.frozen(kw_only=True)
class ConnectionRefused(Event):
    """Somebody connected while there were too many others."""

    name = "connection_refused"
    level = "warn"
    sentence = "Connection from {peer} refused: {reason} ({others} others before it were, too)"
    peer: str
    reason: str
    #: Refusals since the last such event; they come one a second at most.
    others: int


@attrs.frozen(kw_only=True)
class HandshakeCompleted(Event):
    """A peer speaks RTMP."""

    name = "handshake_completed"
    sentence = "Handshake of {connection} completed ({form})"
    connection: str
    form: str


@attrs.frozen(kw_only=True)
class ClientConnected(Event):
    """A client opened an application."""

    name = "connect"
    sentence = "connect of {connection} to application {app!r} ({client})"
    connection: str
    #: Where it comes from. Behind a proxy that is not known yet when the connection is opened.
    peer: str
    app: str
    client: str


@attrs.frozen(kw_only=True)
class ConnectRefused(Event):
    """Somebody may not open an application."""

    name = "connect_refused"
    level = "warn"
    sentence = "connect of {connection} to application {app!r} refused: {reason}"
    connection: str
    app: str
    reason: str


@attrs.frozen(kw_only=True)
class MessageStreamCreated(Event):
    """A client made a message stream."""

    name = "create_stream"
    sentence = "createStream of {connection}: message stream {message_stream}"
    connection: str
    message_stream: int


@attrs.frozen(kw_only=True)
class CommandIgnored(Event):
    """A client sent a command that is not known here."""

    name = "command_ignored"
    sentence = "{connection} sent {command!r}, which is not known here"
    connection: str
    command: str


@attrs.frozen(kw_only=True)
class PublishStarted(Event):
    """A stream is live."""

    name = "publish_started"
    sentence = "publish of {stream} by {connection} started"
    connection: str
    stream: str


@attrs.frozen(kw_only=True)
class PublishRefused(Event):
    """Somebody may not publish."""

    name = "publish_refused"
    level = "warn"
    sentence = "publish of {stream} by {connection} refused: {reason}"
    connection: str
    stream: str
    reason: str


@attrs.frozen(kw_only=True)
class PublishStopped(Event):
    """A stream is not live any more. `clean` says whether the publisher meant it."""

    name = "publish_stopped"
    sentence = "publish of {stream} by {connection} stopped after {duration:.1f} s: {reason}"
    connection: str
    stream: str
    reason: str
    clean: bool
    duration: float
    messages: int
    bytes: int


@attrs.frozen(kw_only=True)
class CodecDetected(Event):
    """What a stream is made of, as its first bytes say."""

    name = "codec_detected"
    sentence = "Codec detected in {stream}: video {video}, audio {audio}"
    connection: str
    stream: str
    #: The same as `stream`, under the name that older log readers look for.
    stream_key: str
    video: str | None
    audio: str | None


@attrs.frozen(kw_only=True)
class PlayStarted(Event):
    """Somebody watches."""

    name = "play_started"
    sentence = "Player added: play of {stream} by {connection} started"
    connection: str
    stream: str


@attrs.frozen(kw_only=True)
class PlayRefused(Event):
    """Somebody cannot watch."""

    name = "play_refused"
    sentence = "play of {stream} by {connection} refused: {reason}"
    connection: str
    stream: str
    reason: str


@attrs.frozen(kw_only=True)
class PlayStopped(Event):
    """Somebody does not watch any more."""

    name = "play_stopped"
    sentence = "play of {stream} by {connection} stopped after {duration:.1f} s ({messages} messages, {dropped} dropped)"
    connection: str
    stream: str
    duration: float
    messages: int
    bytes: int
    dropped: int
    dropped_by_reason: dict[str, int]
    #: Who ended it: the viewer, the network, or the server.
    reason: str = "the viewer left"
    #: How often, and for how long in all, the viewer took less than was sent for over a second.
    stalls: int = 0
    stalled_seconds: float = 0.0


@attrs.frozen(kw_only=True)
class MediaStatistics(Event):
    """What went through a connection since the last such event."""

    name = "media_statistics"
    sentence = "{role} {connection} of {stream}: {kbps:.0f} kbit/s, {messages} messages, {dropped} dropped, {queued} queued"
    connection: str
    stream: str
    role: str
    seconds: float
    kbps: float
    messages: int
    bytes: int
    dropped: int
    queued: int
    stalls: int = 0
    stalled_seconds: float = 0.0


@attrs.frozen(kw_only=True)
class ConnectionClosed(Event):
    """Somebody has gone, or was sent away."""

    name = "connection_closed"
    sentence = "Connection {connection} closed after {duration:.1f} s: {reason}"
    connection: str
    peer: str
    reason: str
    #: The limit that the peer went over, if that was the reason.
    limit: str | None
    duration: float
    bytes_in: int
    bytes_out: int


@attrs.frozen(kw_only=True)
class DestinationConnecting(Event):
    """A destination is being reached."""

    name = "destination_connecting"
    sentence = "Destination {destination}: connecting to {address} for {stream}"
    destination: str
    stream: str
    address: str


@attrs.frozen(kw_only=True)
class DestinationConnected(Event):
    """A destination takes the stream."""

    name = "destination_connected"
    sentence = "Destination {destination}: connected, {stream} is published to {address}"
    destination: str
    stream: str
    address: str


@attrs.frozen(kw_only=True)
class DestinationFailed(Event):
    """A destination was not reached, refused, or was lost."""

    name = "destination_failed"
    level = "warn"
    sentence = "Destination {destination}: {stream} failed ({error_class}): {reason}"
    destination: str
    stream: str
    error_class: str
    reason: str


@attrs.frozen(kw_only=True)
class DestinationReconnecting(Event):
    """A destination will be tried again."""

    name = "destination_reconnecting"
    sentence = "Destination {destination}: attempt {attempt} for {stream} in {delay:.1f} s, at {address}"
    destination: str
    stream: str
    attempt: int
    delay: float
    address: str


@attrs.frozen(kw_only=True)
class DestinationGivenUp(Event):
    """A destination has failed too often."""

    name = "destination_given_up"
    level = "warn"
    sentence = "Destination {destination}: given up for {stream} after {failures} failures"
    destination: str
    stream: str
    failures: int


@attrs.frozen(kw_only=True)
class DestinationDropped(Event):
    """Messages were not delivered to a destination."""

    name = "destination_dropped"
    level = "warn"
    sentence = "Destination {destination}: {count} messages of {stream} dropped ({reason})"
    destination: str
    stream: str
    reason: str
    count: int


@attrs.frozen(kw_only=True)
class DestinationStatistics(Event):
    """What a destination got since the last such event."""

    name = "destination_statistics"
    sentence = (
        "Destination {destination}: {stream} at {kbps:.0f} kbit/s, {messages} messages,"
        " {dropped} dropped, {queued} queued"
    )
    destination: str
    stream: str
    seconds: float
    kbps: float
    messages: int
    bytes: int
    dropped: int
    queued: int


@attrs.frozen(kw_only=True)
class DestinationHeld(Event):
    """The source was lost without a goodbye; the destination is kept for its return."""

    name = "destination_held"
    sentence = "Destination {destination}: {stream} lost its publisher, held for {linger:g} s"
    destination: str
    stream: str
    linger: float


@attrs.frozen(kw_only=True)
class DestinationSourceRefused(Event):
    """A second source wanted a destination that the first one holds."""

    name = "destination_source_refused"
    level = "warn"
    sentence = "Destination {destination}: {stream} is not sent there, {holder} holds it"
    destination: str
    stream: str
    holder: str


@attrs.frozen(kw_only=True)
class DestinationClosed(Event):
    """A destination gets no more of a stream."""

    name = "destination_closed"
    sentence = (
        "Destination {destination}: {stream} closed after {messages} messages ({dropped} dropped): {reason}"
    )
    destination: str
    stream: str
    reason: str
    messages: int
    bytes: int
    dropped: int
    #: Of all audio and video that was delivered, in order: equal at two hops if they delivered the same.
    digest: str


@attrs.frozen(kw_only=True)
class RecordingStarted(Event):
    """A file is being written."""

    name = "recording_started"
    sentence = "Recording of {stream} to {path} started"
    stream: str
    path: str
    #: Which part of the recording, if it is cut into segments.
    segment: int | None


@attrs.frozen(kw_only=True)
class RecordingFinished(Event):
    """A file is complete."""

    name = "recording_finished"
    sentence = "Recording of {stream} to {path} finished: {reason} ({bytes} bytes, {duration:.1f} s)"
    stream: str
    path: str
    reason: str
    bytes: int
    duration: float
    messages: int
    #: Messages of the stream that have not been recorded so far, by reason.
    dropped_by_reason: dict[str, int]


@attrs.frozen(kw_only=True)
class RecordingFailed(Event):
    """The disk does not take a recording; told once, until it has worked again for a while."""

    name = "recording_failed"
    level = "warn"
    sentence = "Recording of {stream} to {path} failed ({error}): {reason}"
    stream: str
    path: str
    #: The name of the errno, or `queue_full` if the disk is too slow.
    error: str
    reason: str


@attrs.frozen(kw_only=True)
class RecordingDeleted(Event):
    """An old recording made room."""

    name = "recording_deleted"
    sentence = "Recording {path} deleted: {reason} ({bytes} bytes)"
    path: str
    bytes: int
    reason: str


@attrs.frozen(kw_only=True)
class EventsLost(Event):
    """The event log's disk could not keep up; these events are in no file."""

    name = "events_lost"
    level = "warn"
    sentence = "{count} events are not in the event log: its disk could not keep up"
    #: Events since the last one of this kind.
    count: int


@attrs.frozen(kw_only=True)
class EventLogFailed(Event):
    """The disk does not take the event log; told once, until it has worked again for a while."""

    name = "event_log_failed"
    level = "warn"
    sentence = "The event log {path} failed ({error}): {reason}"
    path: str
    #: The name of the errno.
    error: str
    reason: str


@attrs.frozen(kw_only=True)
class EventLogDeleted(Event):
    """An old event log was deleted."""

    name = "event_log_deleted"
    sentence = "Event log {path} deleted: it is too old ({bytes} bytes)"
    path: str
    bytes: int


@attrs.frozen(kw_only=True)
class ControlApplied(Event):
    """Somebody who has the token changed something over HTTP."""

    name = "control_applied"
    sentence = "Control from {peer}: {action}: {target}"
    peer: str
    action: str
    #: The destination or the stream.
    target: str


@attrs.frozen(kw_only=True)
class ControlRefused(Event):
    """Somebody brought a wrong token."""

    name = "control_refused"
    level = "warn"
    sentence = "Control from {peer} refused: the token is wrong ({others} others before it were, too)"
    peer: str
    #: Refusals since the last such event; they come one a second at most.
    others: int
