"""`spark.read.format("flv")` gives every tag, however a file is cut into parts."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import av
import pytest

from tests.spark.media import (
    DAMAGES,
    KINDS,
    ffmpeg,
    frames_of,
    hostile_endless_chain,
    hostile_flv_inside,
    make_recording,
    record,
)

pytest.importorskip("pyspark", reason="Spark is not installed: pip install '.[spark]'")

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from spark_analytics.errors import CatalogueError
from spark_analytics.flv.classify import Classifier
from spark_analytics.flv.datasource import (
    TAGS,
    FilteringFlvReader,
    FlvPartition,
    FlvReader,
    _is_strict,
    _paths,
    _size,
    register,
)
from tests.spark.test_scanning import plain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = list[dict[str, Any]]


def read(*paths: str | Path, part_size: int = 1 << 27) -> Rows:
    """What the reader gives, as Spark calls it, but without Spark."""
    reader = FlvReader([str(path) for path in paths], part_size)
    return [
        row
        for partition in reader.partitions()
        for batch in reader.read(partition)
        for row in batch.to_pylist()
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tags")
    make_recording(folder / "film.flv", "h264_b_frames", 6)
    (folder / "below" / "more").mkdir(parents=True)
    make_recording(folder / "below" / "more" / "sound.flv", "audio_only", 3)
    (folder / "below" / "hidden.txt").write_text("no recording")
    return folder


def test_spark_reads_folders_patterns_and_lists(spark: SparkSession, folder: Path) -> None:
    register(spark)
    film, sound = read(folder / "film.flv"), read(folder / "below")
    frame = spark.read.format("flv").option("partSize", "30k").load(str(folder))
    assert frame.schema.simpleString() == TAGS.spark_schema().simpleString()
    rows = frame.toArrow()
    assert rows.num_rows == len(film) + len(sound)
    order = [("path", "ascending"), ("offset", "ascending")]
    assert rows.sort_by(order).to_pylist() == sound + film
    for place in ([str(folder / "*.flv")], [str(folder / "film.flv"), str(folder / "below")]):
        found = spark.read.format("flv").load(place if len(place) > 1 else place[0])
        assert found.count() == len(film) + (len(sound) if len(place) > 1 else 0)
    keyframes = frame.where("keyframe AND type = 'video'").groupBy("path").count().collect()
    assert [(Path(row["path"]).name, row["count"]) for row in keyframes] == [("film.flv", 5)]


CONDITIONS: list[tuple[list[Filter], Callable[[dict[str, Any]], bool]]] = [
    ([EqualTo(("type",), "audio")], lambda row: row["type"] == "audio"),
    ([In(("type",), ("script", "other"))], lambda row: row["type"] in ("script", "other")),
    ([EqualTo(("keyframe",), True)], lambda row: row["keyframe"]),
    ([EqualTo(("keyframe",), False)], lambda row: not row["keyframe"]),
    (
        [GreaterThanOrEqual(("timestamp",), 1000), LessThan(("timestamp",), 2000), IsNotNull(("timestamp",))],
        lambda row: 1000 <= row["timestamp"] < 2000,
    ),
    (
        [
            GreaterThan(("timestamp",), 1000),
            LessThanOrEqual(("timestamp",), 2000),
            EqualTo(("type",), "video"),
        ],
        lambda row: 1000 < row["timestamp"] <= 2000 and row["type"] == "video",
    ),
    ([EqualTo(("type",), "audio"), EqualTo(("type",), "video")], lambda _: False),
    ([EqualTo(("timestamp",), 0)], lambda row: row["timestamp"] == 0),
]


@pytest.mark.parametrize(("filters", "is_wanted"), CONDITIONS)
def test_reader_gives_only_what_is_wanted_and_looks_at_no_other_payload(
    folder: Path,
    filters: list[Filter],
    is_wanted: Callable[[dict[str, Any]], bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Other conditions go back to Spark."""
    everything = read(folder)
    looked_at = 0
    classify = Classifier.classify

    def counted(self: Classifier, source: Any, tags: Any) -> Any:
        nonlocal looked_at
        looked_at += len(tags)
        return classify(self, source, tags)

    monkeypatch.setattr(Classifier, "classify", counted)
    reader = FilteringFlvReader([str(folder)], 30_000)
    other: list[Filter] = [
        GreaterThan(("size",), 5),
        EqualTo(("keyframe",), None),
        EqualTo(("a", "type"), "x"),
    ]
    assert list(reader.pushFilters([*filters, *other])) == other
    batches = [batch for partition in reader.partitions() for batch in reader.read(partition)]
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert sorted(rows, key=_place) == sorted(filter(is_wanted, everything), key=_place)
    if filters != [EqualTo(("keyframe",), False)]:
        assert looked_at < len(everything) * 0.8


