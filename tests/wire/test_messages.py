"""Control and command messages are encoded and decoded; aggregates are split."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtmprelay.amf import amf0
from rtmprelay.amf.amf0 import AmfValue
from rtmprelay.errors import LimitExceededError, RemoteProtocolError
from rtmprelay.wire.chunks import RawMessage
from rtmprelay.wire.messages import (
    Acknowledgement,
    BandwidthLimit,
    Command,
    Message,
    MessageType,
    SetChunkSize,
    SetPeerBandwidth,
    UserControl,
    UserControlType,
    WindowAcknowledgementSize,
    from_raw,
    split_aggregate,
    to_raw,
)
from tests.rounds import rounds

CONTROLS: dict[str, tuple[Message, int, str]] = {
    "acknowledgement": (Acknowledgement(1_000_000), 3, "000f4240"),
    "acknowledgement, the largest": (Acknowledgement(2**32 - 1), 3, "ffffffff"),
    "window acknowledgement size": (WindowAcknowledgementSize(2_500_000), 5, "002625a0"),
    "peer bandwidth, hard": (SetPeerBandwidth(2_500_000, BandwidthLimit.HARD), 6, "002625a0 00"),
    "peer bandwidth, soft": (SetPeerBandwidth(1, BandwidthLimit.SOFT), 6, "00000001 01"),
    "peer bandwidth, dynamic": (SetPeerBandwidth(2_500_000, BandwidthLimit.DYNAMIC), 6, "002625a0 02"),
    "stream begin": (UserControl(UserControlType.STREAM_BEGIN, 1), 4, "0000 00000001"),
    "stream eof": (UserControl(UserControlType.STREAM_EOF, 1), 4, "0001 00000001"),
    "ping request": (UserControl(UserControlType.PING_REQUEST, 2**32 - 1), 4, "0006 ffffffff"),
    "ping response": (UserControl(UserControlType.PING_RESPONSE, 0x01020304), 4, "0007 01020304"),
    "an event of another vendor": (UserControl(31, 7), 4, "001f 00000007"),
}


@pytest.mark.parametrize(("message", "type_id", "payload"), CONTROLS.values(), ids=CONTROLS)
def test_control_messages_survive_encoding_and_decoding(message: Message, type_id: int, payload: str) -> None:
    raw = RawMessage(type_id, 0, 0, bytes.fromhex(payload))
    assert to_raw(message) == raw
    assert from_raw(raw) == message


def test_set_chunk_size_is_encoded() -> None:
    assert to_raw(SetChunkSize(4096)) == RawMessage(1, 0, 0, bytes.fromhex("00001000"))


LENIENT: dict[str, tuple[int, str, Message]] = {
    "peer bandwidth without limit type": (6, "002625a0", SetPeerBandwidth(2_500_000, BandwidthLimit.DYNAMIC)),
    "peer bandwidth of an unknown kind": (
        6,
        "002625a0 09",
        SetPeerBandwidth(2_500_000, BandwidthLimit.DYNAMIC),
    ),
    "user control with the event only": (4, "001a", UserControl(0x1A, 0)),
    "buffer length": (4, "0003 00000001 00000bb8", UserControl(3, 1)),
    "more than is needed": (3, "000f4240 ffff", Acknowledgement(1_000_000)),
    "an event with more bytes after it": (4, "0000 00000001 ffffffff", UserControl(0, 1)),
    "on a message stream": (5, "00000001", WindowAcknowledgementSize(1)),
}


@pytest.mark.parametrize(("type_id", "payload", "message"), LENIENT.values(), ids=LENIENT)
def test_control_messages_with_missing_or_extra_bytes_are_decoded(
    type_id: int, payload: str, message: Message
) -> None:
    assert from_raw(RawMessage(type_id, 99, 1, bytes.fromhex(payload))) == message


@pytest.mark.parametrize("type_id", [3, 5, 6])
@pytest.mark.parametrize("length", range(4))
def test_control_messages_of_fewer_than_four_bytes_are_refused(type_id: int, length: int) -> None:
    with pytest.raises(RemoteProtocolError, match="instead of 4"):
        from_raw(RawMessage(type_id, 0, 0, bytes(length)))


@pytest.mark.parametrize("length", range(2))
def test_user_control_without_an_event_is_refused(length: int) -> None:
    with pytest.raises(RemoteProtocolError, match="User Control"):
        from_raw(RawMessage(4, 0, 0, bytes(length)))


@pytest.mark.parametrize("type_id", [0, 1, 2, 7, 8, 9, 15, 16, 18, 19, 22, 255])
def test_other_message_types_are_not_decoded(type_id: int) -> None:
    assert from_raw(RawMessage(type_id, 0, 0, b"\xff\xff")) is None


# -- commands ----------------------------------------------------------------------------------------------------

COMMANDS: dict[str, Command] = {
    "a call": Command("createStream", 2.0),
    "with a command object": Command("connect", 1.0, {"app": "live", "tcUrl": "rtmp://h/live"}),
    "with arguments": Command("publish", 5.0, None, ("name", "live"), 1),
    "with nested arguments": Command(
        "onStatus", 0.0, None, ({"level": "status"}, [1.0, None, True]), 2**32 - 1
    ),
    "with an empty name": Command("", 0.0),
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_commands_survive_encoding_and_decoding(command: Command) -> None:
    raw = to_raw(command)
    assert (raw.type_id, raw.timestamp, raw.stream_id) == (20, 0, command.stream_id)
    assert from_raw(raw) == command


def test_command_is_encoded_as_amf0() -> None:
    expected = bytes.fromhex("02 0004 70696e67 00 4000000000000000 05")
    assert to_raw(Command("ping", 2.0)).payload == expected


@pytest.mark.parametrize("prefix", [b"\x00", b""], ids=["with format byte", "without format byte"])
def test_amf3_commands_are_amf0_after_one_byte(prefix: bytes) -> None:
    payload = prefix + amf0.encode("play", 3.0, None, "name")
    assert from_raw(RawMessage(17, 0, 1, payload)) == Command("play", 3.0, None, ("name",), 1)


def test_format_byte_in_an_amf0_command_is_refused() -> None:
    # In an AMF0 command a zero begins a number, and a number is no name.
    with pytest.raises(RemoteProtocolError):
        from_raw(RawMessage(20, 0, 0, b"\x00" + amf0.encode("play", 3.0)))


SHORTENED: dict[str, tuple[list[AmfValue], Command]] = {
    "the name alone": (["ping"], Command("ping")),
    "no command object": (["ping", 4.0], Command("ping", 4.0)),
    "transaction id null": (["ping", None, None, "x"], Command("ping", 0.0, None, ("x",))),
    "transaction id a string": (["ping", "4"], Command("ping", 0.0)),
    "transaction id undefined": (["ping", amf0.UNDEFINED], Command("ping", 0.0)),
    "command object a string": (["ping", 4.0, "x"], Command("ping", 4.0, "x")),
}


@pytest.mark.parametrize(("values", "command"), SHORTENED.values(), ids=SHORTENED)
def test_commands_with_missing_or_wrong_parts_get_defaults(values: list[AmfValue], command: Command) -> None:
    assert from_raw(RawMessage(20, 0, 0, amf0.encode(*values))) == command


def test_amf3_integer_is_accepted_as_transaction_id() -> None:
    # The answer must contain it, or the peer waits for ever.
    amf3_integer_seven = b"\x11\x04\x07"
    command = from_raw(RawMessage(17, 0, 0, b"\x00" + amf0.encode("createStream") + amf3_integer_seven))
    assert command == Command("createStream", 7.0)
    assert isinstance(command, Command)
    assert isinstance(command.transaction_id, float)


@pytest.mark.parametrize("type_id", [17, 20])
@pytest.mark.parametrize(
    "payload", [b"", amf0.encode(1.0), amf0.encode(None, 1.0), b"\x00", b"\x02\x00\x05ab"]
)
def test_commands_without_a_name_are_refused(type_id: int, payload: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        from_raw(RawMessage(type_id, 0, 0, payload))


def test_command_that_begins_with_a_number_is_refused_with_the_reason() -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        from_raw(RawMessage(20, 0, 0, amf0.encode(1.0)))
    assert str(caught.value) == "a command message does not begin with the command's name"


def test_short_control_message_is_refused_by_name() -> None:
    for type_id, name in (
        (3, "Acknowledgement"),
        (5, "Window Acknowledgement Size"),
        (6, "Set Peer Bandwidth"),
    ):
        with pytest.raises(RemoteProtocolError) as caught:
            from_raw(RawMessage(type_id, 0, 0, b"abc"))
        assert str(caught.value) == f"{name} has 3 bytes instead of 4"


# -- aggregates --------------------------------------------------------------------------------------------------


def part(type_id: int, timestamp: int, payload: bytes, stream_id: int = 0) -> bytes:
    """A part of an aggregate: like an FLV tag, with the highest byte of the time after the others."""
    time = timestamp.to_bytes(4, "big")
    header = (
        bytes([type_id])
        + len(payload).to_bytes(3, "big")
        + time[1:]
        + time[:1]
        + stream_id.to_bytes(3, "big")
    )
    return header + payload + (len(header) + len(payload)).to_bytes(4, "big")


def aggregate(timestamp: int, *parts: bytes) -> RawMessage:
    return RawMessage(MessageType.AGGREGATE, timestamp, 1, b"".join(parts))


def test_empty_aggregate_has_no_parts() -> None:
    assert split_aggregate(aggregate(5)) == []


def test_parts_get_the_time_and_the_stream_of_the_aggregate() -> None:
    raw = aggregate(1000, part(8, 40, b"abc", stream_id=9), part(9, 60, b""), part(18, 30, b"z"))
    assert split_aggregate(raw) == [
        RawMessage(8, 1000, 1, b"abc"),
        RawMessage(9, 1020, 1, b""),
        RawMessage(18, 990, 1, b"z"),
    ]


TIMES: dict[str, tuple[int, list[int], list[int]]] = {
    "aggregate over the wrap": (2**32 - 10, [0, 20], [2**32 - 10, 10]),
    "parts over the wrap": (100, [2**32 - 1, 4], [100, 105]),
    "earlier part below zero": (5, [20, 10], [5, 2**32 - 5]),
    "more than 24 bits": (0, [0x01020304, 0x01020314], [0, 16]),
}


@pytest.mark.parametrize(("own", "inner", "expected"), TIMES.values(), ids=TIMES)
def test_times_of_parts_wrap_at_32_bits(own: int, inner: list[int], expected: list[int]) -> None:
    raw = aggregate(own, *(part(8, time, b"x") for time in inner))
    assert [message.timestamp for message in split_aggregate(raw)] == expected


def test_size_after_the_last_part_may_be_missing() -> None:
    whole = part(8, 0, b"abc")
    for missing in range(5):
        assert split_aggregate(aggregate(0, whole[: len(whole) - missing])) == [RawMessage(8, 0, 1, b"abc")]


def test_last_part_of_an_aggregate_may_be_empty_and_without_its_size() -> None:
    raw = aggregate(1000, part(8, 40, b"abc"), part(9, 60, b"")[:-4])
    assert [message.payload for message in split_aggregate(raw)] == [b"abc", b""]


def test_aggregate_that_ends_inside_a_part_is_refused() -> None:
    first, second = part(8, 0, b"abc"), part(9, 0, b"defg")
    for length in range(1, len(second) - 4):
        with pytest.raises(RemoteProtocolError, match="an aggregate message ends inside"):
            split_aggregate(aggregate(0, first, second[:length]))


def test_aggregate_in_an_aggregate_is_not_split() -> None:
    # Otherwise the peer could choose the depth of the recursion.
    inner = part(8, 0, b"abc")
    assert split_aggregate(aggregate(7, part(22, 0, inner))) == [RawMessage(22, 7, 1, inner)]


def test_more_parts_than_the_limit_are_refused() -> None:
    assert len(split_aggregate(aggregate(0, *[part(8, 0, b"")] * 3), most=3)) == 3
    with pytest.raises(LimitExceededError) as caught:
        split_aggregate(aggregate(0, *[part(8, 0, b"")] * 4), most=3)
    assert str(caught.value) == "over 3 messages in one aggregate (limit: aggregate_parts)"
    assert caught.value.limit == "aggregate_parts"


# -- anything ----------------------------------------------------------------------------------------------------


@settings(max_examples=rounds(200, full=1000))
@given(st.sampled_from([*range(24), 255]), st.binary(max_size=60))
def test_arbitrary_payloads_are_control_or_command_messages_or_raise_remote_protocol_errors(
    type_id: int, payload: bytes
) -> None:
    with contextlib.suppress(RemoteProtocolError):
        message = from_raw(RawMessage(type_id, 0, 0, payload))
        assert (message is not None) == (type_id in {3, 4, 5, 6, 17, 20})
        assert isinstance(message, Command) == (type_id in {17, 20})


@given(st.binary(max_size=80))
def test_arbitrary_arguments_leave_the_name_of_a_command_or_raise_remote_protocol_errors(
    payload: bytes,
) -> None:
    with contextlib.suppress(RemoteProtocolError):
        message = from_raw(RawMessage(20, 0, 0, amf0.encode("play") + payload))
        assert isinstance(message, Command)
        assert message.name == "play"


@given(st.binary(max_size=120), st.integers(0, 2**32 - 1))
def test_arbitrary_aggregates_raise_only_remote_protocol_errors(payload: bytes, timestamp: int) -> None:
    with contextlib.suppress(RemoteProtocolError):
        parts = split_aggregate(RawMessage(22, timestamp, 1, payload))
        assert all(0 <= message.timestamp < 2**32 for message in parts)
