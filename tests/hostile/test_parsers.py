"""A seeded mutator on everything that reads what strangers wrote: only declared errors, in bounded time and memory.

`RTMPRELAY_FUZZ_INPUTS=200000 pytest tests/hostile/test_parsers.py` is the long run. Inputs that broke something once are
files in `found/`, named after the target; they are tried first.
"""

from __future__ import annotations

import io
import json
import os
import random
import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import attrs
import pytest

from rtmprelay import amf0, amf3
from rtmprelay.amf0 import AmfValue
from rtmprelay.destinations.config_file import parse_relay_config
from rtmprelay.errors import BadRecordingError, ConfigError, RemoteProtocolError
from rtmprelay.flv.container import encode_tags, file_header, read_tags
from rtmprelay.flv.repair import inspect
from rtmprelay.flv.script import decode_metadata
from rtmprelay.flv.tags import describe_audio, describe_video
from rtmprelay.session.client_session import ClientSession
from rtmprelay.session.events import ConnectAccepted
from rtmprelay.session.server_session import ServerSession
from rtmprelay.wire.chunks import ChunkReader
from rtmprelay.wire.handshake import ServerHandshake
from tests.helpers import group, start_frames
from tests.hostile.conversations import answers, conversation, mutate

INPUTS = int(os.environ.get("RTMPRELAY_FUZZ_INPUTS", "300"))
SEED = int(os.environ.get("RTMPRELAY_FUZZ_SEED", "11"))
FOUND = Path(__file__).parent / "found"

#: CPU seconds for one input, and for each byte of it; far above what they need, far below what a loop would take.
SECONDS, SECONDS_PER_BYTE = 0.25, 100e-6
#: Bytes of memory for one input, and for each byte of it: AMF values are objects, which cost some hundred bytes each.
MEMORY, MEMORY_PER_BYTE = 1_000_000, 600


@attrs.frozen
class Target:
    """Something that reads bytes of strangers."""

    read: Callable[[bytes, Path], object]
    samples: Callable[[], list[bytes]]
    errors: tuple[type[Exception], ...] = (RemoteProtocolError,)


def _amf_samples() -> list[bytes]:
    nested: AmfValue = {"a": [1.0, "text", None, True, {"b": {"c": [{}, []]}}], "long": "x" * 300}
    return [
        amf0.encode("connect", 1.0, nested),
        b"\x11\x0a\x0b\x01\x03a\x06\x07key\x01\x09\x05\x01\x04\x01\x04\x02",
    ]


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


def _be_served(data: bytes, folder: Path) -> None:
    session = ClientSession("live", "rtmp://127.0.0.1/live", use_digest=False)
    asked = False
    for start in range(0, len(data), 1400):
        for event in session.receive_data(data[start : start + 1400], 0.0):
            if isinstance(event, ConnectAccepted) and not asked:
                asked = True
                session.publish("name")
        session.bytes_to_send()


def _shake(data: bytes, folder: Path) -> None:
    handshake = ServerHandshake()
    for start in range(0, len(data), 500):
        if not handshake.done:
            handshake.feed(data[start : start + 500])


def _inspect(data: bytes, folder: Path) -> None:
    path = folder / "live_x_20260101_000000.flv"
    path.write_bytes(data)
    inspect(path)


def _recordings() -> list[bytes]:
    return [file_header() + encode_tags([*start_frames(), *group(0), *group(400), *group(800)])]


def _read_config(data: bytes, folder: Path) -> None:
    parse_relay_config(data.decode("utf-8", "replace"), {"KEY": "k"})


def _configs() -> list[bytes]:
    entry = {
        "name": "a",
        "url": "rtmps://h/app",
        "stream_key": "${KEY}",
        "match": "live/*",
        "metadata": {"x": [1]},
    }
    return [json.dumps({"destinations": [entry, {"name": "b", "url": "rtmp://h/app/k"}]}).encode()]


def _behind_handshake(data: bytes) -> bytes:
    return data[3073:]


TARGETS = {
    "chunks": Target(_read_chunks, lambda: [_behind_handshake(conversation("x"))]),
    "amf0": Target(lambda data, _: amf0.decode_all(data), _amf_samples),
    "amf3": Target(lambda data, _: amf3.decode_value(data), lambda: [_amf_samples()[1][1:], b"\x0b\x0a"]),
    "handshake": Target(
        _shake, lambda: [conversation("x")[:3073], conversation("x", use_digest=False)[:3073]]
    ),
    "server": Target(_serve, lambda: [conversation("x"), conversation("x", play=True)]),
    "client": Target(_be_served, lambda: [answers()]),
    "flv": Target(lambda data, _: list(read_tags(io.BytesIO(data))), _recordings, (BadRecordingError,)),
    "inspection": Target(_inspect, _recordings, (BadRecordingError,)),
    "metadata": Target(lambda data, _: decode_metadata(data), lambda: [start_frames()[0].payload]),
    "video": Target(
        lambda data, _: describe_video(data), lambda: [frame.payload[:40] for frame in start_frames()[1:]]
    ),
    "audio": Target(
        lambda data, _: describe_audio(data), lambda: [frame.payload[:40] for frame in start_frames()[1:]]
    ),
    "configuration": Target(_read_config, _configs, (ConfigError,)),
}


def attempt(target: Target, data: bytes, folder: Path) -> None:
    """One input; what it may cost depends on its length."""
    began = time.process_time()
    with suppress(*target.errors):
        target.read(data, folder)
    took = time.process_time() - began
    allowed = SECONDS + SECONDS_PER_BYTE * len(data)
    assert took < allowed, f"{len(data)} bytes took {took:.2f} s: {data[:200]!r}"


def inputs(target: Target, name: str, count: int) -> list[bytes]:
    chance = random.Random(f"{SEED} {name}")
    samples = target.samples()
    made = [mutate(chance.choice(samples), chance) for _ in range(count)]
    return [*made, *(chance.randbytes(chance.choice((0, 1, 10, 3000))) for _ in range(count // 10))]


@pytest.mark.parametrize("name", TARGETS)
def test_only_declared_errors_in_bounded_time(name: str, tmp_path: Path) -> None:
    target = TARGETS[name]
    for path in sorted(FOUND.glob(f"{name}-*")):
        attempt(target, path.read_bytes(), tmp_path)
    for data in inputs(target, name, INPUTS):
        try:
            attempt(target, data, tmp_path)
        except BaseException:
            (tmp_path / f"{name}-input").write_bytes(data)
            raise


@pytest.mark.parametrize("name", TARGETS)
def test_memory_is_bounded_by_the_length_of_the_input(name: str, tmp_path: Path) -> None:
    target = TARGETS[name]
    tracemalloc.start()
    try:
        for data in inputs(target, name, 30):
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            attempt(target, data, tmp_path)
            used = tracemalloc.get_traced_memory()[1] - before
            assert used < MEMORY + MEMORY_PER_BYTE * len(data), (
                f"{len(data)} bytes cost {used} bytes of memory"
            )
    finally:
        tracemalloc.stop()
