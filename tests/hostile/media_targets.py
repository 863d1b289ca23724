"""What reads the media of strangers, and what players ask for: MP4, HLS, recordings that are cut on demand."""

from __future__ import annotations

from pathlib import Path

from rtmprelay.errors import BadRecordingError
from rtmprelay.flv.container import encode_tags, file_header
from rtmprelay.flv.cut_points import CutPoints, read_tags_at
from rtmprelay.hls.cmcd import read_cmcd
from rtmprelay.hls.cuts import Targets
from rtmprelay.hls.directives import BadDirectiveError, read_directives, read_session
from rtmprelay.hls.index_file import head_line, read_index, segment_line
from rtmprelay.hls.names import is_hls_name, read_media_name, read_playlist_name
from rtmprelay.hls.packager import Configuration, Packager
from rtmprelay.hls.recorded import read_segment_name, recorded_playlist
from rtmprelay.hls.signing import UriSigner, signature_in
from rtmprelay.hls.window import Segment
from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.mp4.codec_strings import codecs_parameter
from rtmprelay.mp4.fragments import FragmentEncoder, FragmentPlacer, TimeWentBackError
from rtmprelay.mp4.init_segment import init_segment
from rtmprelay.mp4.progressive import BadFragmentError, ProgressiveFile
from rtmprelay.mp4.tracks import TrackFinder, UnsupportedMediaError
from tests.hostile.costly import costly_recordings
from tests.hostile.target import Target
from tests.mp4.media import (
    AV1_CONFIGURATION,
    aac_header,
    avc_header,
    metadata,
    mp3,
    opus,
    opus_header,
    picture,
    sound,
)

_KINDS = (MediaKind.VIDEO, MediaKind.AUDIO, MediaKind.DATA)

#: Frames of a read at most: a mutated length makes thousands of empty ones.
_TOGETHER = 50

Frames = list[MediaFrame]


def _packed(frames: Frames) -> bytes:
    """Frames without anything around them that a mutator would break: kind, time since the last one, size, payload."""
    packed, last = b"", 0
    for frame in frames:
        step = (frame.timestamp_ms - last) % 65536
        packed += bytes([_KINDS.index(frame.kind)]) + step.to_bytes(2) + len(frame.payload).to_bytes(2)
        packed += frame.payload
        last = frame.timestamp_ms
    return packed


def _unpacked(data: bytes) -> Frames:
    frames: Frames = []
    at = time = 0
    while at + 5 <= len(data):
        time = (time + int.from_bytes(data[at + 1 : at + 3], signed=True)) % 2**32
        size = int.from_bytes(data[at + 3 : at + 5])
        frames.append(MediaFrame(_KINDS[data[at] % 3], time, data[at + 5 : at + 5 + size]))
        at += 5 + size
    return frames


def _streams() -> list[bytes]:
    avc = [picture(time, bytes(30), key=time % 400 == 0) for time in range(0, 2000, 40)]
    sounds = [sound(time, bytes(10)) for time in range(0, 2000, 23)]
    av1 = MediaFrame(MediaKind.VIDEO, 0, b"\x90av01" + AV1_CONFIGURATION)
    av1_pictures = [
        MediaFrame(MediaKind.VIDEO, time, (b"\x91av01" if time % 400 == 0 else b"\xa1av01") + bytes(20))
        for time in range(0, 1000, 40)
    ]
    hevc = MediaFrame(MediaKind.VIDEO, 0, b"\x90hvc1\x01" + bytes(22) + b"\x00")
    whole = sorted([*avc, *sounds], key=lambda frame: frame.timestamp_ms)
    several = MediaFrame(MediaKind.VIDEO, 40, b"\x96\x01avc1\x00\x00\x00\x04\x17\x01\x00\x00")
    return [
        _packed([metadata(width=320.0, height=240.0, videocodecid=7.0), avc_header(), aac_header(), *whole]),
        _packed([av1, opus_header(), *av1_pictures, *(opus(time) for time in range(0, 1000, 20))]),
        _packed([mp3(time) for time in range(0, 1000, 26)]),
        _packed([hevc, several, avc_header(), picture(80, key=True, composition_ms=-40), aac_header()]),
    ]


def _read_hls(data: bytes, folder: Path) -> None:
    packager = Packager(Targets(0.333, 2.0))
    frames = _unpacked(data)
    for number in range(0, len(frames), _TOGETHER):
        for one in packager.take(frames[number : number + _TOGETHER], 1.7e9 + number):
            if isinstance(one, Configuration):
                codecs_parameter(track for track in (one.video, one.audio) if track is not None)
    packager.finish()


def _read_mp4(data: bytes, folder: Path) -> None:
    finder = TrackFinder()
    frames = _unpacked(data)
    for frame in frames:
        finder.note(frame)
    encoder = FragmentEncoder(finder.video, finder.audio)
    found = [track for track in (finder.video, finder.audio) if track is not None]
    if not found:
        return
    init_segment(found)
    codecs_parameter(found)
    placer, plain = FragmentPlacer(encoder, finder.begin_ms), ProgressiveFile(found)
    for number in range(0, len(frames), _TOGETHER):
        fragment = encoder.encode(frames[number : number + _TOGETHER])
        if fragment:
            plain.add(b"".join(placer.place(fragment)))
    if plain.samples:
        plain.header()


