"""The JSON of streams, destinations and recordings, field by field. docs/reference/openapi.json describes the same fields."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import quote

import attrs

from rtmprelay.amf.amf0 import AmfValue
from rtmprelay.flv import Codec
from rtmprelay.flv.codec_headers import OPUS_RATE, aac_sampling, picture_size
from rtmprelay.flv.names import split_key
from rtmprelay.flv.tags import audio_content
from rtmprelay.media import MediaKind, milliseconds_between
from rtmprelay.streams.accounting import AudienceAccount
from rtmprelay.streams.live_stream import LiveStream
from rtmprelay.streams.memory_budget import MemoryBudget
from rtmprelay.web.api.sampling import StreamRates
from rtmprelay.web.server.responses import iso_time

if TYPE_CHECKING:
    from rtmprelay.access.refused_addresses import RefusedAddress
    from rtmprelay.destinations.status import DestinationStatus, OutletStatus
    from rtmprelay.pulls.status import FetchStatus, PullStatus
    from rtmprelay.recording.status import RecordingStatus

Json = dict[str, object]

#: Real decoder configurations have a few hundred bytes; larger ones are not parsed.
_MAX_DECODER_CONFIGURATION = 4096

#: Publishers choose the metadata: larger numbers are ignored.
_MAX_NUMBER = 1e9


@attrs.frozen
class Now:
    """The same moment on the wall clock and on the clock that never jumps."""

    wall: float
    steady: float


def seconds(value: float) -> float:
    """A duration as JSON has it."""
    return round(max(0.0, value), 3)


def stream_json(
    stream: LiveStream,
    now: Now,
    rates: StreamRates,
    recording: RecordingStatus | None,
    destinations: list[str],
    is_hls: bool = False,
) -> Json:
    app, name = split_key(stream.key)
    publisher = stream.publisher
    live = publisher is not None
    duration = seconds(now.steady - stream.started_at)
    audience = AudienceAccount()
    audience.add(stream.departed)
    count = 0
    for player in stream.players:
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
        "video": video_json(stream),
        "audio": audio_json(stream),
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
        "media": {
            "flv": f"{path}.flv",
            "mp4": f"{path}.mp4",
            "hls": f"{path}/index.m3u8" if is_hls else None,
            "page": f"{path}/" if is_hls else None,
        },
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
    return {
        **attrs.asdict(status),
        "state": status.state.value,
        "duration": seconds(status.duration),
        "dropped_by_reason": dict(status.dropped_by_reason),
    }


def destination_json(status: DestinationStatus, now: Now, kbps: float | None, lasting: bool) -> Json:
    next_attempt = status.next_attempt_time
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
        "connect_time": iso_time(status.connect_time),
        "connected_duration": _connected_duration(status, now),
        "reconnect_count": status.reconnect_count,
        "failures": status.failures,
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
        "failures": outlet.failures,
    }


def refused_address_json(refused: RefusedAddress, now: Now) -> Json:
    """An address that exceeded a limit, and what to set if many clients share it."""
    return {
        "address": refused.address,
        "limit": refused.limit,
        "refused": refused.refused,
        "last_refused": iso_time(now.wall - refused.ago),
        "advice": refused.advice,
    }


def memory_json(memory: MemoryBudget) -> Json:
    """What is used of the memory budget, and what is cut back now."""
    used = memory.used
    return {
        "budget": memory.most,
        "used": used.total,
        "assembly": used.assembly,
        "caches": used.caches,
        "queues": used.queues,
        "outputs": used.outputs,
        "scarcity": memory.scarcity.value,
    }


def pull_json(status: PullStatus, now: Now) -> Json:
    return {
        "name": status.name,
        "url": status.url,
        "match": status.match,
        "always": status.always,
        "status": status.state.value,
        "last_error": status.last_error,
        "error_class": status.error_class,
        "viewers": status.viewers,
        "messages_received": status.messages,
        "bytes_received": status.bytes,
        "reconnect_count": status.reconnect_count,
        "streams": [_fetch_json(fetch, now) for fetch in status.fetches],
    }


def _fetch_json(fetch: FetchStatus, now: Now) -> Json:
    next_attempt, connected = fetch.next_attempt_time, fetch.connect_time
    return {
        "stream": fetch.stream,
        "status": fetch.state.value,
        "address": fetch.address,
        "viewers": fetch.viewers,
        "last_error": fetch.last_error,
        "next_attempt": iso_time(next_attempt),
        "next_attempt_in": None if next_attempt is None else seconds(next_attempt - now.wall),
        "connect_time": iso_time(connected),
        "connected_duration": None if connected is None else seconds(now.wall - connected),
        "messages_received": fetch.messages,
        "bytes_received": fetch.bytes,
        "reconnect_count": fetch.reconnect_count,
    }


def pulls_health_json(statuses: Collection[PullStatus]) -> Json:
    """The totals of all pulls; those in the state `error` count as failed."""
    states = Counter(status.state.value for status in statuses)
    return {
        "total_pulls": len(statuses),
        "connected_pulls": states["connected"],
        "failed_pulls": states["error"],
        "pulls": {
            status.name: {
                "url": status.url,
                "status": status.state.value,
                "last_error": status.last_error,
                "viewers": status.viewers,
            }
            for status in statuses
        },
    }


def health_json(statuses: Collection[DestinationStatus], now: Now) -> Json:
    """The totals of all destinations; those in the state `error` count as failed."""
    states = Counter(status.state.value for status in statuses)
    return {
        "total_destinations": len(statuses),
        "connected_destinations": states["connected"],
        "failed_destinations": states["error"],
        "total_messages_sent": sum(status.messages_sent for status in statuses),
        "total_messages_dropped": sum(status.messages_dropped for status in statuses),
        "total_bytes_sent": sum(status.bytes_sent for status in statuses),
        "destinations": {status.name: _destination_summary(status, now) for status in statuses},
    }


def _destination_summary(status: DestinationStatus, now: Now) -> Json:
    return {
        "url": status.url,
        "status": status.state.value,
        "last_error": status.last_error,
        "messages_sent": status.messages_sent,
        "messages_dropped": status.messages_dropped,
        "bytes_sent": status.bytes_sent,
        "connected_duration": _connected_duration(status, now),
        "reconnect_count": status.reconnect_count,
    }


def _connected_duration(status: DestinationStatus, now: Now) -> float | None:
    connected = status.connect_time
    return None if connected is None else seconds(now.wall - connected)


# -- what a stream consists of -------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _picture_size(header: bytes) -> tuple[int, int] | None:
    return picture_size(header)


@lru_cache(maxsize=256)
def _sampling(header: bytes) -> tuple[int | None, int | None]:
    """Sample rate and channels according to the decoder configuration."""
    content = audio_content(header)
    if content is None or not content.configuration:
        return None, None
    configuration = content.of(header)
    if content.codec is Codec.AAC:
        sampling = aac_sampling(configuration)
        return (None, None) if sampling is None else (sampling.rate, sampling.channels)
    if content.codec is Codec.OPUS and configuration[:8] == b"OpusHead" and len(configuration) > 9:
        return OPUS_RATE, configuration[9] or None
    return None, None


def _number(value: AmfValue) -> float | None:
    """A positive number from metadata; some encoders write numbers as text."""
    if isinstance(value, str):
        try:
            value = float(value[:32])
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, float | int):
        return None
    return float(value) if math.isfinite(value) and 0 < value <= _MAX_NUMBER else None


def _whole(value: AmfValue) -> int | None:
    number = _number(value)
    return None if number is None else round(number)


def _kbps(value: AmfValue) -> float | None:
    number = _number(value)
    return None if number is None else round(number, 1)


def _decoder_configuration(stream: LiveStream, kind: MediaKind) -> bytes | None:
    header = stream.header(kind)
    return header if header is not None and len(header) <= _MAX_DECODER_CONFIGURATION else None


def video_json(stream: LiveStream) -> Json | None:
    """What is known of the video; None if there is none.

    The publisher's metadata is used first, then its decoder configuration.
    """
    if stream.video_codec is None:
        return None
    values = stream.metadata
    width, height = _whole(values.get("width")), _whole(values.get("height"))
    header = _decoder_configuration(stream, MediaKind.VIDEO)
    if (width is None or height is None) and header is not None:
        width, height = _picture_size(header) or (width, height)
    fps = (
        _number(values.get("framerate"))
        or _number(values.get("videoframerate"))
        or _number(values.get("fps"))
    )
    return {
        "codec": stream.video_codec.display_name,
        "width": width,
        "height": height,
        "fps": None if fps is None else round(fps, 3),
        "declared_bitrate_kbps": _kbps(values.get("videodatarate")),
    }


def audio_json(stream: LiveStream) -> Json | None:
    """What is known of the audio; None if there is none."""
    if stream.audio_codec is None:
        return None
    values = stream.metadata
    header = _decoder_configuration(stream, MediaKind.AUDIO)
    rate, configured_channels = (None, None) if header is None else _sampling(header)
    channels = _whole(values.get("audiochannels"))
    if channels is None and isinstance(values.get("stereo"), bool):
        channels = 2 if values["stereo"] else 1
    # The decoder configuration is used first here: encoders write a fixed 44100 into the metadata.
    return {
        "codec": stream.audio_codec.display_name,
        "sample_rate": rate or _whole(values.get("audiosamplerate")),
        "channels": configured_channels or channels,
        "declared_bitrate_kbps": _kbps(values.get("audiodatarate")),
    }
