"""Everything that reads what strangers wrote."""

from __future__ import annotations

import io
import json
from pathlib import Path

from rtmprelay.access.authorizers.keys_rules import parse_keys
from rtmprelay.access.request import Credentials
from rtmprelay.addresses import read_proxies
from rtmprelay.amf import amf0
from rtmprelay.amf.amf0 import AmfValue
from rtmprelay.destinations.config_file import parse_relay_config
from rtmprelay.errors import BadRecordingError, ConfigError
from rtmprelay.flv.container import encode_tags, file_header, read_tags
from rtmprelay.flv.repair import inspect
from rtmprelay.flv.script import decode_metadata
from rtmprelay.flv.tags import describe_audio, describe_video
from rtmprelay.secret import Secret
from rtmprelay.session.client import ClientSession
from rtmprelay.session.reports import ConnectAccepted
from rtmprelay.session.server import ServerSession
from rtmprelay.wire.chunks import ChunkReader
from rtmprelay.wire.handshake import ClientHandshake, ServerHandshake
from rtmprelay.wire.url import RtmpUrl
from tests.amf.helpers import decode_amf3
from tests.helpers import group, start_frames
from tests.hostile.conversations import HANDSHAKE, answers, beyond_greeting, conversation, greeting
from tests.hostile.costly import costly_amf, costly_amf3, costly_chunks, costly_json, costly_recordings
from tests.hostile.media_targets import MEDIA_TARGETS
from tests.hostile.target import SECONDS_PER_BYTE_OF_OPERATOR, Target
from tests.hostile.text_targets import TEXT_TARGETS

# -- how each one reads --------------------------------------------------------------------------------------


def _read_chunks(data: bytes, folder: Path) -> None:
    reader = ChunkReader()
    for start in range(0, len(data), 1000):
        reader.feed(data[start : start + 1000])


def _serve(data: bytes, folder: Path) -> None:
    session = ServerSession(0.0)
    for start in range(0, len(data), 1400):
        for event in session.receive_data(data[start : start + 1400], 0.0):
            request = getattr(event, "request_id", None)
            if request is not None:
                session.accept(request)
        session.bytes_to_send()


def _serve_connected(data: bytes, folder: Path) -> None:
    """Without the handshake and the connect, which a mutator only gets in the way of."""
    _serve(greeting() + data, folder)


def _be_served(data: bytes, folder: Path) -> None:
    session = ClientSession("live", "rtmp://127.0.0.1/live", use_digest=False)
    asked = False
    for start in range(0, len(data), 1400):
        for event in session.receive_data(data[start : start + 1400], 0.0):
            if isinstance(event, ConnectAccepted) and not asked:
                asked = True
                session.publish("name")
        session.bytes_to_send()


def _shake(handshake: ServerHandshake | ClientHandshake, data: bytes) -> None:
    for start in range(0, len(data), 500):
        if not handshake.done:
            handshake.feed(data[start : start + 500])
            handshake.bytes_to_send()


def _inspect(data: bytes, folder: Path) -> None:
    path = folder / "live_x_20260101_000000.flv"
    path.write_bytes(data)
    inspect(path)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _read_query(data: bytes, folder: Path) -> None:
    found = Credentials(Secret(_text(data)))
    found.parameter("key", "token")


# -- what is sound -------------------------------------------------------------------------------------------


#: A list of an object, which it refers to again, a text and numbers.
_AMF3 = (
    b"\x09\x0b\x01"
    + b"\x0a\x0b\x01\x03b\x06\x07key\x01"
    + b"\x0a\x02\x06\x02\x04\x81\x01"
    + b"\x05"
    + bytes(8)
)


def _amf_samples() -> list[bytes]:
    nested: AmfValue = {"a": [1.0, "text", None, True, {"b": {"c": [{}, []]}}], "long": "x" * 300}
    return [
        amf0.encode("connect", 1.0, nested),
        b"\x11\x0a\x0b\x01\x03a\x06\x07key\x01" + b"\x11" + _AMF3,
    ]


def _recordings() -> list[bytes]:
    return [file_header() + encode_tags([*start_frames(), *group(0), *group(400), *group(800)])]


def _relay_configs() -> list[bytes]:
    entry = {
        "name": "a",
        "url": "rtmps://h/app",
        "stream_key": "${KEY}",
        "match": "live/*",
        "metadata": {"x": [1]},
    }
    return [json.dumps({"destinations": [entry, {"name": "b", "url": "rtmp://h/app/k"}]}).encode()]