def _place(row: dict[str, Any]) -> tuple[str, int]:
    return row["path"], row["offset"]


def test_other_files_than_the_wanted_ones_are_not_opened(folder: Path) -> None:
    reader = FilteringFlvReader([str(folder)], 1 << 20)
    assert list(reader.pushFilters([EqualTo(("path",), str(folder / "film.flv"))])) == []
    parts = [split.file.path for part in reader.partitions() for split in part.splits]  # type: ignore[attr-defined]
    assert set(parts) == {str(folder / "film.flv")}


def test_spark_hands_conditions_on_to_the_reader(spark: SparkSession, folder: Path) -> None:
    """The plan has no filter left to do, and the rows are the same."""
    register(spark)
    frame = spark.read.format("flv").load(str(folder))
    wanted = frame.where("keyframe AND type = 'video' AND timestamp >= 1000 AND timestamp < 5000")
    plan = wanted._jdf.queryExecution().executedPlan().toString()
    assert "Filter (" not in plan, plan
    expected = [
        row
        for row in read(folder)
        if row["keyframe"] and row["type"] == "video" and 1000 <= row["timestamp"] < 5000
    ]
    assert sorted(wanted.toArrow().to_pylist(), key=_place) == sorted(expected, key=_place)
    assert len(expected) > 1


@pytest.mark.parametrize("part_size", [1000, 7777, 100_000])
def test_parts_give_the_same_tags(folder: Path, tmp_path: Path, part_size: int) -> None:
    data = (folder / "film.flv").read_bytes()
    files = {
        "good": data,
        "garbage": DAMAGES["garbage"](data),
        "huge": DAMAGES["huge size"](data),
        "cut": DAMAGES["cut in a tag"](data),
        "nested": hostile_flv_inside(data[:20_000]),
        "chain": hostile_endless_chain(100),
    }
    for name, content in files.items():
        path = tmp_path / f"{name}.flv"
        path.write_bytes(content)
        found = [(row["offset"], row["size"], row["timestamp"]) for row in read(path, part_size=part_size)]
        assert found == [(row[0], row[2], row[3]) for row in plain(content) if len(row) == 5]


#: How many bytes stand before the data of a codec, by codec and kind of tag.
_BEFORE = {"H.264 AVC": 5, "AAC": 2, "Sorenson H.263": 1, "MP3": 1}

#: Of each packet: when it is decoded, when it is shown, how large it is; by the kind of media.
Packets = dict[str, list[tuple[int, int, int]]]


def packets_of_ffmpeg(path: Path) -> Packets:
    """What ffmpeg says of every packet."""
    command = [ffmpeg(), "-v", "error", "-i", str(path), "-map", "0", "-c", "copy", "-copyts"]
    command += ["-enc_time_base", "1:1000", "-f", "framecrc", "-"]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    packets: Packets = {}
    kinds = {
        line.split()[1].rstrip(":"): line.split()[2]
        for line in out.splitlines()
        if line.startswith("#media_type")
    }
    for line in out.splitlines():
        if not line.startswith("#"):
            number, dts, pts, _, size = (part.strip() for part in line.split(",")[:5])
            packets.setdefault(kinds[number], []).append((int(dts), int(pts), int(size)))
    return packets


