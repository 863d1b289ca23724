"""`spark.read.format("flv")` gives every tag, however a file is cut into parts."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.media import DAMAGES, ffmpeg, hostile_endless_chain, hostile_flv_inside, make_recording

pytest.importorskip("pyspark", reason="Spark is not installed: pip install '.[spark]'")

from spark_analytics.errors import CatalogueError
from spark_analytics.flv_source import TAGS, FlvReader, _paths, _size, register
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


@pytest.mark.parametrize("kind", ["h264_b_frames", "h264_aac", "sorenson_mp3", "audio_only"])
def test_every_packet_is_what_ffmpeg_says(tmp_path: Path, kind: str) -> None:
    path = make_recording(tmp_path / "file.flv", kind, 4)
    command = [
        ffmpeg(),
        "-v",
        "error",
        "-i",
        str(path),
        "-map",
        "0",
        "-c",
        "copy",
        "-copyts",
        "-enc_time_base",
        "1:1000",
    ]
    out = subprocess.run([*command, "-f", "framecrc", "-"], capture_output=True, text=True, check=True).stdout
    packets: dict[str, list[tuple[int, int, int]]] = {}
    kinds = {
        line.split()[1].rstrip(":"): line.split()[2]
        for line in out.splitlines()
        if line.startswith("#media_type")
    }
    for line in out.splitlines():
        if not line.startswith("#"):
            number, dts, pts, _, size = (part.strip() for part in line.split(",")[:5])
            packets.setdefault(kinds[number], []).append((int(dts), int(pts), int(size)))
    rows = [row for row in read(path) if row["kind"] == "coded"]
    for media in kinds.values():
        found = [
            (
                row["timestamp"],
                row["timestamp"] + row["composition_time"],
                row["size"] - _BEFORE[row["codec"]],
            )
            for row in rows
            if row["type"] == media
        ]
        assert found == packets[media]


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


def test_small_files_share_a_task(tmp_path: Path, folder: Path) -> None:
    for number in range(5):
        (tmp_path / f"{number}.flv").write_bytes((folder / "film.flv").read_bytes())
    assert len(FlvReader([str(tmp_path)], 1 << 27).partitions()) == 1
    assert len(FlvReader([str(tmp_path)], 200_000).partitions()) > 2
