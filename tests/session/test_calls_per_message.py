"""What one message costs a session, counted in calls and not in time: a slow machine changes nothing about it."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from types import FrameType

import pytest

import rtmprelay
from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.session.reports import MediaReceived
from rtmprelay.wire.chunk_writer import encode_standalone
from rtmprelay.wire.messages import SetChunkSize, to_raw
from tests.session.helpers import ScriptedClient, connected_client, media

_HOME = str(Path(rtmprelay.__file__).parent)


def publishing_client(chunk_size: int) -> ScriptedClient:
    client = connected_client()
    client.publish()
    client.feed(encode_standalone(to_raw(SetChunkSize(chunk_size)), 2, 128))
    client.writer.chunk_size = chunk_size
    for timestamp in (0, 14, 28):
        client.send(media(MediaFrame(MediaKind.VIDEO, timestamp, b"\x27" + bytes(4299))))
    return client


def calls_of_read(client: ScriptedClient, data: bytes) -> list[str]:
    """The functions of rtmprelay that one read calls."""
    called: list[str] = []

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(_HOME):
            called.append(frame.f_code.co_qualname)

    gc.collect()
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        events = client.session.receive_data(data, 1.0)
    finally:
        sys.setprofile(before)
    assert [type(event) for event in events] == [MediaReceived]
    return called


def video(client: ScriptedClient, count: int) -> bytes:
    """Frames whose headers are as short as those that an encoder sends."""
    frames = [MediaFrame(MediaKind.VIDEO, 42 + 14 * number, b"\x27" + bytes(4299)) for number in range(count)]
    return client.encode(*(media(frame) for frame in frames))


@pytest.mark.parametrize("together", [1, 12])
def test_read_of_whole_chunks_takes_four_calls(together: int) -> None:
    client = publishing_client(65536)
    assert calls_of_read(client, video(client, together)) == [
        "ServerSession.receive_data",
        "MessageChannel.receive",
        "ChunkReader.feed",
        "MediaIntake.take",
    ]


def test_message_of_many_chunks_takes_no_call_per_chunk() -> None:
    client = publishing_client(128)
    assert len(calls_of_read(client, video(client, 1))) <= 15


def test_session_shows_without_a_call_that_it_has_nothing_to_send() -> None:
    client = publishing_client(65536)
    client.received()
    client.feed(video(client, 1))
    assert client.session.outgoing == []
    client.session.end_stream(1, "error", "code", "text")
    assert client.session.outgoing
    assert client.session.bytes_to_send()
    assert client.session.outgoing == []
