"""Events about the relay as a whole: the server itself, its event log, and addresses that are refused or change something."""

from __future__ import annotations

import attrs

from rtmprelay.events.base import Event


@attrs.frozen(kw_only=True)
class RelayEvent(Event):
    """About the server itself."""


@attrs.frozen(kw_only=True)
class ServerStarted(RelayEvent):
    """The server is running. Connection numbers start again in each run; `instance` tells the runs apart."""

    name = "server_started"
    sentence = "rtmprelay {version} started (run {instance})"
    instance: str
    version: str
    #: The host name of the machine.
    host: str
    #: The server's `--node-name`, or its name in the cluster; null without one.
    node: str | None = None


@attrs.frozen(kw_only=True)
class ServerStopped(RelayEvent):
    """The server has stopped and all its connections are closed."""

    name = "server_stopped"
    sentence = "rtmprelay stopped after {duration:.1f} s (run {instance})"
    instance: str
    duration: float


@attrs.frozen(kw_only=True)
class ServerAlive(RelayEvent):
    """Nothing else has happened for a minute. Written only to the event log, where it tells an idle server from a dead one."""

    name = "server_alive"
    sentence = "rtmprelay is alive"


@attrs.frozen(kw_only=True)
class EventLogEvent(Event):
    """About the event log."""


@attrs.frozen(kw_only=True)
class EventsLost(EventLogEvent):
    """The disk of the event log could not keep up. The lost events are in no file."""

    name = "events_lost"
    level = "warn"
    sentence = "{count} events are not in the event log: its disk could not keep up"
    #: Events lost since the last event of this kind.
    count: int


@attrs.frozen(kw_only=True)
class EventLogFailed(EventLogEvent):
    """The event log could not be written. Reported once, and again only after the disk has worked for a while."""

    name = "event_log_failed"
    level = "warn"
    sentence = "The event log {path} failed ({error}): {reason}"
    path: str
    #: The name of the errno.
    error: str
    reason: str


@attrs.frozen(kw_only=True)
class EventLogDeleted(EventLogEvent):
    """An event log was deleted because it was too old, or because all together were too large."""

    name = "event_log_deleted"
    sentence = "Event log {path} deleted: {reason} ({bytes} bytes)"
    path: str
    bytes: int
    reason: str = "too old"


@attrs.frozen(kw_only=True)
class PeerEvent(Event):
    """About an address that is not, or not yet, an RTMP connection."""

    peer: str


@attrs.frozen(kw_only=True)
class ConnectionRefused(PeerEvent):
    """A connection was refused because of a limit. Published at most once a second for each address."""

    name = "connection_refused"
    level = "warn"
    sentence = "Connection from {peer} refused: {reason} ({others} more since the last report) {advice}"
    reason: str
    #: What to set if many clients share the address; empty if that would not help.
    advice: str = ""
    #: Connections of this address that were refused since the last event of this kind, besides this one.
    others: int = 0


@attrs.frozen(kw_only=True)
class GuessingSlowed(PeerEvent):
    """An address sent wrong keys, passwords or tokens: refusals to it are delayed. Published once a minute at most."""

    name = "guessing_slowed"
    level = "warn"
    sentence = "{peer} sent {wrong} wrong keys, passwords or tokens: the next answer takes {delay:.1f} s"
    #: How many were wrong so far.
    wrong: int
    delay: float


@attrs.frozen(kw_only=True)
class AddressBanned(PeerEvent):
    """An address sent too many wrong keys, passwords or tokens, and is shut out for a while."""

    name = "address_banned"
    level = "warn"
    sentence = "{peer} is shut out for {seconds:.0f} s: it sent {wrong} wrong keys, passwords or tokens"
    wrong: int
    seconds: float


@attrs.frozen(kw_only=True)
class ControlApplied(PeerEvent):
    """A client with the token changed something over HTTP."""

    name = "control_applied"
    sentence = "Control from {peer}: {action}: {target}"
    action: str
    #: The destination or the stream.
    target: str


@attrs.frozen(kw_only=True)
class ControlRefused(PeerEvent):
    """An HTTP client sent a wrong token. Published at most once a second for each address."""

    name = "control_refused"
    level = "warn"
    sentence = "Control from {peer} refused: the token is wrong ({others} more since the last report)"
    #: Requests of this address that were refused since the last event of this kind, besides this one.
    others: int = 0
