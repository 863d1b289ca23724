"""The classes of many tags at once are what `rtmprelay.flv.tags` says of each."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtmprelay.flv import UnknownCodec
from rtmprelay.flv.tags import UNKNOWN, TagInfo, composition_time_ms, describe_audio, describe_video
from rtmprelay.media import MediaFrame, MediaKind
from tests.spark.media import frames_file

pytest.importorskip("numpy", reason="Spark is not installed: pip install '.[spark]'")

from spark_analytics.flv.classify import OTHER_CODEC, Classifier, composition_times
from spark_analytics.flv.scan import DamagedPart, RangeScanner
from tests.spark.test_scanning import source_of

_FOURCC = st.sampled_from([b"avc1", b"hvc1", b"av01", b"vp09", b"Opus", b"mp4a", b"abcd", b"\xff\0\0\0"])
_PAYLOAD = st.one_of(
    st.binary(max_size=12),
    st.builds(lambda first, rest: bytes([first]) + rest, st.integers(0, 255), st.binary(max_size=12)),
    st.builds(
        lambda first, fourcc, rest: bytes([first]) + fourcc + rest,
        st.integers(0x80, 0xFF),
        _FOURCC,
        st.binary(max_size=12),
    ),
    st.builds(
        lambda first, second, fourcc, rest: bytes([first, second]) + fourcc + rest,
        st.sampled_from([0x96, 0xA6, 0x95, 0x97, 0xA7]),
        st.integers(0, 255),
        _FOURCC,
        st.binary(max_size=12),
    ),
)


def expected(frame: MediaFrame) -> tuple[MediaKind, TagInfo, bool, bool, bool]:
    if frame.kind is MediaKind.DATA:
        return frame.kind, UNKNOWN, False, False, False
    info = (describe_video if frame.kind is MediaKind.VIDEO else describe_audio)(frame.payload)
    codec = OTHER_CODEC if isinstance(info.codec, UnknownCodec) else info.codec
    side_track = bool(info.tracks) and 0 not in info.tracks
    info = attrs.evolve(info, tracks=(), codec=codec, coded=info.coded and bool(frame.payload))
    return frame.kind, info, info.coded, info.keyframe, side_track


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.builds(MediaFrame, st.sampled_from(MediaKind), st.just(0), _PAYLOAD), min_size=1, max_size=30)
)
def test_each_tag_is_what_the_server_says_it_is(frames: list[MediaFrame]) -> None:
    data = frames_file(frames)
    source = source_of(data)
    (tags,) = RangeScanner(source, 13, len(data))
    assert not isinstance(tags, DamagedPart)
    classifier = Classifier()
    codes = classifier.classify(source, tags)
    table = classifier.table
    found = [
        (
            table.classes[code].kind,
            table.classes[code].info,
            bool(coded),
            bool(key),
            table.classes[code].side_track,
        )
        for code, coded, key in zip(codes, table.coded(codes), table.keyframe(codes), strict=True)
    ]
    assert found == [expected(frame) for frame in frames]
    times = composition_times(source, tags, codes, table).tolist()
    assert times == [
        composition_time_ms(frame.payload) if frame.kind is MediaKind.VIDEO and expected(frame)[2] else 0
        for frame in frames
    ]
