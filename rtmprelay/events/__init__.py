"""What happens in the relay, as values: the log, hooks, the event log, metrics and the dashboard all get the same ones."""

from __future__ import annotations

from rtmprelay.events.base import (
    Event,
    event_types,
)
from rtmprelay.events.cluster import (
    ClusterEvent,
    DirectoryBack,
    DirectoryLost,
    NodeJoined,
    NodeLost,
    StreamMoved,
)
from rtmprelay.events.connections import (
    ClientConnected,
    CodecDetected,
    CommandIgnored,
    ConnectionClosed,
    ConnectionEvent,
    ConnectionOpened,
    ConnectRefused,
    HandshakeCompleted,
    MediaStatistics,
    MessageStreamCreated,
    PlayEvent,
    PlayRefused,
    PlayStarted,
    PlayStopped,
    PublishEvent,
    PublishRefused,
    PublishStarted,
    PublishStopped,
    StreamEvent,
)
from rtmprelay.events.destinations import (
    DestinationClosed,
    DestinationConnected,
    DestinationConnecting,
    DestinationDropped,
    DestinationEvent,
    DestinationFailed,
    DestinationGivenUp,
    DestinationHeld,
    DestinationReconnecting,
    DestinationSourceRefused,
    DestinationStatistics,
)
from rtmprelay.events.pulls import (
    PullConnected,
    PullConnecting,
    PullEnded,
    PullEvent,
    PullFailed,
)
from rtmprelay.events.recordings import (
    RecordingDeleted,
    RecordingEvent,
    RecordingFailed,
    RecordingFinished,
    RecordingStarted,
)
from rtmprelay.events.relay import (
    AddressBanned,
    ConnectionRefused,
    ControlApplied,
    ControlRefused,
    EventLogDeleted,
    EventLogEvent,
    EventLogFailed,
    EventsLost,
    GuessingSlowed,
    PeerEvent,
    RelayEvent,
    ServerAlive,
    ServerStarted,
    ServerStopped,
)

#: Every event that can be published, as the union of its groups: mypy checks that a `match` covers all of them.
AnyEvent = (
    RelayEvent
    | ConnectionEvent
    | DestinationEvent
    | PullEvent
    | ClusterEvent
    | RecordingEvent
    | EventLogEvent
    | PeerEvent
)

__all__ = [
    "AddressBanned",
    "AnyEvent",
    "ClientConnected",
    "ClusterEvent",
    "CodecDetected",
    "CommandIgnored",
    "ConnectRefused",
    "ConnectionClosed",
    "ConnectionEvent",
    "ConnectionOpened",
    "ConnectionRefused",
    "ControlApplied",
    "ControlRefused",
    "DestinationClosed",
    "DestinationConnected",
    "DestinationConnecting",
    "DestinationDropped",
    "DestinationEvent",
    "DestinationFailed",
    "DestinationGivenUp",
    "DestinationHeld",
    "DestinationReconnecting",
    "DestinationSourceRefused",
    "DestinationStatistics",
    "DirectoryBack",
    "DirectoryLost",
    "Event",
    "EventLogDeleted",
    "EventLogEvent",
    "EventLogFailed",
    "EventsLost",
    "GuessingSlowed",
    "HandshakeCompleted",
    "MediaStatistics",
    "MessageStreamCreated",
    "NodeJoined",
    "NodeLost",
    "PeerEvent",
    "PlayEvent",
    "PlayRefused",
    "PlayStarted",
    "PlayStopped",
    "PublishEvent",
    "PublishRefused",
    "PublishStarted",
    "PublishStopped",
    "PullConnected",
    "PullConnecting",
    "PullEnded",
    "PullEvent",
    "PullFailed",
    "RecordingDeleted",
    "RecordingEvent",
    "RecordingFailed",
    "RecordingFinished",
    "RecordingStarted",
    "RelayEvent",
    "ServerAlive",
    "ServerStarted",
    "ServerStopped",
    "StreamEvent",
    "StreamMoved",
    "event_types",
]