def size_of_data(row: dict[str, Any]) -> int:
    """Bytes of a tag without what FLV puts before the data of a codec."""
    return int(row["size"]) - _BEFORE[row["codec"]]


def packets_of(rows: Rows) -> Packets:
    packets: Packets = {}
    for row in rows:
        if row["kind"] == "coded":
            shown = row["timestamp"] + row["composition_time"]
            packets.setdefault(row["type"], []).append((row["timestamp"], shown, size_of_data(row)))
    return packets


@pytest.mark.parametrize("kind", ["h264_b_frames", "h264_aac", "sorenson_mp3", "audio_only"])
def test_every_packet_is_what_ffmpeg_says(tmp_path: Path, kind: str) -> None:
    path = make_recording(tmp_path / "file.flv", kind, 4)
    assert packets_of(read(path)) == packets_of_ffmpeg(path)


def plain_reader(path: Path) -> list[tuple[int, int, int, int]]:
    """Every tag from the first to the last, as the specification of FLV has it, and nothing else: offset, type, size, time."""
    data = path.read_bytes()
    at, found = int.from_bytes(data[5:9], "big") + 4, []
    while at < len(data):
        size = int.from_bytes(data[at + 1 : at + 4], "big")
        time = int.from_bytes(data[at + 7 : at + 8] + data[at + 4 : at + 7], "big")
        found.append((at, data[at], size, time))
        at += 11 + size + 4
    return found


#: Of a coded frame: its place, the kind of media, when it is decoded, whether it is a keyframe.
Found = tuple[int | None, str, int | None, bool]


def packets_of_pyav(path: Path) -> list[Found]:
    """What the demuxer of FFmpeg says of every packet."""
    with av.open(str(path)) as container:
        return [
            (packet.pos, kind, packet.dts, kind == "video" and packet.is_keyframe)
            for packet in container.demux()
            # An empty one for each stream says that this is all.
            if packet.size and (kind := packet.stream.type)
        ]


