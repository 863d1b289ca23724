"""Fragments as a plain MP4: another reader finds every sample, at the same time as before."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence

import av
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtmprelay.media import MediaFrame
from rtmprelay.mp4.fragments import FragmentEncoder, FragmentPlacer
from rtmprelay.mp4.progressive import BadFragmentError, ProgressiveFile
from rtmprelay.mp4.tracks import TrackFinder
from tests.mp4.box_reader import boxes
from tests.mp4.encoded import AUDIO_ENCODERS, VIDEO_ENCODERS, audio_clip, decoded_count, demuxed, video_clip


def segments_of(
    frames: Sequence[MediaFrame], begin_ms: int = 0, together: int = 7
) -> tuple[FragmentEncoder, list[bytes]]:
    finder = TrackFinder()
    for frame in frames:
        finder.note(frame)
    encoder = FragmentEncoder(finder.video, finder.audio)
    placer = FragmentPlacer(encoder, begin_ms)
    batches = [frames[at : at + together] for at in range(0, len(frames), together)]
    return encoder, [b"".join(placer.place(made)) for batch in batches if (made := encoder.encode(batch))]


def plain_mp4(encoder: FragmentEncoder, segments: Sequence[bytes]) -> bytes:
    progressive = ProgressiveFile([track for track in (encoder.video, encoder.audio) if track is not None])
    ranges = [(segment, progressive.add(segment)) for segment in segments]
    media = b"".join(segment[begin:end] for segment, found in ranges for begin, end in found)
    assert progressive.media_size == len(media)
    return progressive.header() + media


def moved(frames: Sequence[MediaFrame], by_ms: int) -> list[MediaFrame]:
    return [MediaFrame(one.kind, one.timestamp_ms + by_ms, one.payload) for one in frames]


@pytest.mark.parametrize("name", VIDEO_ENCODERS)
def test_pictures_are_as_they_were_encoded(name: str) -> None:
    """The file begins with its first picture, whatever the time of the stream was."""
    clip = video_clip(name)
    file = plain_mp4(*segments_of(moved(list(clip.frames()), 90_000)))
    packets = demuxed(file, 1000)[0]
    first = min(packet.shown for packet in clip.packets)
    assert [(one.shown, one.keyframe, one.data) for one in packets] == [
        (one.shown - first, one.keyframe, one.data) for one in clip.packets
    ]
    assert decoded_count(file) == len(clip.packets)


@pytest.mark.parametrize("name", AUDIO_ENCODERS)
def test_sound_is_as_it_was_encoded(name: str) -> None:
    clip = audio_clip(name)
    file = plain_mp4(*segments_of(moved(list(clip.frames()), 90_000)))
    packets, _, timescale = demuxed(file)
    assert timescale == clip.timescale
    assert [(one.decoded, one.data) for one in packets] == [(one.decoded, one.data) for one in clip.packets]


def both(sound_later_ms: int) -> bytes:
    video = list(video_clip("H.264 with B-frames").frames())
    audio = moved(list(audio_clip("AAC").frames()), sound_later_ms)
    frames = sorted([*video, *audio], key=lambda frame: frame.timestamp_ms)
    return plain_mp4(*segments_of(moved(frames, 5000)))


def shown_first(file: bytes, kind: str) -> float:
    """When the first frame of a kind is shown, in seconds; what the file says is skipped does not count."""
    with av.open(io.BytesIO(file), "r") as container:
        frame = next(iter(container.decode(getattr(container.streams, kind)[0])))
    return float(frame.time)


@pytest.mark.parametrize("later_ms", [0, 120, 400])
def test_sound_keeps_its_place_beside_the_pictures(later_ms: int) -> None:
    reordering = min(packet.shown for packet in video_clip("H.264 with B-frames").packets)
    assert reordering > 0
    file = both(later_ms)
    assert shown_first(file, "video") == 0
    heard = shown_first(file, "audio")
    # Sound from before the first picture is cut off at a whole packet.
    expected = max(later_ms - reordering, 0) / 1000
    assert heard == pytest.approx(expected, abs=0.03)


def test_index_is_in_front_of_the_media() -> None:
    """So that a player begins while it downloads."""
    assert [box.kind for box in boxes(both(0))] == ["ftyp", "moov", "mdat"]


def test_duration_in_the_header_is_that_of_the_media() -> None:
    with av.open(io.BytesIO(both(0)), "r") as container:
        assert container.duration is not None
        assert container.duration / 1e6 == pytest.approx(1, abs=0.15)


def test_large_files_have_long_offsets() -> None:
    """Nobody makes five gigabytes for a test: only the header is looked at."""
    encoder, segments = segments_of(list(video_clip("H.264").frames()))
    assert encoder.video is not None
    progressive = ProgressiveFile([encoder.video])
    progressive.add(segments[0])
    progressive.media_size = 5 * 2**30
    progressive.add(segments[1])
    header = progressive.header()
    assert header[-16:-8] == b"\0\0\0\1mdat"
    assert int.from_bytes(header[-8:]) == progressive.media_size + 16
    at = header.index(b"co64")
    count, first, second = (
        int.from_bytes(header[at + 8 : at + 12]),
        header[at + 12 : at + 20],
        header[at + 20 : at + 28],
    )
    assert (count, int.from_bytes(first), int.from_bytes(second)) == (2, len(header), len(header) + 5 * 2**30)


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: data[8:], lambda data: b"x" * 40])
def test_bytes_that_are_no_fragment_are_refused(change) -> None:  # type: ignore[no-untyped-def]
    encoder, segments = segments_of(list(video_clip("H.264").frames()))
    assert encoder.video is not None
    with pytest.raises(BadFragmentError):
        ProgressiveFile([encoder.video]).add(change(segments[0]))


@given(st.integers(1, 30), st.integers(0, 2**31))
def test_any_fragments_give_the_same_file(together: int, begin: int) -> None:
    frames = sorted(
        [*video_clip("H.264 with B-frames").frames(), *audio_clip("AAC").frames()],
        key=lambda one: one.timestamp_ms,
    )
    encoder, segments = segments_of(moved(frames, begin), begin, together)
    file = plain_mp4(encoder, segments)
    assert [one.data for one in demuxed(file, None, "video")[0]] == [
        one.data for one in video_clip("H.264 with B-frames").packets
    ]


@pytest.mark.parametrize("name", VIDEO_ENCODERS)
def test_encoder_leaves_the_priority_of_the_tests_alone(name: str) -> None:
    video_clip.__wrapped__(name)
    assert os.sched_getscheduler(0) == os.SCHED_OTHER
