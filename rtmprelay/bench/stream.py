"""The stream that everything is measured with, and the stamps in its frames.

30 pictures a second with a keyframe every two seconds, 43 audio frames a second, 2.5 Mbit/s together. Each frame carries
its time of sending and its number. The payload is random: servers pass it on and nobody decodes it.
"""

from __future__ import annotations

import random
import struct

import attrs

from rtmprelay.amf import amf0
from rtmprelay.amf.amf0 import AmfValue
from rtmprelay.media import MediaFrame, MediaKind

FRAME_RATE = 30
PICTURES_PER_GROUP = 60
AUDIO_SAMPLES = 1024
AUDIO_RATE = 44100
BITS_PER_SECOND = 2_500_000

PICTURE_INTERVAL_NS = 10**9 // FRAME_RATE
AUDIO_INTERVAL_NS = 10**9 * AUDIO_SAMPLES // AUDIO_RATE

KEYFRAME_SIZE = 59_000
AUDIO_SIZE = 372

#: A stamp follows one of these markers. Only frames of the measured time have the first, so that receivers need not
#: know when that time begins and ends.
MEASURED = b"rtmprelay bench+"
UNMEASURED = b"rtmprelay bench-"

_STAMP = struct.Struct(">QIH")
STAMP_SIZE = _STAMP.size
MARKED_SIZE = len(MEASURED) + STAMP_SIZE

#: The index of audio in the tables below; a picture's index is its place in the group.
AUDIO_PLACE = PICTURES_PER_GROUP

_VIDEO_STREAM, _AUDIO_STREAM = 6, 4


@attrs.frozen
class Stamp:
    """When a frame was sent, its number since the beginning, and its place in the group of pictures."""

    sent_ns: int
    number: int
    place: int


def read_stamp(data: bytes | bytearray, start: int) -> Stamp:
    return Stamp(*_STAMP.unpack_from(data, start))


def _sizes() -> list[int]:
    """The size of each picture of a group, and of an audio frame."""
    audio = AUDIO_SIZE * AUDIO_RATE / AUDIO_SAMPLES
    group = (BITS_PER_SECOND / 8 - audio) * PICTURES_PER_GROUP / FRAME_RATE
    mean = (group - KEYFRAME_SIZE) / (PICTURES_PER_GROUP - 1)
    # Pictures differ in size; the mean of this cycle is one.
    cycle = (0.75, 1.2, 0.85, 1.3, 0.95, 0.95)
    pictures = [round(mean * cycle[place % len(cycle)]) for place in range(1, PICTURES_PER_GROUP)]
    return [KEYFRAME_SIZE, *pictures, AUDIO_SIZE]


SIZES = tuple(_sizes())


def _unit(body: bytes) -> bytes:
    """A NAL unit as FLV stores it, after its length."""
    return len(body).to_bytes(4) + body


def _payload(place: int) -> bytes:
    """A frame with an empty stamp."""
    size = SIZES[place]
    marked = UNMEASURED + bytes(STAMP_SIZE)
    # Bytes that no marker contains, so that the search for markers is quick.
    noise = random.Random(place)
    filling = bytes(noise.choices(range(0x80, 0x100), k=size))
    if place == AUDIO_PLACE:
        return (b"\xaf\x01" + marked + filling)[:size]
    keyframe = place == 0
    tag = b"\x17\x01\0\0\0" if keyframe else b"\x27\x01\0\0\0"
    # The stamp is user data (SEI); the picture follows.
    notes = _unit(b"\x06\x05" + bytes([len(marked)]) + marked + b"\x80")
    slice_type = b"\x65" if keyframe else b"\x41"
    rest = size - len(tag) - len(notes) - 5
    return tag + notes + _unit(slice_type + filling[:rest])


PAYLOADS = tuple(_payload(place) for place in range(len(SIZES)))


def marker_start(place: int) -> int:
    return PAYLOADS[place].index(UNMEASURED)


_MARKER_STARTS = tuple(marker_start(place) for place in range(len(SIZES)))


def is_intact(payload: bytes, start: int, stamp: Stamp) -> bool:
    """Whether a received frame, whose stamp begins at `start`, is what was sent."""
    if stamp.place >= len(PAYLOADS):
        return False
    expected = PAYLOADS[stamp.place]
    marker = start - len(MEASURED)
    after = start + STAMP_SIZE
    return (
        len(payload) == len(expected)
        and payload[:marker] == expected[:marker]
        and payload[after:] == expected[after:]
    )


class OutgoingFrame:
    """One frame of the group, encoded into chunks ahead of time. `fill` writes what differs each time it is sent."""

    def __init__(self, place: int, chunk_size: int) -> None:
        payload = PAYLOADS[place]
        video = place != AUDIO_PLACE
        kind = MediaKind.VIDEO if video else MediaKind.AUDIO
        chunk_stream = _VIDEO_STREAM if video else _AUDIO_STREAM
        # A type 1 header with a timestamp delta, as encoders send it.
        header = bytes([0x40 | chunk_stream]) + bytes(3) + len(payload).to_bytes(3) + bytes([kind])
        pieces = [payload[start : start + chunk_size] for start in range(0, len(payload), chunk_size)]
        self.data = bytearray(header + bytes([0xC0 | chunk_stream]).join(pieces))
        self._place = place
        self._marker = len(header) + _MARKER_STARTS[place]
        self._stamp = self._marker + len(MEASURED)

    def fill(self, later_ms: int, sent_ns: int, number: int, measured: bool) -> bytearray:
        """The bytes to send, `later_ms` after the previous frame of this kind."""
        data = self.data
        data[1:4] = later_ms.to_bytes(3)
        data[self._marker : self._stamp] = MEASURED if measured else UNMEASURED
        _STAMP.pack_into(data, self._stamp, sent_ns, number, self._place)
        return data


def outgoing_frames(chunk_size: int) -> list[OutgoingFrame]:
    """The pictures of a group, and an audio frame at the end."""
    if chunk_size < max(_MARKER_STARTS) + MARKED_SIZE:
        raise ValueError(f"chunks of {chunk_size} bytes would cut the stamps")
    return [OutgoingFrame(place, chunk_size) for place in range(len(PAYLOADS))]


def chunk_stream_of(kind: MediaKind) -> int:
    return _AUDIO_STREAM if kind is MediaKind.AUDIO else _VIDEO_STREAM


def start_frames() -> list[MediaFrame]:
    """What an encoder sends first."""
    about: dict[str, AmfValue] = {
        "width": 1280.0,
        "height": 720.0,
        "videocodecid": 7.0,
        "videodatarate": BITS_PER_SECOND / 1000 - 128,
        "framerate": float(FRAME_RATE),
        "audiocodecid": 10.0,
        "audiodatarate": 128.0,
        "audiosamplerate": float(AUDIO_RATE),
        "stereo": True,
        "encoder": "rtmprelay bench",
    }
    # Main profile, 1280x720.
    sequence = bytes.fromhex("674d401feca02802dd8088000003000800000301e078c18cb0")
    picture = bytes.fromhex("68ef8fc8")
    record = b"\x01\x4d\x40\x1f\xff\xe1\x00\x19" + sequence + b"\x01\x00\x04" + picture
    return [
        MediaFrame(MediaKind.DATA, 0, amf0.encode("@setDataFrame", "onMetaData", about)),
        MediaFrame(MediaKind.VIDEO, 0, b"\x17\x00\0\0\0" + record),
        MediaFrame(MediaKind.AUDIO, 0, b"\xaf\x00\x12\x10"),
    ]
