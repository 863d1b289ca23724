"""The beginning of an MP4: box by box as the standards have it."""

from __future__ import annotations

import struct

import pytest

from rtmprelay.flv import Codec
from rtmprelay.mp4.init_segment import init_segment
from rtmprelay.mp4.tracks import AnyTrack, AudioTrack, VideoTrack
from tests.mp4.box_reader import Box, boxes, entry_of
from tests.mp4.media import AAC_CONFIGURATION, AV1_CONFIGURATION, AVC_CONFIGURATION, OPUS_HEAD

AVC = VideoTrack(Codec.AVC, AVC_CONFIGURATION, 318, 238, 33)
AAC = AudioTrack(Codec.AAC, AAC_CONFIGURATION, 44100, 2, 1024)


def outline(found: list[Box] | tuple[Box, ...]) -> str:
    return " ".join(
        f"{box.kind}({outline(box.children)})" if box.children else box.kind.strip() for box in found
    )


def test_all_boxes_are_there_and_in_order() -> None:
    track = "trak(tkhd mdia(mdhd hdlr minf({0} dinf(dref) stbl(stsd stts stsc stsz stco))))"
    expected = f"ftyp moov(mvhd {track.format('vmhd')} {track.format('smhd')} mvex(trex trex))"
    assert outline(boxes(init_segment([AVC, AAC]))) == expected


@pytest.mark.parametrize(("tracks", "ids"), [([AVC], [1]), ([AAC], [2]), ([AVC, AAC], [1, 2])])
def test_each_track_has_its_number(tracks: list[AnyTrack], ids: list[int]) -> None:
    _, moov = boxes(init_segment(tracks))
    assert [struct.unpack_from(">I", box.content, 12)[0] for box in moov.all("tkhd")] == ids
    assert [struct.unpack_from(">I", box.content, 4)[0] for box in moov.all("trex")] == ids
    (following,) = struct.unpack(">I", moov.one("mvhd").content[-4:])
    assert following > max(ids)


def test_file_type_is_iso6() -> None:
    """Signed composition times and decode times belong to iso6."""
    ftyp, _ = boxes(init_segment([AVC]))
    assert ftyp.content == b"iso6" + bytes(4) + b"iso6isommp41"


def test_init_segment_has_no_duration_and_no_samples() -> None:
    """No duration anywhere, and no samples before the first fragment."""
    _, moov = boxes(init_segment([AVC, AAC]))
    assert struct.unpack_from(">II", moov.one("mvhd").content, 12) == (1000, 0)
    for box, timescale in zip(moov.all("mdhd"), (1000, 44100), strict=True):
        assert struct.unpack_from(">IIH", box.content, 12) == (timescale, 0, 0x55C4)
    for box in moov.all("tkhd"):
        assert struct.unpack_from(">I", box.content, 20) == (0,)
    for kind in ("stts", "stsc", "stco"):
        assert all(box.content == bytes(8) for box in moov.all(kind))
    assert all(box.content == bytes(12) for box in moov.all("stsz"))


def test_tracks_are_enabled_and_of_their_size() -> None:
    _, moov = boxes(init_segment([AVC, AAC]))
    video, audio = moov.all("tkhd")
    assert video.content[:4] == audio.content[:4] == bytes([0, 0, 0, 3])
    assert struct.unpack(">II", video.content[-8:]) == (318 << 16, 238 << 16)
    assert struct.unpack(">II", audio.content[-8:]) == (0, 0)
    assert struct.unpack_from(">H", video.content, 36) == (0,)
    assert struct.unpack_from(">H", audio.content, 36) == (0x100,)
    assert [box.content[8:12] for box in moov.all("hdlr")] == [b"vide", b"soun"]
    assert all(len(box.content) == 84 - 4 + 4 for box in moov.all("tkhd"))


VIDEO = [
    (AVC, "avc1", "avcC"),
    (VideoTrack(Codec.HEVC, bytes(23), 3840, 2160, 20), "hvc1", "hvcC"),
    (VideoTrack(Codec.AV1, AV1_CONFIGURATION, 320, 240, 40), "av01", "av1C"),
]


