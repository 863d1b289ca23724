"""The media of a publisher on a server session: frames, data and aggregates."""

from __future__ import annotations

import pytest

from rtmprelay.errors import LimitExceededError, RemoteProtocolError
from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.session.reports import MediaReceived, PublishEnded, PublishRequested
from rtmprelay.wire.chunks import RawMessage
from rtmprelay.wire.commands import StatusCode
from rtmprelay.wire.limits import ConnectionLimits
from rtmprelay.wire.messages import MessageType
from tests.session.helpers import (
    AUDIO,
    VIDEO,
    call,
    connected_client,
    frames_of,
    media,
    only,
    request_publish,
)


@pytest.mark.parametrize("read", ["in the same read", "in a later one"])
def test_media_sent_before_the_answer_is_read_after_it(read: str) -> None:
    client = connected_client()
    large = MediaFrame(MediaKind.VIDEO, 30, bytes(100_000))
    sent = [media(AUDIO), media(VIDEO), media(large)]
    first = sent if read == "in the same read" else []
    (request,) = client.send(call("publish", 0.0, "cam", stream_id=1), *first)
    assert isinstance(request, PublishRequested)
    if not first:
        assert client.send(*sent) == []
    assert client.session.has_held_data
    client.session.accept(request.request_id)
    assert frames_of(client.feed(b"")) == [AUDIO, VIDEO, large]
    assert not client.session.has_held_data


def test_media_of_a_refused_publisher_is_dropped() -> None:
    client = connected_client()
    request = only(client.send(call("publish", 0.0, "cam", stream_id=1), media(VIDEO)), PublishRequested)
    client.session.reject(request.request_id, StatusCode.PUBLISH_DENIED, "No")
    assert client.feed(b"") == []


def test_bytes_that_wait_for_the_answer_to_a_publish_are_bounded() -> None:
    client = connected_client(ConnectionLimits(assembly_size_before_publish=10_000))
    request_publish(client)
    client.feed(bytes(9_000))
    with pytest.raises(LimitExceededError) as raised:
        client.feed(bytes(2_000))
    assert raised.value.limit == "assembly_size_before_publish"


def test_media_before_and_after_a_command_is_reported_in_order() -> None:
    client = connected_client()
    client.publish()
    events = client.send(media(AUDIO), call("closeStream", 0.0, stream_id=1), media(VIDEO))
    assert events == [MediaReceived(1, [AUDIO]), PublishEnded(1)]


def test_media_of_two_publishes_on_one_message_stream_is_reported_separately() -> None:
    client = connected_client()
    client.publish()
    again = [call("closeStream", 0.0, stream_id=1), call("publish", 0.0, "new", stream_id=1)]
    events = client.send(media(AUDIO), *again, media(VIDEO))
    assert [type(event) for event in events] == [MediaReceived, PublishEnded, PublishRequested]
    assert events[0] == MediaReceived(1, [AUDIO])
    client.session.accept(only(events, PublishRequested).request_id)
    assert client.feed(b"") == [MediaReceived(1, [VIDEO])]


def test_frames_of_one_read_are_one_report() -> None:
    client = connected_client()
    client.publish()
    assert client.send(*[media(AUDIO)] * 5) == [MediaReceived(1, [AUDIO] * 5)]


def test_frames_of_two_message_streams_are_separate_reports() -> None:
    client = connected_client()
    client.publish(stream_id=1)
    client.publish(stream_id=2, name="other")
    events = client.send(media(AUDIO, 1), media(VIDEO, 2), media(AUDIO, 2))
    assert events == [MediaReceived(1, [AUDIO]), MediaReceived(2, [VIDEO, AUDIO])]


def test_media_on_message_stream_0_belongs_to_the_only_publish() -> None:
    client = connected_client()
    client.publish(stream_id=3)
    assert client.send(media(AUDIO, 0)) == [MediaReceived(3, [AUDIO])]
    client.publish(stream_id=4, name="other")
    assert client.send(media(AUDIO, 0)) == []


def test_media_without_a_publish_is_dropped() -> None:
    client = connected_client()
    client.play()
    assert client.send(media(AUDIO), media(VIDEO, 0)) == []


def test_amf3_data_loses_only_its_marker() -> None:
    client = connected_client()
    client.publish()
    events = client.send(
        RawMessage(MessageType.DATA_AMF3, 5, 1, b"\x00\x02\x00\x01x"),
        RawMessage(MessageType.DATA_AMF3, 6, 1, b"\x02\x00\x01y"),
    )
    assert frames_of(events) == [
        MediaFrame(MediaKind.DATA, 5, b"\x02\x00\x01x"),
        MediaFrame(MediaKind.DATA, 6, b"\x02\x00\x01y"),
    ]


def aggregate_part(type_id: int, timestamp: int, payload: bytes) -> bytes:
    low, high = (timestamp & 0xFFFFFF).to_bytes(3), timestamp >> 24
    header = bytes([type_id]) + len(payload).to_bytes(3) + low + bytes([high]) + b"\x00\x00\x00"
    return header + payload + (len(header) + len(payload)).to_bytes(4)


def test_aggregate_is_split_and_its_parts_get_its_time() -> None:
    client = connected_client()
    client.publish()
    body = aggregate_part(8, 100, b"\xaf\x01a") + aggregate_part(9, 140, b"\x27\x01v")
    assert frames_of(client.send(RawMessage(MessageType.AGGREGATE, 1000, 1, body))) == [
        MediaFrame(MediaKind.AUDIO, 1000, b"\xaf\x01a"),
        MediaFrame(MediaKind.VIDEO, 1040, b"\x27\x01v"),
    ]


def test_commands_and_aggregates_inside_an_aggregate_are_ignored() -> None:
    client = connected_client()
    client.publish()
    inner = aggregate_part(22, 0, aggregate_part(8, 0, b"\xaf\x01x"))
    body = inner + aggregate_part(20, 0, b"garbage") + aggregate_part(8, 0, b"\xaf\x01a")
    events = client.send(RawMessage(MessageType.AGGREGATE, 0, 1, body))
    assert [frame.payload for frame in frames_of(events)] == [b"\xaf\x01a"]


def test_aggregate_with_too_many_parts_is_an_error_that_names_the_limit() -> None:
    client = connected_client(ConnectionLimits(aggregate_parts=2))
    client.publish()
    part = aggregate_part(8, 0, b"\xaf\x01a")
    client.send(RawMessage(MessageType.AGGREGATE, 0, 1, part * 2))
    with pytest.raises(LimitExceededError) as raised:
        client.send(RawMessage(MessageType.AGGREGATE, 0, 1, part * 3))
    assert raised.value.limit == "aggregate_parts"


def test_truncated_aggregate_is_a_remote_protocol_error() -> None:
    client = connected_client()
    client.publish()
    with pytest.raises(RemoteProtocolError, match="aggregate"):
        client.send(RawMessage(MessageType.AGGREGATE, 0, 1, aggregate_part(8, 0, b"abc")[:-6]))


def test_frames_around_an_aggregate_of_the_same_read_are_one_report() -> None:
    client = connected_client()
    client.publish()
    part = b"\x08\x00\x00\x02\x00\x00\x0a\x00\x00\x00\x00\xaf\x01\x00\x00\x00\x0d"
    reports = client.send(media(AUDIO), RawMessage(22, 10, 1, part), media(VIDEO))
    (received,) = reports
    assert isinstance(received, MediaReceived)
    assert [frame.payload for frame in received.frames] == [AUDIO.payload, b"\xaf\x01", VIDEO.payload]
