"""Control and command messages as values, and their bytes. Media payloads pass through unparsed."""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import IntEnum
from typing import TypeAlias

import attrs

from rtmprelay.amf import amf0
from rtmprelay.amf.amf0 import AmfValue, Budget
from rtmprelay.errors import LimitExceededError, RemoteProtocolError
from rtmprelay.media import TIMESTAMP_MODULUS
from rtmprelay.wire.chunks import RawMessage
from rtmprelay.wire.limits import ConnectionLimits

_DEFAULT_LIMITS = ConnectionLimits()


class MessageType(IntEnum):
    """The message type ids of RTMP. Abort (2) is missing: only the chunk reader needs it."""

    SET_CHUNK_SIZE = 1
    ACKNOWLEDGEMENT = 3
    USER_CONTROL = 4
    WINDOW_ACKNOWLEDGEMENT_SIZE = 5
    SET_PEER_BANDWIDTH = 6
    AUDIO = 8
    VIDEO = 9
    DATA_AMF3 = 15
    COMMAND_AMF3 = 17
    DATA_AMF0 = 18
    COMMAND_AMF0 = 20
    AGGREGATE = 22


class UserControlType(IntEnum):
    """The event types of a User Control message that this relay sends or answers."""

    STREAM_BEGIN = 0
    STREAM_EOF = 1
    PING_REQUEST = 6
    PING_RESPONSE = 7


class BandwidthLimit(IntEnum):
    """How the receiver of Set Peer Bandwidth is to apply it."""

    HARD = 0
    SOFT = 1
    DYNAMIC = 2


@attrs.frozen
class SetChunkSize:
    """The sender's chunks hold up to this many payload bytes from now on. The chunk reader handles it on arrival."""

    size: int


@attrs.frozen
class Acknowledgement:
    """This many bytes (modulo 2^32) have arrived since the connection began."""

    sequence_number: int


@attrs.frozen
class WindowAcknowledgementSize:
    """The sender expects an Acknowledgement after every `size` bytes."""

    size: int


@attrs.frozen
class SetPeerBandwidth:
    """The receiver may have at most `size` unacknowledged bytes in flight."""

    size: int
    limit: BandwidthLimit


@attrs.frozen
class UserControl:
    """A stream event or a ping. `value` is a message stream id or, for pings, a timestamp."""

    event: int
    value: int


@attrs.frozen
class Command:
    """A remote call, or the answer to one. `arguments` come after the command object."""

    name: str
    transaction_id: float = 0.0
    # Both may contain tokens.
    command_object: AmfValue = attrs.field(default=None, repr=False)
    arguments: tuple[AmfValue, ...] = attrs.field(default=(), repr=False)
    stream_id: int = 0


#: The control messages that a session receives.
ControlMessage: TypeAlias = Acknowledgement | WindowAcknowledgementSize | SetPeerBandwidth | UserControl
ReceivedMessage: TypeAlias = ControlMessage | Command
Message: TypeAlias = ReceivedMessage | SetChunkSize


# -- encoding ------------------------------------------------------------------------------------------------


def _encode_control(message: ControlMessage | SetChunkSize) -> tuple[MessageType, bytes]:
    match message:
        case SetChunkSize(size):
            return MessageType.SET_CHUNK_SIZE, size.to_bytes(4)
        case Acknowledgement(sequence_number):
            return MessageType.ACKNOWLEDGEMENT, sequence_number.to_bytes(4)
        case WindowAcknowledgementSize(size):
            return MessageType.WINDOW_ACKNOWLEDGEMENT_SIZE, size.to_bytes(4)
        case SetPeerBandwidth(size, limit):
            return MessageType.SET_PEER_BANDWIDTH, struct.pack(">IB", size, limit)
        case UserControl(event, value):
            return MessageType.USER_CONTROL, struct.pack(">HI", event, value)


def to_raw(message: Message) -> RawMessage:
    """The message in the form that the chunk writer takes."""
    if isinstance(message, Command):
        payload = amf0.encode(
            message.name, message.transaction_id, message.command_object, *message.arguments
        )
        return RawMessage(MessageType.COMMAND_AMF0, 0, message.stream_id, payload)
    type_id, payload = _encode_control(message)
    return RawMessage(type_id, 0, 0, payload)


# -- decoding ------------------------------------------------------------------------------------------------


def _uint32(payload: bytes, what: str) -> int:
    if len(payload) < 4:
        raise RemoteProtocolError(f"{what} has {len(payload)} bytes instead of 4")
    return int.from_bytes(payload[:4])


