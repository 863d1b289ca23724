"""What is known of a recording does not depend on where it was cut into parts."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtmprelay.media import MediaFrame, MediaKind
from tests.flv.media import AAC_HEADER, AVC_HEADER
from tests.spark.media import DAMAGES, frames_file, hostile_endless_chain, hostile_flv_inside, make_recording

np = pytest.importorskip("numpy", reason="Spark is not installed: pip install '.[spark]'")

from spark_analytics.flv import scan  # noqa: E402
from spark_analytics.flv.classify import Classifier  # noqa: E402
from spark_analytics.flv.scan import start_of_part  # noqa: E402
from spark_analytics.flv.sources import ByteSource, Window  # noqa: E402
from spark_analytics.flv.tags import Integers, TagArrays, gather  # noqa: E402
from spark_analytics.recordings import part_reader  # noqa: E402
from spark_analytics.recordings.beginning import Beginning, read_beginning  # noqa: E402
from spark_analytics.recordings.findings import (  # noqa: E402
    Findings,
    Track,
)
from spark_analytics.recordings.part import Part, finish, join  # noqa: E402
from spark_analytics.recordings.part_reader import PartReader  # noqa: E402
from spark_analytics.recordings.results import _skew  # noqa: E402
from spark_analytics.recordings.seconds import COLUMNS  # noqa: E402
from spark_analytics.recordings.sound import AudioSeconds, Sound, skew_by_seconds  # noqa: E402
from spark_analytics.recordings.steps import usual_step  # noqa: E402
from tests.spark.test_scanning import EXAMPLES, source_of  # noqa: E402


@attrs.frozen
class Known:
    """All that is found of a file, in a form that can be compared."""

    facts: dict[str, Any]
    seconds: dict[int, dict[str, int]]
    keyframes: list[tuple[int, ...]]
    incidents: Counter[tuple[object, ...]]


def plain(value: Any) -> Any:
    """Values that can be compared, of arrays and attrs alike."""
    if isinstance(value, Track) and value.last is not None:
        # Where it was last seen does not matter.
        return plain(value.first), value.last.codec, value.last.digest, value.last.text
    if isinstance(value, AudioSeconds):
        # How they are grouped does not matter.
        return value.joined().tolist()
    if attrs.has(type(value)):
        return {
            field.name: plain(getattr(value, field.name))
            for field in attrs.fields(type(value))
            # Where the counting of gaps begins does not matter.
            if field.name != "gaps"
        }
    return value.tolist() if isinstance(value, np.ndarray) else value


def read(source: ByteSource, cuts: list[int]) -> Known:
    """Read a file in parts and join them, as the index does."""
    classifier = Classifier()
    beginning = read_beginning(source, classifier)
    total, findings = Part(), Findings()
    seconds: Counter[tuple[int, str]] = Counter()
    largest: dict[tuple[int, str], int] = {}
    keyframes: list[tuple[int, ...]] = []
    incidents: Counter[tuple[object, ...]] = Counter()

    def take(found: Findings, time_before: int | None) -> None:
        sums = found.seconds.take()
        for name, column in zip(COLUMNS, sums.values, strict=True):
            for second, amount in zip(sums.seconds.tolist(), column.tolist(), strict=True):
                if name.startswith(("last", "max")):
                    largest[second, name] = max(largest.get((second, name), amount), amount)
                else:
                    seconds[second, name] += amount
        keyframes.extend(map(tuple, found.take_keyframes().tolist()))
        for one in found.take_incidents():
            time = one.time_ms if one.time_ms is not None else time_before
            incidents[attrs.astuple(attrs.evolve(one, time_ms=time))] += 1

    for lo, hi in pairwise([0, *sorted(cuts), source.size]):
        reader = PartReader(source, classifier, beginning, start_of_part(source, lo, hi), hi)
        for _ in reader:
            pass
        last = total.all.last
        take(reader.findings, int(last.times[0]) if len(last) else None)
        total = join(total, reader.part, beginning, findings)
    finish(total, findings)
    take(findings, None)
    rows: dict[int, dict[str, int]] = {}
    for (second, name), amount in [*seconds.items(), *largest.items()]:
        rows.setdefault(second, {})[name] = amount
    return Known(plain(total), rows, sorted(keyframes), incidents)


def check(data: bytes, cuts: int = 8, seed: int = 0) -> Known:
    source = source_of(data)
    rng = random.Random(seed)
    expected = read(source, [])
    for parts in (1, 2, cuts):
        places = [rng.randrange(1, max(2, len(data))) for _ in range(parts)]
        assert read(source, places) == expected
    return expected


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return make_recording(tmp_path_factory.mktemp("parts") / "whole.flv", "h264_b_frames", 8).read_bytes()


def test_a_recording(whole: bytes) -> None:
    known = check(whole, 40)
    counts = known.facts["counts"]
    assert (counts["video_frames"], counts["audio_frames"], counts["damages"]) == (200, len(range(346)), 0)
    assert sum(row["video_frames"] for row in known.seconds.values()) == 200
    assert [row[4] for row in known.keyframes] == [30] * 6 + [20]
    assert sum(row[5] for row in known.keyframes) == counts["video_bytes"]
    assert known.facts["picture"] == (320, 180)
    assert not known.incidents
    assert usual_step(np.array(known.facts["steps"])) == 40.0


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_recordings(whole: bytes, damage: str) -> None:
    known = check(DAMAGES[damage](whole))
    if damage == "stream id":
        assert not known.incidents, "nobody needs the stream id of a tag"
    else:
        assert (
            known.facts["counts"]["damages"]
            == sum(count for row, count in known.incidents.items() if "bytes lost" in str(row[-1]))
            > 0
        )


def test_hostile_files(whole: bytes) -> None:
    check(hostile_endless_chain(150), 12)
    check(hostile_flv_inside(whole[:20_000]), 12)


def video(time: int, *, key: bool = False, codec: int = 7, size: int = 9) -> MediaFrame:
    return MediaFrame(
        MediaKind.VIDEO,
        time % (1 << 32),
        bytes([(0x10 if key else 0x20) | codec, 1, 0, 0, 0]).ljust(size, b"v"),
    )


def audio(time: int) -> MediaFrame:
    return MediaFrame(MediaKind.AUDIO, time % (1 << 32), b"\xaf\x01aaaa")


def stream(begin: int, end: int, *, has_video: bool = True, has_audio: bool = True) -> list[MediaFrame]:
    """A picture every 40 ms, a keyframe every second, sound every 20 ms."""
    frames = []
    for time in range(begin, end, 20):
        if has_video and time % 40 == 0:
            frames.append(video(time, key=time % 1000 == 0))
        if has_audio:
            frames.append(audio(time))
    return frames


def incidents_of(frames: list[MediaFrame]) -> list[tuple[object, ...]]:
    known = check(frames_file([AVC_HEADER, AAC_HEADER, *frames]), 20)
    return sorted((row[0], row[1], row[3], row[5]) for row in known.incidents.elements())


def test_nothing_is_wrong_with_a_good_stream() -> None:
    assert incidents_of(stream(0, 5000)) == []


def test_a_gap_is_neither_a_freeze_nor_a_silence() -> None:
    assert incidents_of(stream(0, 3000) + stream(8000, 10_000)) == [("gap", 2980, 5020, "")]


def test_a_freeze_and_a_silence() -> None:
    frames = stream(0, 3000) + stream(3000, 6000, has_video=False) + stream(6000, 9000)
    assert incidents_of(frames) == [("freeze", 2960, 3040, "")]
    frames = stream(0, 3000) + stream(3000, 6000, has_audio=False) + stream(6000, 9000)
    assert incidents_of(frames) == [("silence", 2980, 3020, "")]


def test_a_freeze_with_a_gap_inside_counts_only_its_own_time() -> None:
    frames = stream(0, 3000) + stream(3000, 5000, has_video=False) + stream(9000, 11_000)
    assert incidents_of(frames) == [("freeze", 2960, 2020, ""), ("gap", 4980, 4020, "")]


def test_pictures_that_begin_late_and_end_early() -> None:
    frames = stream(0, 2000, has_video=False) + stream(2000, 4000) + stream(4000, 7000, has_video=False)
    assert incidents_of(frames) == [("freeze", 0, 2000, "begins late"), ("freeze", 3960, 3020, "ends early")]


@pytest.mark.parametrize("ahead_ms", [990, 1100, 2500, -1100])
def test_sound_whose_timestamps_run_ahead_of_the_pictures_has_no_gaps(ahead_ms: int) -> None:
    frames = []
    for time in range(0, 20_000, 20):
        if time % 40 == 0:
            frames.append(video(time, key=time % 1000 == 0))
        frames.append(audio(time + ahead_ms))
    kinds = Counter(row[0] for row in incidents_of(frames))
    # At most, that one of them begins late and the other one ends early.
    assert kinds["gap"] == 0
    assert kinds["freeze"] <= 1
    assert kinds["silence"] <= 1
    assert kinds.total() <= 2


def test_a_gap_is_measured_from_the_latest_frame_before_it() -> None:
    """Sound runs 1.1 s ahead, and then nothing comes for eight seconds."""
    frames = [
        frame
        for time in (*range(0, 10_000, 20), *range(18_000, 24_000, 20))
        for frame in ([video(time), audio(time + 1100)] if time % 40 == 0 else [audio(time + 1100)])
    ]
    gaps = [row for row in incidents_of(frames) if row[0] == "gap"]
    assert ("gap", 9980 + 1100, 18_000 - 9980 - 1100, "") in gaps
    assert len(gaps) <= 2


@settings(max_examples=EXAMPLES // 10, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 9))
def test_gaps_do_not_depend_on_the_cuts_of_long_files(seed: int, cuts: int) -> None:
    """There are more frames than a gap looks back, and some of them are a second ahead."""
    rng = random.Random(seed)
    frames, time = [], 0
    for _ in range(900):
        time += rng.choice((20, 20, 20, 20, 400, 1300, -2500))
        frames.append((video if rng.random() < 0.4 else audio)(time + rng.choice((0, 0, 1100))))
    check(frames_file(frames), cuts, seed)


def test_timestamps_that_jump_back() -> None:
    assert incidents_of(stream(0, 3000) + stream(1000, 3000)) == [
        ("timestamp_jump", 2960, 1960, "video"),
        ("timestamp_jump", 2980, 1980, "audio"),
    ]


def test_time_goes_on_behind_the_end_of_the_circle() -> None:
    begin = (1 << 32) - 3000
    known = check(frames_file(stream(begin - begin % 1000, begin - begin % 1000 + 6000)), 20)
    assert not known.incidents
    assert known.facts["newest_ms"] == 5980
    assert sorted(known.seconds) == list(range(6))


def drift_of(times: list[float], frame_ms: float) -> float:
    """What a file with audio frames at these times says of its drift, in all; the same for any cuts."""
    source = source_of(frames_file([audio(round(time)) for time in times]))
    classifier = Classifier()
    beginning = attrs.evolve(read_beginning(source, classifier), sound=Sound(48_000, 2, frame_ms))
    skews = []
    for cuts in ([], [source.size // 3, source.size // 2]):
        total, findings = Part(), Findings()
        for lo, hi in pairwise([0, *cuts, source.size]):
            reader = PartReader(source, classifier, beginning, start_of_part(source, lo, hi), hi)
            list(reader)
            total = join(total, reader.part, beginning, findings)
        skews.append(_skew(total, frame_ms)[0])
    assert skews[0] == skews[1]
    return skews[0]


@pytest.mark.parametrize("most_ms", [3, 9, 15, 30, 60])
def test_jitter_does_not_add_up_to_drift(most_ms: int) -> None:
    rng = random.Random(most_ms)
    frame_ms = 1024 / 48
    times = [number * frame_ms + rng.uniform(-most_ms, most_ms) + 100 for number in range(30_000)]
    assert abs(drift_of(times, frame_ms)) < 50


def test_frame_that_is_late_now_and_then_is_no_drift() -> None:
    """Too seldom to be jitter: the step back that follows a late frame undoes the step before it."""
    frame_ms = 1024 / 48
    times = [number * frame_ms + (27 if number % 200 == 0 else 0) + 100 for number in range(30_000)]
    assert abs(drift_of(times, frame_ms)) < 50


@pytest.mark.parametrize("most_ms", [0, 30])
def test_drift_is_found_also_where_timestamps_jitter(most_ms: int) -> None:
    """Clocks that differ by a thousandth, and now and then a frame that is missing: 30,000 frames are 640 s."""
    rng = random.Random(most_ms)
    frame_ms = 1024 / 48
    times = [
        number * frame_ms * 1.001 + rng.uniform(-most_ms, most_ms) + 100
        for number in range(30_000)
        if number % 1000
    ]
    assert drift_of(times, frame_ms) == pytest.approx(640, abs=60)


def test_seconds_over_which_a_clock_ran_twice_are_not_compared() -> None:
    seconds, frames = np.array([0, 1, 2, 4]), np.array([47, 94, 47, 47])
    skew, follows = skew_by_seconds(np.empty(0, np.int64), seconds, frames, frames * 500, np.full(4, 21.33))
    assert not follows.any()
    assert not skew.any()


def test_codecs_that_change() -> None:
    other_header = MediaFrame(MediaKind.VIDEO, 1000, b"\x17\x00\x00\x00\x00other")
    hevc_header = MediaFrame(MediaKind.VIDEO, 2000, b"\x1c\x00\x00\x00\x00hvcC")
    frames = [
        *stream(0, 1000),
        other_header,
        *stream(1000, 2000),
        other_header,
        hevc_header,
        *[video(time, key=True, codec=12) for time in range(2000, 3000, 40)],
    ]
    assert [row[:2] + row[3:] for row in incidents_of(frames) if row[0] == "codec_change"] == [
        ("codec_change", 1000, "video: H.264 AVC: another decoder configuration"),
        ("codec_change", 2000, "video: H.264 AVC -> H.265 HEVC"),
    ]


def test_only_coded_frames_count() -> None:
    """The end of a sequence has the frame type of a keyframe, and the picture of Sorenson has no packet type."""
    end = MediaFrame(MediaKind.VIDEO, 2000, b"\x17\x02\x00\x00\x00")
    known = check(frames_file([AVC_HEADER, *stream(0, 2000, has_audio=False), end]))
    assert (known.facts["counts"]["video_frames"], len(known.keyframes)) == (50, 2)
    sorenson = [MediaFrame(MediaKind.VIDEO, 40 * n, bytes([0x22 if n % 10 else 0x12, 0])) for n in range(30)]
    known = check(frames_file(sorenson))
    assert (known.facts["counts"]["video_frames"], len(known.keyframes)) == (30, 3)


FRAME = st.one_of(
    st.builds(video, st.integers(-5000, 20_000), key=st.booleans(), codec=st.sampled_from([2, 7, 12])),
    st.builds(audio, st.integers(-5000, 20_000)),
    st.sampled_from([AVC_HEADER, AAC_HEADER, MediaFrame(MediaKind.VIDEO, 7, b"\x17\x00\x00\x00\x00x")]),
    st.builds(MediaFrame, st.sampled_from(MediaKind), st.integers(0, 0xFFFFFFFF), st.binary(max_size=20)),
)


@settings(max_examples=EXAMPLES // 2, deadline=None)
@given(st.lists(FRAME, max_size=25), st.data())
def test_any_frames(frames: list[MediaFrame], data: st.DataObject) -> None:
    file = bytearray(frames_file(frames))
    for _ in range(data.draw(st.integers(0, 2))):
        at = data.draw(st.integers(0, len(file)))
        file[at : at + data.draw(st.integers(0, 20))] = data.draw(st.binary(max_size=20))
    check(bytes(file), data.draw(st.integers(2, 12)), data.draw(st.integers(0, 99)))


def test_damage_every_few_bytes_takes_no_longer_than_the_file_is_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Behind each damage a few tags are looked at, not thousands; and what is found is taken in lots."""
    pictures = [MediaFrame(MediaKind.VIDEO, 40 * number, b"\x17\x01\0\0\0picture") for number in range(6000)]
    size = len(frames_file(pictures[:1])) - 13
    data = bytearray(frames_file(pictures))
    for number in range(0, len(pictures), 2):
        end = 13 + (number + 1) * size
        data[end - 4 : end] = b"\0\0\0\7"
    looked_at, lots = 0, 0

    def counting_gather(window: Window, offsets: Integers, end: int) -> tuple[TagArrays, Integers]:
        nonlocal looked_at
        looked_at += len(offsets)
        return gather(window, offsets, end)

    def counting_join(left: Part, right: Part, beginning: Beginning, findings: Findings) -> Part:
        nonlocal lots
        lots += 1
        return join(left, right, beginning, findings)

    monkeypatch.setattr(scan, "gather", counting_gather)
    monkeypatch.setattr(part_reader, "join", counting_join)
    known = read(source_of(bytes(data)), [])
    assert known.facts["counts"]["tags"] == len(pictures)
    assert known.incidents == Counter(
        (
            "wrong_trailer",
            40 * (number - 1) if number else None,
            13 + number * size,
            None,
            size,
            f"0 of {size} bytes lost",
        )
        for number in range(0, len(pictures), 2)
    )
    assert looked_at <= 20 * len(pictures)
    assert lots <= 4
