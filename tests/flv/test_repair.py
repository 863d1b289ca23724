"""Recordings that a crash, a power cut or a bad disk damaged become whole again."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rtmprelay.errors import BadRecordingError
from rtmprelay.flv import repair as repair_module
from rtmprelay.flv.container import FlvTag, encode_tag, tag_size
from rtmprelay.flv.repair import inspect, repair
from rtmprelay.flv.scan import DamageKind
from rtmprelay.flv.script import encode_metadata
from rtmprelay.media import MediaFrame, MediaKind
from tests.flv.media import (
    FRAMES,
    STARTUP,
    WHOLE,
    groups,
    metadata_of,
    plain_file,
    tags_in,
    write_file,
)
from tests.rounds import rounds


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "live_test_20261116_045106.flv"


def assert_repaired(path: Path, kept: Sequence[FlvTag]) -> None:
    """The file is fine now, and has these tags after its metadata."""
    assert inspect(path).is_fine
    data = path.read_bytes()
    got = [(tag.type_byte, tag.timestamp_ms, tag.payload) for tag in tags_in(data)[1:]]
    assert got == [(tag.type_byte, tag.timestamp_ms, tag.payload) for tag in kept]
    assert metadata_of(data)["filesize"] == float(len(data))
    assert [entry.name for entry in path.parent.iterdir()] == [path.name], "nothing else is left"


def test_finished_file_is_fine_and_left_alone(path: Path) -> None:
    path.write_bytes(WHOLE)
    before = path.stat()
    found = repair(path)
    assert found.is_fine
    assert (found.tags, found.facts.keyframes, found.facts.duration_ms) == (63, 6, 1160)
    after = path.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_torn_tail_is_cut(path: Path) -> None:
    path.write_bytes(WHOLE[:-5])
    path.chmod(0o640)
    found = repair(path)
    (loss,) = found.losses
    assert loss.damage.kind is DamageKind.TORN_TAIL
    assert (found.lost_bytes, found.lost_ms) == (20, 0)
    assert_repaired(path, tags_in(WHOLE)[1:-1])
    assert path.stat().st_mode & 0o777 == 0o640


def test_lost_time_of_a_torn_tag_is_read_from_its_header(path: Path) -> None:
    path.write_bytes(
        plain_file(groups(1)) + encode_tag(MediaFrame(MediaKind.AUDIO, 1000, b"\xaf\x01xxx"))[:-3]
    )
    assert repair(path).lost_ms == 1000 - 160


@pytest.mark.parametrize("zeros", [1, 15, 5_000_000])
def test_zeros_at_the_end_are_cut(path: Path, zeros: int) -> None:
    path.write_bytes(WHOLE + bytes(zeros))
    (loss,) = repair(path).losses
    assert (loss.damage.kind, loss.damage.size, loss.milliseconds) == (DamageKind.ZERO_TAIL, zeros, None)
    assert_repaired(path, tags_in(WHOLE)[1:])


def test_damaged_region_is_removed_and_reported(path: Path) -> None:
    tags = tags_in(WHOLE)
    begin, end = tags[20].offset + 3, tags[30].offset + 7
    path.write_bytes(WHOLE[:begin] + random.Random(1).randbytes(end - begin) + WHOLE[end:])
    found = repair(path)
    (loss,) = found.losses
    assert (loss.damage.begin, loss.damage.end) == (tags[20].offset, tags[31].offset)
    assert loss.milliseconds == tags[31].timestamp_ms - tags[19].timestamp_ms
    assert_repaired(path, [*tags[1:20], *tags[31:]])


def test_missing_and_additional_bytes_are_repaired(path: Path) -> None:
    tags = tags_in(WHOLE)
    path.write_bytes(WHOLE[: tags[10].offset + 4] + WHOLE[tags[12].offset :])
    repair(path)
    assert_repaired(path, [*tags[1:10], *tags[12:]])
    path.write_bytes(WHOLE[: tags[10].offset] + b"nonsense" + WHOLE[tags[10].offset :])
    repair(path)
    assert_repaired(path, tags[1:])


def test_lost_start_is_written_again(path: Path) -> None:
    tags = tags_in(WHOLE)
    path.write_bytes(bytes(tags[0].offset + 100) + WHOLE[tags[0].offset + 100 :])
    found = repair(path)
    assert found.complaints == ["the file header is missing"]
    assert_repaired(path, tags[1:])
    values = metadata_of(path.read_bytes())
    assert (values["videocodecid"], values["audiocodecid"]) == (7.0, 10.0)


def test_file_without_index_gets_one(path: Path) -> None:
    path.write_bytes(plain_file([*STARTUP, *groups(3)]))
    assert inspect(path).complaints == ["there is no metadata at the start"]
    assert repair(path).lost_bytes == 0
    assert inspect(path).is_fine


def test_tag_with_one_wrong_size_is_kept(path: Path) -> None:
    tags = tags_in(WHOLE)
    data = bytearray(WHOLE)
    wrong_size, huge, wrong_trailer = tags[10], tags[20], tags[30]
    data[wrong_size.offset + 3] ^= 0x55
    data[huge.offset + 1 : huge.offset + 4] = b"\xff\xff\xff"
    data[wrong_trailer.end - 4 : wrong_trailer.end] = b"junk"
    path.write_bytes(data)
    result = repair(path)
    assert [
        (one.damage.kind, one.damage.begin, one.damage.end, one.milliseconds) for one in result.losses
    ] == [
        (DamageKind.WRONG_SIZE, wrong_size.offset, wrong_size.end, 0),
        (DamageKind.WRONG_SIZE, huge.offset, huge.end, 0),
        (DamageKind.WRONG_TRAILER, wrong_trailer.offset, wrong_trailer.end, 0),
    ]
    assert all(loss.damage.tag is None for loss in result.losses), "payloads are not kept in memory"
    assert not result.is_fine
    assert (result.lost_bytes, result.lost_ms, result.tags) == (0, 0, len(tags))
    assert_repaired(path, tags[1:])


def test_tag_with_two_wrong_sizes_is_lost(path: Path) -> None:
    tags = tags_in(WHOLE)
    data = bytearray(WHOLE)
    data[tags[10].offset + 3] ^= 0x55
    data[tags[10].end - 1] ^= 0x33
    path.write_bytes(data)
    found = repair(path)
    (loss,) = found.losses
    assert loss.damage.kind is DamageKind.GARBAGE
    assert found.lost_bytes == loss.damage.size == tags[10].end - tags[10].offset
    assert_repaired(path, [*tags[1:10], *tags[11:]])


@pytest.mark.parametrize("data", [b"", b"X", b"<html>", bytes(100_000), b"\x00\x00\x00\x18ftypmp42"])
def test_file_that_is_not_flv_is_left_alone(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    with pytest.raises(BadRecordingError):
        repair(path)
    assert path.read_bytes() == data


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=rounds(15, full=60))
@given(frames=FRAMES, data=st.data())
def test_repair_makes_any_file_fine(path: Path, frames: list[MediaFrame], data: st.DataObject) -> None:
    file = bytearray(write_file(frames, STARTUP, space=600))
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(4, len(file) - 1))
        file[at] = data.draw(st.integers(0, 255))
    del file[data.draw(st.integers(13, len(file))) :]
    path.write_bytes(file)
    kept = repair(path)
    assert inspect(path).is_fine
    assert sum(tag_size(tag.payload) for tag in tags_in(path.read_bytes())[1:]) == sum(
        end - begin for begin, end in kept.ranges
    )


def with_wrong_sizes(data: bytes, *numbers: int) -> bytes:
    """Change the size in front of some of the tags; a tag between two of them must be whole."""
    changed = bytearray(data)
    for number in numbers:
        changed[tags_in(data)[number].offset + 3] ^= 0x55
    return bytes(changed)


def test_tags_with_wrong_sizes_between_damage_keep_their_places(path: Path) -> None:
    tags = tags_in(WHOLE)
    data = with_wrong_sizes(WHOLE, 2, 10, 25, 27, 40, 61)
    for number, garbage in ((35, 7), (20, 200), (4, 30)):
        at = tags[number].offset
        data = data[:at] + b"x" * garbage + data[at:]
    path.write_bytes(data)
    found = repair(path)
    assert (found.tags, found.lost_bytes, len(found.mended)) == (63, 237, 6)
    assert_repaired(path, tags[1:])


def test_metadata_with_a_wrong_size_is_written_again(path: Path) -> None:
    tags = tags_in(WHOLE)
    path.write_bytes(with_wrong_sizes(WHOLE, 0, 2))
    found = repair(path)
    assert [at for at, _ in found.mended] == [tags[0].offset, tags[2].offset]
    assert_repaired(path, tags[1:])


@pytest.mark.parametrize("flags", [0, 1, 4])
def test_wrong_file_header_is_written_again(path: Path, flags: int) -> None:
    path.write_bytes(WHOLE[:4] + bytes([flags]) + WHOLE[5:])
    repair(path)
    assert_repaired(path, tags_in(WHOLE)[1:])
    assert path.read_bytes()[4] == 5


def test_only_the_recorder_says_which_stream_it_is(path: Path) -> None:
    """Its values are in the metadata at the start; a publisher that sends them later is not believed."""
    ours = MediaFrame(MediaKind.DATA, 0, encode_metadata({"rtmprelay_app": "live", "title": "a"}))
    later = MediaFrame(MediaKind.DATA, 0, encode_metadata({"rtmprelay_app": "other", "title": "b"}))
    path.write_bytes(plain_file([ours, *STARTUP, later, *groups(1)]))
    repair(path)
    values = metadata_of(path.read_bytes())
    assert (values["rtmprelay_app"], values["title"]) == ("live", "b")
    assert tags_in(path.read_bytes())[0].timestamp_ms == 0


def test_failed_repair_leaves_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(WHOLE[:-5])

    def fail(*_: object) -> None:
        (temporary,) = set(path.parent.iterdir()) - {path}
        assert temporary.name.startswith(".repair-")
        assert temporary.suffix == ".tmp"
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(repair_module, "_write_all", fail)
    with pytest.raises(OSError, match="No space"):
        repair(path)
    assert path.read_bytes() == WHOLE[:-5]
    assert list(path.parent.iterdir()) == [path]


def test_failed_repair_reports_its_own_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not that the new file cannot be deleted."""
    path.write_bytes(WHOLE[:-5])

    def fail(*_: object) -> None:
        (temporary,) = set(path.parent.iterdir()) - {path}
        temporary.unlink()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(repair_module, "_write_all", fail)
    with pytest.raises(OSError, match="No space"):
        repair(path)


def test_file_that_becomes_shorter_during_a_repair_is_left_alone(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_bytes(WHOLE[:-5])
    found = inspect(path)
    path.write_bytes(WHOLE[:1000])
    monkeypatch.setattr(repair_module, "inspect", lambda *_: found)
    with pytest.raises(OSError, match=r"\Athe file became shorter while it was read\Z"):
        repair(path)
    assert path.read_bytes() == WHOLE[:1000]


def test_file_is_copied_in_parts(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repair_module, "_COPY_SIZE", 100)
    path.write_bytes(WHOLE[:-5])
    repair(path)
    assert_repaired(path, tags_in(WHOLE)[1:-1])


def test_link_stays_a_link(path: Path) -> None:
    folder = path.parent / "elsewhere"
    folder.mkdir()
    real = folder / "real.flv"
    real.write_bytes(WHOLE[:-5])
    path.symlink_to(real)
    repair(path)
    assert path.is_symlink()
    assert_repaired(real, tags_in(WHOLE)[1:-1])


def test_new_name_is_synced_to_the_disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(WHOLE[:-5])
    synced: list[str] = []
    fsync = os.fsync

    def watched(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    repair(path)
    new, folder = synced
    assert Path(new).parent == path.parent
    assert Path(folder) == path.parent