def _decode_peer_bandwidth(payload: bytes) -> SetPeerBandwidth:
    size = _uint32(payload, "Set Peer Bandwidth")
    limit = payload[4] if len(payload) > 4 else BandwidthLimit.DYNAMIC
    known = limit in (BandwidthLimit.HARD, BandwidthLimit.SOFT, BandwidthLimit.DYNAMIC)
    return SetPeerBandwidth(size, BandwidthLimit(limit) if known else BandwidthLimit.DYNAMIC)


def _decode_user_control(payload: bytes) -> UserControl:
    if len(payload) < 2:
        raise RemoteProtocolError(f"User Control has {len(payload)} bytes: too few for an event type")
    # Events of other vendors may be shorter; missing bytes count as zero.
    return UserControl(int.from_bytes(payload[:2]), int.from_bytes(payload[2:6]))


def _decode_command(values: list[AmfValue], stream_id: int) -> Command:
    if not values or not isinstance(values[0], str):
        raise RemoteProtocolError("a command message does not begin with the command's name")
    transaction = values[1] if len(values) > 1 else 0.0
    # Some encoders send null as the transaction id if they expect no answer.
    transaction_id = float(transaction) if isinstance(transaction, int | float) else 0.0
    command_object = values[2] if len(values) > 2 else None
    return Command(values[0], transaction_id, command_object, tuple(values[3:]), stream_id)


def without_amf3_marker(payload: bytes) -> bytes:
    """The AMF0 part of an AMF3 command or data message: it comes after one format byte, which is zero."""
    return payload[1:] if payload[:1] == b"\x00" else payload


_DECODERS: dict[int, Callable[[bytes], ControlMessage]] = {
    MessageType.ACKNOWLEDGEMENT: lambda payload: Acknowledgement(_uint32(payload, "Acknowledgement")),
    MessageType.WINDOW_ACKNOWLEDGEMENT_SIZE: lambda payload: WindowAcknowledgementSize(
        _uint32(payload, "Window Acknowledgement Size")
    ),
    MessageType.SET_PEER_BANDWIDTH: _decode_peer_bandwidth,
    MessageType.USER_CONTROL: _decode_user_control,
}


def from_raw(raw: RawMessage, budget: Budget | None = None) -> ReceivedMessage | None:
    """The control or command message in `raw`; None if it is of another type.

    Args:
        budget: How many AMF values a command may have; afterwards it says how many there were.
    """
    if raw.type_id in (MessageType.COMMAND_AMF0, MessageType.COMMAND_AMF3):
        payload = raw.payload if raw.type_id == MessageType.COMMAND_AMF0 else without_amf3_marker(raw.payload)
        values = amf0.decode_all(payload, budget=budget)
        return _decode_command(values, raw.stream_id)
    decoder = _DECODERS.get(raw.type_id)
    return decoder(raw.payload) if decoder else None


# -- aggregates ----------------------------------------------------------------------------------------------

_AGGREGATE_HEADER = struct.Struct(">B3s3sB3s")


def split_aggregate(raw: RawMessage, most: int = _DEFAULT_LIMITS.aggregate_parts) -> list[RawMessage]:
    """The messages inside an aggregate (type 22), with its message stream id and timestamps relative to its own.

    Each part is laid out like an FLV tag: header, payload, and the size of both. The first part gets the timestamp of
    the aggregate, and the others keep their distance from it.

    Args:
        most: The largest number of parts.
    """
    parts: list[RawMessage] = []
    payload = raw.payload
    position = 0
    shift: int | None = None
    while position < len(payload):
        body = position + _AGGREGATE_HEADER.size
        if body > len(payload):
            raise RemoteProtocolError("an aggregate message ends inside the header of a part")
        type_id, length, low, high, _ = _AGGREGATE_HEADER.unpack_from(payload, position)
        end = body + int.from_bytes(length)
        if end > len(payload):
            raise RemoteProtocolError("an aggregate message ends inside a part")
        if len(parts) >= most:
            raise LimitExceededError("aggregate_parts", f"over {most} messages in one aggregate")
        timestamp = high << 24 | int.from_bytes(low)
        if shift is None:
            shift = raw.timestamp - timestamp
        parts.append(
            RawMessage(type_id, (timestamp + shift) % TIMESTAMP_MODULUS, raw.stream_id, payload[body:end])
        )
        position = end + 4
    return parts