def _keys_files() -> list[bytes]:
    content = {
        "streams": [
            {
                "match": "live/*",
                "publish": {
                    "keys": ["k", "$scrypt$ln=14,r=8,p=1$Mi6JFoHAYcsmBrhVfD9BNQ$PAPq7XZPp4w2IPgHyAvT1g"]
                },
                "play": "anyone",
            },
            {"match": "studio/*", "publish": {"users": ["anna"]}, "play": "nobody"},
        ],
        "users": {"anna": "word"},
        "ask_for_user": ["studio"],
    }
    return [json.dumps(content).encode()]


def _after_handshake(data: bytes) -> bytes:
    return data[HANDSHAKE:]


#: Proxies whose headers are believed.
_PROXIES = read_proxies(["10.0.0.0/8"])

TARGETS = {
    "chunks": Target(_read_chunks, lambda: [_after_handshake(conversation("x"))], costly_chunks),
    "amf0": Target(lambda data, _: amf0.decode_all(data), _amf_samples, costly_amf),
    "amf3": Target(lambda data, _: decode_amf3(data), lambda: [_AMF3], costly_amf3),
    "handshake": Target(
        lambda data, _: _shake(ServerHandshake(), data),
        lambda: [conversation("x", use_digest=digest)[:HANDSHAKE] for digest in (True, False)],
        lambda: [bytes([3]) * 300_000],
    ),
    "handshake_of_client": Target(
        lambda data, _: _shake(ClientHandshake(), data),
        lambda: [answers()[:HANDSHAKE]],
        lambda: [bytes([3]) * 300_000],
    ),
    "server": Target(
        _serve,
        lambda: [conversation("x"), conversation("x", play=True)],
        lambda: [bytes([3]) * 300_000],
    ),
    "connected": Target(
        _serve_connected,
        lambda: [beyond_greeting("x"), beyond_greeting("x", play=True)],
        costly_chunks,
    ),
    "client": Target(_be_served, lambda: [answers()], lambda: [answers() + one for one in costly_chunks()]),
    "flv": Target(
        lambda data, _: list(read_tags(io.BytesIO(data))),
        _recordings,
        costly_recordings,
        (BadRecordingError,),
    ),
    "inspection": Target(_inspect, _recordings, costly_recordings, (BadRecordingError,)),
    "metadata": Target(
        lambda data, _: decode_metadata(data), lambda: [start_frames()[0].payload], costly_amf
    ),
    "video": Target(
        lambda data, _: describe_video(data),
        lambda: [frame.payload[:40] for frame in start_frames()[1:]],
        lambda: [b"\x90avc1" + bytes(300_000)],
    ),
    "audio": Target(
        lambda data, _: describe_audio(data),
        lambda: [frame.payload[:40] for frame in start_frames()[1:]],
        lambda: [b"\x90mp4a" + bytes(300_000)],
    ),
    "configuration": Target(
        lambda data, _: parse_relay_config(_text(data), {"KEY": "k"}),
        _relay_configs,
        costly_json,
        (ConfigError,),
        SECONDS_PER_BYTE_OF_OPERATOR,
    ),
    "keys": Target(lambda data, _: parse_keys(_text(data)), _keys_files, costly_json, (ConfigError,)),
    "url": Target(
        lambda data, _: RtmpUrl.parse(_text(data)),
        lambda: [b"rtmps://user:word@host.example:443/app/key?a=b", b"rtmp://[::1]/{app}/{name}"],
        lambda: [b"rtmp://" + b"@" * 100_000, b"rtmp://h/" + b"{" * 100_000, b"rtmp://" + b":" * 100_000],
        (ConfigError,),
    ),
    "forwarded": Target(
        lambda data, _: _PROXIES.client("10.0.0.1", data.decode("latin-1").split("\n")),
        lambda: [b"203.0.113.5, 10.0.0.2", b"[2001:db8::1]:80", b"10.0.0.3\n203.0.113.7:99, unknown"],
        lambda: [b"," * 100_000, b"10.0.0.1," * 10_000, b"[" * 100_000],
    ),
    "query": Target(_read_query, lambda: [b"key=a&token=b.c.d&x=%41+"], lambda: [b"&=" * 100_000]),
    **TEXT_TARGETS,
    **MEDIA_TARGETS,
}