@pytest.mark.parametrize(("track", "entry_kind", "configuration_kind"), VIDEO)
def test_video_entry_has_the_publishers_configuration(
    track: VideoTrack, entry_kind: str, configuration_kind: str
) -> None:
    """The configuration is that of the publisher, byte for byte."""
    _, moov = boxes(init_segment([track]))
    kind, fixed, (configuration,) = entry_of(moov.one("stsd"))
    assert (kind, configuration.kind, configuration.content) == (
        entry_kind,
        configuration_kind,
        track.configuration,
    )
    assert struct.unpack_from(">HHII", fixed, 24) == (track.width, track.height, 0x480000, 0x480000)
    assert struct.unpack_from(">H", fixed, 6) == struct.unpack_from(">H", fixed, 40) == (1,)
    assert fixed[-4:] == b"\0\x18\xff\xff"


def descriptors(data: bytes) -> list[tuple[int, bytes]]:
    found = []
    while data:
        tag, size, at = data[0], 0, 1
        while True:
            size = size << 7 | data[at] & 0x7F
            at += 1
            if not data[at - 1] & 0x80:
                break
        found.append((tag, data[at : at + size]))
        assert len(data) >= at + size
        data = data[at + size :]
    return found


AUDIO = [
    (AAC, 0x40, AAC_CONFIGURATION, 44100),
    (AudioTrack(Codec.AAC, bytes(300), 96000, 6, 1024), 0x40, bytes(300), 0),
    (AudioTrack(Codec.MP3, b"", 44100, 2, 1152), 0x6B, None, 44100),
    (AudioTrack(Codec.MP3, b"", 22050, 1, 576), 0x69, None, 22050),
]


@pytest.mark.parametrize(("track", "object_type", "specific", "rate"), AUDIO)
def test_audio_entry_has_its_object_type_and_rate(
    track: AudioTrack, object_type: int, specific: bytes | None, rate: int
) -> None:
    """AAC carries its AudioSpecificConfig, MP3 needs none."""
    _, moov = boxes(init_segment([track]))
    kind, fixed, (esds,) = entry_of(moov.one("stsd"))
    assert (kind, esds.kind, esds.content[:4]) == ("mp4a", "esds", bytes(4))
    assert struct.unpack_from(">HHxxxxI", fixed, 16) == (track.channels, 16, rate << 16)
    ((tag, elementary),) = descriptors(esds.content[4:])
    assert tag == 3
    assert elementary[:3] == b"\0\x02\0"
    (decoder_tag, decoder), (sync_tag, sync) = descriptors(elementary[3:])
    assert (decoder_tag, sync_tag, sync) == (4, 6, b"\x02")
    assert decoder[:2] == bytes([object_type, 0x15])
    assert descriptors(decoder[13:]) == ([] if specific is None else [(5, specific)])


OPUS_HEADS = [
    (OPUS_HEAD, "00 02 0138 0000bb80 0000 00"),
    (
        b"OpusHead\x01\x06\x38\x01\x44\xac\x00\x00\xfe\xff\x01\x04\x02\x00\x04\x01\x02\x03\x05",
        "00 06 0138 0000ac44 fffe 01 04 02 000401020305",
    ),
]


@pytest.mark.parametrize(("head", "specific"), OPUS_HEADS)
def test_opus_entry_has_the_numbers_of_the_head_the_other_way_round(head: bytes, specific: str) -> None:
    """OpusHead has its numbers the other way round, and what follows its table is left out."""
    track = AudioTrack(Codec.OPUS, head + b"after" if head[18] else head, 48000, head[9], None)
    _, moov = boxes(init_segment([track]))
    kind, fixed, (configuration,) = entry_of(moov.one("stsd"))
    assert (kind, configuration.kind) == ("Opus", "dOps")
    assert configuration.content == bytes.fromhex(specific)
    assert struct.unpack_from(">HHxxxxI", fixed, 16) == (head[9], 16, 48000 << 16)


def test_sound_is_always_a_place_to_start() -> None:
    _, moov = boxes(init_segment([AVC, AAC]))
    for box in moov.all("trex"):
        assert struct.unpack_from(">IIII", box.content, 8) == (1, 0, 0, 0x02000000)