def packets_of_ffprobe(path: Path) -> list[Found]:
    """The same from the command that people use."""
    entries = "packet=pos,codec_type,dts_time,flags"
    command = ["ffprobe", "-v", "error", "-show_packets", "-show_entries", entries, "-of", "json", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [
        (
            int(packet["pos"]),
            kind := packet["codec_type"],
            round(float(packet["dts_time"]) * 1000),
            kind == "video" and "K" in packet["flags"],
        )
        for packet in json.loads(done.stdout)["packets"]
    ]


_NUMBERS = {"audio": 8, "video": 9, "script": 18}


def files_of(kind: str, folder: Path) -> list[Path]:
    """One by ffmpeg, and the same as our recorder writes it, in segments."""
    made = make_recording(folder / "made.flv", kind, 3)
    (folder / "rec").mkdir()
    return [made, *record(folder / "rec", frames_of(made), "live/film", 1.8e9, segment=1.0)]


@pytest.mark.parametrize("kind", KINDS)
def test_every_tag_is_where_others_find_it(tmp_path: Path, kind: str) -> None:
    """Others: a plain reader, and FFmpeg."""
    for path in files_of(kind, tmp_path):
        rows = read(path, part_size=20_000)
        found = [(row["offset"], _NUMBERS[row["type"]], row["size"], row["timestamp"]) for row in rows]
        assert found == plain_reader(path)
        assert coded_of(rows) == packets_of_pyav(path)


@pytest.mark.skipif(shutil.which("ffprobe") is None, reason="ffprobe is not installed (Debian: ffmpeg)")
@pytest.mark.parametrize("kind", ["h264_b_frames", "h264_noise", "sorenson_mp3", "audio_only"])
def test_every_packet_is_where_ffprobe_finds_it(tmp_path: Path, kind: str) -> None:
    """Without the codecs of Enhanced RTMP: the ffprobe of a system may be too old for them."""
    for path in files_of(kind, tmp_path):
        assert coded_of(read(path, part_size=20_000)) == packets_of_ffprobe(path)


def coded_of(rows: Rows) -> list[Found]:
    """Of the tags, those with coded frames, in the words of others."""
    return [
        (row["offset"], row["type"], row["timestamp"], row["keyframe"])
        for row in rows
        if row["kind"] == "coded"
    ]


def test_what_tags_are(folder: Path) -> None:
    rows = read(folder / "film.flv")
    assert [(row["type"], row["kind"], row["codec"]) for row in rows[:3]] == [
        ("script", "script", None),
        ("video", "header", "H.264 AVC"),
        ("audio", "header", "AAC"),
    ]
    assert rows[-1]["kind"] in ("end", "coded")
    assert {row["kind"] for row in rows} == {"script", "header", "coded", "end"}
    assert {row["keyframe"] for row in rows if row["kind"] != "coded"} == {False}
    assert any(row["composition_time"] > 0 for row in rows)


def test_bad_options_are_told() -> None:
    with pytest.raises(CatalogueError, match="needs a path"):
        _paths({})
    with pytest.raises(CatalogueError, match="partSize many"):
        _size("many")
    with pytest.raises(CatalogueError, match="There is no file or folder /nowhere"):
        read("/nowhere")
    assert (_size("64m"), _size("5"), _size("2 GB")) == (1 << 26, 5, 1 << 31)
    with pytest.raises(CatalogueError, match="mode STRICT: write PERMISSIVE or FAILFAST"):
        _is_strict("STRICT")
    assert (_is_strict(None), _is_strict("permissive"), _is_strict("failfast")) == (False, False, True)


def test_one_bad_file_does_not_end_the_job(folder: Path, tmp_path: Path) -> None:
    """What cannot be read is left out, as what is damaged is; whoever wants to know of it says so."""
    film = (folder / "film.flv").read_bytes()
    for name, content in {"a": film, "b": film, "c": b"", "d": b"<html></html>"}.items():
        (tmp_path / f"{name}.flv").write_bytes(content)
    reader = FlvReader([str(tmp_path)], 1 << 27)
    (partition,) = reader.partitions()
    # It is gone when its turn comes.
    (tmp_path / "a.flv").unlink()
    rows = [row for batch in reader.read(partition) for row in batch.to_pylist()]
    assert {row["path"] for row in rows} == {str(tmp_path / "b.flv")}
    assert len(rows) == len(read(tmp_path / "b.flv"))
    with pytest.raises(CatalogueError, match=r"a\.flv cannot be read: No such file"):
        list(FlvReader([], 1, strict=True).read(partition))
    (tmp_path / "b.flv").write_bytes(DAMAGES["garbage"](film))
    (partition,) = FlvReader([str(tmp_path / "b.flv")], 1 << 27).partitions()
    with pytest.raises(CatalogueError, match=r"b\.flv is damaged at byte \d+"):
        list(FlvReader([], 1, strict=True).read(partition))


def test_a_path_that_nobody_can_open_does_not_end_the_job_either(folder: Path) -> None:
    """pyarrow has its own opinion of what an URI may be, and tells it by a ValueError."""
    film = str(folder / "film.flv")
    reader = FlvReader([film], 1 << 27)
    (partition,) = reader.partitions()
    assert isinstance(partition, FlvPartition)
    (good,) = partition.splits
    bad = attrs.evolve(good, file=attrs.evolve(good.file, path="hdfs://no host/with space.flv"))
    partition = FlvPartition((bad, good))
    assert [row for batch in reader.read(partition) for row in batch.to_pylist()] == read(film)
    with pytest.raises(CatalogueError, match=r"with space\.flv cannot be read: \w*Error: "):
        list(FlvReader([], 1, strict=True).read(partition))


def test_small_files_share_a_task(tmp_path: Path, folder: Path) -> None:
    for number in range(5):
        (tmp_path / f"{number}.flv").write_bytes((folder / "film.flv").read_bytes())
    assert len(FlvReader([str(tmp_path)], 1 << 27).partitions()) == 1
    assert len(FlvReader([str(tmp_path)], 200_000).partitions()) > 2