def _fragments() -> list[bytes]:
    finder = TrackFinder()
    for frame in _unpacked(_streams()[0]):
        finder.note(frame)
    encoder = FragmentEncoder(finder.video, finder.audio)
    placer = FragmentPlacer(encoder, 0)
    frames = _unpacked(_streams()[0])
    return [
        b"".join(placer.place(encoder.encode(frames[begin : begin + 30])))
        for begin in range(3, len(frames) - 30, 30)
    ]


def _read_fragments(data: bytes, folder: Path) -> None:
    finder = TrackFinder()
    for frame in (avc_header(), aac_header(), picture(0, key=True), sound(0)):
        finder.note(frame)
    assert finder.video is not None
    assert finder.audio is not None
    plain = ProgressiveFile([finder.video, finder.audio])
    plain.add(data)
    plain.header()


def _cut(data: bytes, folder: Path) -> None:
    """What is done with a recording that is watched while it grows."""

    def read(offset: int, size: int) -> bytes:
        return data[offset : offset + max(0, size)]

    points = CutPoints(read)
    points.use_index(read, len(data) // 2)
    while not points.look(read, len(data), 1000):
        pass
    parts = list(points.parts())
    recorded_playlist(parts, growing=True)
    for part in parts[:20]:
        read_tags_at(read, part.begin, 4096, part.end)


def _recordings() -> list[bytes]:
    return [file_header() + encode_tags(_unpacked(one)) for one in _streams()]


def _pairs(data: bytes) -> dict[str, str]:
    parts = (part.partition("=") for part in data.decode("utf-8", "replace").split("&"))
    return {name: value for name, _, value in parts}


_SIGNER = UriSigner(None, 30.0)


def _ask(data: bytes, folder: Path) -> None:
    """What a player asks for."""
    name, _, query = data.partition(b"?")
    text = name.decode("utf-8", "replace")
    is_hls_name(text)
    read_media_name(text)
    read_playlist_name(text)
    read_segment_name(text)
    assert not _SIGNER.permits("live/film", signature_in(query), 1.7e9)
    read_cmcd([query.decode("utf-8", "replace")])
    read_directives(_pairs(query))
    read_session(_pairs(query))


def _requests() -> list[bytes]:
    return [
        b"video0.m3u8?_HLS_msn=7&_HLS_part=2&_HLS_skip=YES&session=abcdefgh1234&sig=1700000000.aaaaaaaaaaaaaaaaaaaaaa",
        b's-abc123-0-17.m4s?sig=1&CMCD=bs,mtp=25400,su,sid="6e2fb550-c457"',
        b"13-900.m4s?x=y",
    ]


def _indexes() -> list[bytes]:
    targets = Targets(0.333, 2.0, 0.36, 2)
    segments = [
        Segment(number, number, 1.7e9 + number * 2, 0, False, duration=2.0, size=9, data=None)
        for number in range(4)
    ]
    return [head_line("abc", targets, 0) + b"".join(map(segment_line, segments))]


def _read_index(data: bytes, folder: Path) -> None:
    read_index(data.splitlines(), Targets(0.333, 2.0), dict.fromkeys(range(20), 9), [0], 1.7e9)


def _costly_streams() -> list[bytes]:
    """Frames without a payload, times that jump, and a decoder configuration before each picture."""
    empty = b"\x00\x00\x01\x00\x00"
    begin = _packed([avc_header(), aac_header(), picture(0, key=True)])
    jumps = b"\x00\x7f\xff\x00\x06\x27\x01\x00\x00\x00v"
    headers = begin + _packed([avc_header()])
    return [
        begin + empty * 30_000,
        begin + jumps * 14_000,
        headers * 1_500,
        b"\x02\x00\x00\x00\x00" * 30_000,
        begin + _packed([sound(0)]) * 15_000,
        begin + b"\x00\xff\xff\x00\x06\x27\x01\x7f\xff\xffv" * 14_000,
    ]


MEDIA_TARGETS = {
    "hls": Target(_read_hls, _streams, _costly_streams),
    "mp4": Target(_read_mp4, _streams, _costly_streams, (UnsupportedMediaError, TimeWentBackError)),
    "fragments": Target(
        _read_fragments,
        _fragments,
        lambda: [_fragments()[0] * 60],
        (BadFragmentError,),
    ),
    "cutting": Target(_cut, _recordings, costly_recordings, (BadRecordingError,)),
    "player": Target(
        _ask,
        _requests,
        lambda: [b"x?" + b"a," * 70_000, b"x?" + b"&=" * 70_000, b"p-" + b"9" * 100_000],
        (BadDirectiveError,),
    ),
    "window": Target(_read_index, _indexes, lambda: [_indexes()[0] * 200, b"[" * 100_000, b"{}\n" * 50_000]),
}
