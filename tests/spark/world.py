"""A folder as it may be after a bad day, and the catalogue of it."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from pathlib import Path

from spark_analytics.__main__ import main
from spark_analytics.catalogue import Catalogue
from spark_analytics.store.versions import Snapshot
from tests.spark.media import DAMAGES, age, frames_file, frames_of, make_recording, record

BEGIN = datetime(2026, 1, 1, 12, 0, 0, 500_000, tzinfo=UTC)

DAMAGED = {
    "truncated": "cut in a tag",
    "zeros": "zeros behind",
    "damaged": "garbage",
    "recovered": "huge size",
    "headless": "header lost",
}
STATUS = {
    "live/film": "ok",
    "live/sound": "ok",
    "live/hevc": "ok",
    "live/truncated": "truncated",
    "live/zeros": "truncated",
    "live/damaged": "damaged",
    "live/recovered": "recovered",
    "live/headless": "damaged",
    "live/empty": "empty",
    "live/page": "not_flv",
    "live/header": "header_only",
    "live/growing": "growing",
    "holiday": "ok",
}


def make_world(folder: Path) -> None:
    """Make the recordings."""
    made = make_recording(folder / "holiday.flv", "h264_b_frames", 9)
    frames = frames_of(made)
    record(folder, frames, "live/film", BEGIN.timestamp(), segment=3.0)
    whole = made.read_bytes()
    for name, damage in DAMAGED.items():
        (folder / f"live_{name}_20260101_130000.flv").write_bytes(DAMAGES[damage](whole))
    (folder / "live_empty_20260101_130000.flv").write_bytes(b"")
    (folder / "live_page_20260101_130000.flv").write_text("<html></html>" * 50)
    (folder / "live_header_20260101_130000.flv").write_bytes(whole[:13])
    deeper = folder / "more" / "still"
    deeper.mkdir(parents=True)
    make_recording(deeper / "live_sound_20260101_130000.flv", "audio_only", 5)
    make_recording(deeper / "live_hevc_20260101_130000.flv", "hevc_aac", 5)
    for path in folder.rglob("*.flv"):
        age(path)
    growing = folder / "live_growing_20260101_130000.flv"
    growing.write_bytes(frames_file(frames[:50]))
    # However long the tests take, it was written just now.
    os.utime(growing, (time.time() + 3600,) * 2)
    (folder / "notes.txt").write_text("no recording")


def index(folder: Path, catalogue: Path, *more: str) -> Snapshot:
    """Index a folder with the session that there is."""
    assert main(["index", str(folder), "--out", str(catalogue), *more]) == 0
    return Catalogue(catalogue).open()
