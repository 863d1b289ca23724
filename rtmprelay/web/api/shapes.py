"""The JSON of streams, destinations and recordings: which field has which value. docs/reference/openapi.json says the same."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING
from urllib.parse import quote

import attrs

from rtmprelay.flv.names import split_key
from rtmprelay.media import milliseconds_between
from rtmprelay.streams.audience import AudienceAccount, players
from rtmprelay.streams.live_stream import LiveStream
from rtmprelay.web.api.sampling import StreamRates
from rtmprelay.web.api.stream_facts import audio_facts, video_facts
from rtmprelay.web.server.answers import iso_time

if TYPE_CHECKING:
    from rtmprelay.destinations.status import DestinationStatus, OutletStatus
    from rtmprelay.recording.status import RecordingStatus

Json = dict[str, object]


@attrs.frozen
class Now:
    """One moment on both clocks: that of the day, and the one that never jumps."""

    wall: float
    steady: float


def seconds(value: float) -> float:
    """A duration as it is shown."""
    return round(max(0.0, value), 3)


def stream_json(
    stream: LiveStream,
    now: Now,
    rates: StreamRates,
    recording: RecordingStatus | None,
    destinations: list[str],
) -> Json:
    """One stream."""
    app, name = split_key(stream.key)
    publisher = stream.publisher
    live = publisher is not None
    duration = seconds(now.steady - stream.started_at)
    audience = AudienceAccount()
    audience.add(stream.departed)
    count = 0
    for player in players(stream.subscribers):
        count += 1
        audience.add(player.account)
    gop = stream.gop
    path = "/" + quote(stream.key)
    return {
        "key": stream.key,
        "app": app,
        "name": name,
        "live": live,
        "publisher": None
        if publisher is None
        else {"connection": publisher.connection_id, "address": publisher.address},
        "started_at": iso_time(now.wall - duration) if live else None,
        "duration": duration if live else None,
        "video": video_facts(stream),
        "audio": audio_facts(stream),
        "bitrate_kbps": rates.bitrate_kbps,
        "fps": rates.fps,
        "gop_seconds": None if gop is None else seconds(milliseconds_between(*gop) / 1000),
        "keyframe_interval": rates.keyframe_interval,
        "players": count,
        "messages_in": stream.counters.messages,
        "bytes_in": stream.counters.bytes,
        "messages_out": audience.messages_sent,
        "bytes_out": audience.bytes_sent,
        "messages_dropped": audience.messages_dropped,
        "dropped_by_reason": dict(audience.dropped_by_reason),
        "recording": None if recording is None else _recording_of_stream(recording),
        "destinations": destinations,
        "media": {"flv": f"{path}.flv", "mp4": f"{path}.mp4"},
    }


def _recording_of_stream(status: RecordingStatus) -> Json:
    return {
        "state": status.state.value,
        "path": status.path,
        "duration": seconds(status.duration),
        "bytes": status.bytes,
        "last_error": status.last_error,
    }


def recording_json(status: RecordingStatus) -> Json:
    """One recording, with its whole account."""
    return {
        **attrs.asdict(status),
        "state": status.state.value,
        "duration": seconds(status.duration),
        "dropped_by_reason": dict(status.dropped_by_reason),
    }


def destination_json(status: DestinationStatus, now: Now, kbps: float | None, lasting: bool) -> Json:
    """One destination."""
    next_attempt = status.next_attempt_time
    connected = status.connect_time
    return {
        "name": status.name,
        "url": status.url,
        "status": status.state.value,
        "enabled": status.enabled,
        "last_error": status.last_error,
        "error_class": status.error_class,
        "next_attempt": iso_time(next_attempt),
        "next_attempt_in": None if next_attempt is None else seconds(next_attempt - now.wall),
        "given_up": any(outlet.given_up for outlet in status.outlets),
        "messages_sent": status.messages_sent,
        "messages_dropped": status.messages_dropped,
        "messages_queued": status.messages_queued,
        "dropped_by_reason": dict(status.dropped_by_reason),
        "bytes_sent": status.bytes_sent,
        "bitrate_kbps": kbps,
        "last_sent_time": iso_time(status.last_sent_time),
        "connect_time": iso_time(connected),
        "connected_duration": None if connected is None else seconds(now.wall - connected),
        "reconnect_count": status.reconnect_count,
        "match": status.match,
        "lasting": lasting,
        "metadata": dict(status.metadata),
        "outlets": [_outlet_json(outlet) for outlet in status.outlets],
    }


def _outlet_json(outlet: OutletStatus) -> Json:
    return {
        "stream": outlet.stream,
        "status": outlet.state.value,
        "address": outlet.address,
        "last_error": outlet.last_error,
        "next_attempt": iso_time(outlet.next_attempt_time),
        "given_up": outlet.given_up,
        "lingering": outlet.lingering,
        "messages_in": outlet.messages_in,
        "messages_sent": outlet.messages_sent,
        "messages_dropped": outlet.messages_dropped,
        "messages_queued": outlet.messages_queued,
        "dropped_by_reason": dict(outlet.dropped_by_reason),
        "bytes_sent": outlet.bytes_sent,
        "connect_time": iso_time(outlet.connect_time),
        "reconnect_count": outlet.reconnect_count,
    }


def health_json(destinations: dict[str, Json]) -> Json:
    """The destinations of a relay, added up; `failed` are those in the state `error`."""
    states = Counter(one["status"] for one in destinations.values())

    def total(field: str) -> int:
        return sum(int(str(one[field])) for one in destinations.values())

    return {
        "total_destinations": len(destinations),
        "connected_destinations": states["connected"],
        "failed_destinations": states["error"],
        "total_messages_sent": total("messages_sent"),
        "total_messages_dropped": total("messages_dropped"),
        "total_bytes_sent": total("bytes_sent"),
        "destinations": {
            name: {field: one[field] for field in _HEALTH_FIELDS} for name, one in destinations.items()
        },
    }


_HEALTH_FIELDS = (
    "url",
    "status",
    "last_error",
    "messages_sent",
    "messages_dropped",
    "bytes_sent",
    "connected_duration",
    "reconnect_count",
)
