"""Media made by real encoders, as the frames that a publisher sends: FFmpeg's muxer for MP4 says what belongs to each codec."""

from __future__ import annotations

import io
import math
import os
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import cache
from typing import Any

import attrs
import av

from rtmprelay.flv import Codec
from rtmprelay.media import MediaFrame, MediaKind

#: Pictures of a clip; two groups.
PICTURES = 24
RATE = 25
WIDTH, HEIGHT = 192, 112

#: Seconds of sound.
SOUND_SECONDS = 1

#: FFmpeg's encoder of each codec with its options.
VIDEO_ENCODERS = {
    "H.264": (Codec.AVC, "libx264", {"preset": "ultrafast", "x264-params": "keyint=12:bframes=0:scenecut=0"}),
    "H.264 with B-frames": (
        Codec.AVC,
        "libx264",
        {"preset": "fast", "x264-params": "keyint=12:bframes=3:scenecut=0"},
    ),
    "HEVC": (
        Codec.HEVC,
        "libx265",
        {"preset": "ultrafast", "x265-params": "keyint=12:bframes=2:log-level=none"},
    ),
    "AV1": (Codec.AV1, "libsvtav1", {"preset": "12", "svtav1-params": "keyint=12:pred-struct=1"}),
    "VP9": (
        Codec.VP9,
        "libvpx-vp9",
        {"deadline": "realtime", "cpu-used": "8", "g": "12", "lag-in-frames": "0"},
    ),
}
AUDIO_ENCODERS = {
    "AAC": (Codec.AAC, "aac", 44100, "stereo"),
    "Opus": (Codec.OPUS, "libopus", 48000, "stereo"),
    "MP3": (Codec.MP3, "libmp3lame", 44100, "stereo"),
    "MP3 at a low rate": (Codec.MP3, "libmp3lame", 22050, "mono"),
    "AC-3": (Codec.AC3, "ac3", 48000, "5.1"),
    "E-AC-3": (Codec.EAC3, "eac3", 44100, "stereo"),
    "FLAC": (Codec.FLAC, "flac", 44100, "stereo"),
}

_FOURCC = {
    Codec.AVC: b"avc1",
    Codec.HEVC: b"hvc1",
    Codec.AV1: b"av01",
    Codec.VP9: b"vp09",
    Codec.AAC: b"mp4a",
    Codec.OPUS: b"Opus",
    Codec.MP3: b".mp3",
    Codec.AC3: b"ac-3",
    Codec.EAC3: b"ec-3",
    Codec.FLAC: b"fLaC",
}


@attrs.frozen
class Packet:
    """One packet of an encoder; times in milliseconds for pictures, in samples for sound."""

    decoded: int
    shown: int
    keyframe: bool
    data: bytes


@attrs.frozen
class Clip:
    """One track, as an encoder and FFmpeg's MP4 have it."""

    codec: Codec
    configuration: bytes
    packets: list[Packet]
    #: Ticks a second.
    timescale: int
    file: bytes

    def frames(self) -> Iterator[MediaFrame]:
        """What a publisher sends, in the form of Enhanced RTMP."""
        is_video = self.codec in (Codec.AVC, Codec.HEVC, Codec.AV1, Codec.VP9)
        fourcc = _FOURCC[self.codec]
        kind = MediaKind.VIDEO if is_video else MediaKind.AUDIO
        if self.configuration:
            yield MediaFrame(kind, 0, (b"\x90") + fourcc + self.configuration)
        for packet in self.packets:
            if is_video:
                header = bytes([0x91 if packet.keyframe else 0xA1]) + fourcc
                if self.codec in (Codec.AVC, Codec.HEVC):
                    header += (packet.shown - packet.decoded).to_bytes(3, signed=True)
                yield MediaFrame(kind, packet.decoded, header + packet.data)
            else:
                yield MediaFrame(
                    kind, packet.decoded * 1000 // self.timescale, b"\x91" + fourcc + packet.data
                )


@contextmanager
def same_priority() -> Iterator[None]:
    """SVT-AV1 gives the thread of root that calls it real-time priority, and so to all programs that it starts later."""
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        yield
    finally:
        os.sched_setscheduler(0, policy, parameters)


@cache
def video_clip(name: str) -> Clip:
    """Pictures that move, encoded."""
    codec, encoder, options = VIDEO_ENCODERS[name]
    file = io.BytesIO()
    with same_priority(), av.open(file, "w", format="mp4") as container:
        stream: Any = container.add_stream(encoder, rate=RATE, options=options)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        for number in range(PICTURES):
            container.mux(stream.encode(_picture(number)))
        container.mux(stream.encode(None))
    packets, extradata, _ = demuxed(file.getvalue(), 1000)
    configuration = _vp9_record(file.getvalue()) if codec is Codec.VP9 else extradata
    begin = packets[0].decoded
    packets = [
        attrs.evolve(packet, decoded=packet.decoded - begin, shown=packet.shown - begin) for packet in packets
    ]
    return Clip(codec, configuration, packets, 1000, file.getvalue())


def _picture(number: int) -> Any:
    """A grey slope that a bright bar moves across."""
    frame = av.VideoFrame(WIDTH, HEIGHT, "yuv420p")
    for index, plane in enumerate(frame.planes):
        row = bytes(range(plane.line_size)) if index == 0 else b"\x80" * plane.line_size
        rows = [row] * plane.height
        if index == 0:
            rows[number * 4 : number * 4 + 8] = [b"\xe0" * plane.line_size] * 8
        plane.update(b"".join(rows).ljust(plane.buffer_size, b"\0"))
    frame.pts, frame.time_base = number, Fraction(1, RATE)
    return frame


def _tone(rate: int) -> Any:
    samples = rate * SOUND_SECONDS
    frame = av.AudioFrame("flt", "mono", samples)
    data = array("f", (math.sin(number * 2764.6 / rate) for number in range(samples))).tobytes()
    frame.planes[0].update(data.ljust(frame.planes[0].buffer_size, b"\0"))
    frame.sample_rate, frame.pts, frame.time_base = rate, 0, Fraction(1, rate)
    return frame


def _vp9_record(file: bytes) -> bytes:
    """What is in the box that FFmpeg wrote, after its version."""
    at = file.index(b"vpcC") + 8
    return file[at : at + 8]


@cache
def audio_clip(name: str) -> Clip:
    """A tone, encoded."""
    codec, encoder, rate, layout = AUDIO_ENCODERS[name]
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as container:
        stream: Any = container.add_stream(encoder, rate=rate, layout=layout)
        wanted = stream.codec_context.format.name
        resampler = av.AudioResampler(wanted, layout, rate, frame_size=_frame_size(stream))
        for source in (_tone(rate), None):
            for piece in resampler.resample(source):
                container.mux(stream.encode(piece))
        container.mux(stream.encode(None))
    packets, extradata, timescale = demuxed(file.getvalue())
    begin = packets[0].decoded
    packets = [
        attrs.evolve(packet, decoded=packet.decoded - begin, shown=packet.shown - begin) for packet in packets
    ]
    has_header = codec in (Codec.AAC, Codec.OPUS, Codec.FLAC)
    return Clip(codec, extradata if has_header else b"", packets, timescale, file.getvalue())


def _frame_size(stream: Any) -> int | None:
    stream.codec_context.open()
    return stream.codec_context.frame_size or None


def demuxed(
    file: bytes, ticks: int | None = None, kind: str | None = None
) -> tuple[list[Packet], bytes, int]:
    """The packets of a file with one track (or of its first one of a kind), its extradata, and its ticks a second."""
    with av.open(io.BytesIO(file), "r") as container:
        stream: Any = container.streams[0] if kind is None else getattr(container.streams, kind)[0]
        timescale = ticks or int(1 / stream.time_base)
        scale = stream.time_base * timescale
        packets = [
            Packet(round(packet.dts * scale), round(packet.pts * scale), packet.is_keyframe, bytes(packet))
            for packet in container.demux(stream)
            if packet.size
        ]
        return packets, bytes(stream.codec_context.extradata or b""), timescale


def decoded_count(file: bytes) -> int:
    """How many pictures, or samples of sound, a decoder makes of a file with one track."""
    with av.open(io.BytesIO(file), "r") as container:
        frames = list(container.decode(container.streams[0]))
    return sum(getattr(frame, "samples", 1) for frame in frames)
