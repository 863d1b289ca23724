"""What a crash, a power cut or a bad disk left of a file becomes whole again."""

from __future__ import annotations

import io
import os
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rtmprelay.amf.amf0 import AmfValue
from rtmprelay.errors import BadRecordingError
from rtmprelay.flv import scan
from rtmprelay.flv.__main__ import ProgressBar, main
from rtmprelay.flv.container import FlvTag, encode_tag, read_tags, tag_size
from rtmprelay.flv.repair import inspect, repair
from rtmprelay.flv.scan import Damage, DamageKind, TagScanner, WindowedFile
from rtmprelay.flv.script import encode_metadata
from rtmprelay.media import MediaFrame, MediaKind
from tests.flv.media import AAC_HEADER, AVC_HEADER, FRAMES, groups, metadata_of, plain_file, write_file

STARTUP = [AVC_HEADER, AAC_HEADER]
WHOLE = write_file(groups(6), STARTUP)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "live_test_20261116_045106.flv"


def tags_in(data: bytes) -> list[FlvTag]:
    return list(read_tags(io.BytesIO(data)))


def scanned(data: bytes) -> list[FlvTag | Damage]:
    """What a scan of these bytes gives."""
    descriptor = os.memfd_create("scanned")
    try:
        os.write(descriptor, data)
        return list(TagScanner(WindowedFile(descriptor)))
    finally:
        os.close(descriptor)


def assert_repaired(path: Path, kept: Sequence[FlvTag]) -> None:
    """The file is fine now, and has these tags behind its metadata."""
    assert inspect(path).is_fine
    data = path.read_bytes()
    got = [(tag.type_byte, tag.timestamp_ms, tag.payload) for tag in tags_in(data)[1:]]
    assert got == [(tag.type_byte, tag.timestamp_ms, tag.payload) for tag in kept]
    assert metadata_of(data)["filesize"] == float(len(data))
    assert [entry.name for entry in path.parent.iterdir()] == [path.name], "nothing is left beside it"


def test_a_finished_file_is_fine_and_left_alone(path: Path) -> None:
    path.write_bytes(WHOLE)
    before = path.stat()
    found = repair(path)
    assert found.is_fine
    assert (found.tags, found.facts.keyframes, found.facts.duration_ms) == (63, 6, 1160)
    after = path.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_torn_tail_is_cut(path: Path) -> None:
    path.write_bytes(WHOLE[:-5])
    path.chmod(0o640)
    found = repair(path)
    (loss,) = found.losses
    assert loss.damage.kind is DamageKind.TORN_TAIL
    assert (found.lost_bytes, found.lost_ms) == (20, 0)
    assert_repaired(path, tags_in(WHOLE)[1:-1])
    assert path.stat().st_mode & 0o777 == 0o640


def test_the_lost_time_of_a_torn_tag_is_known_from_its_header(path: Path) -> None:
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


@pytest.mark.parametrize(
    ("tail", "kind"),
    [
        (WHOLE[-40:-5], DamageKind.GARBAGE),
        (encode_tag(MediaFrame(MediaKind.AUDIO, 1200, b"\xaf\x01" + b"a" * 50))[:40], DamageKind.TORN_TAIL),
        (encode_tag(MediaFrame(MediaKind.AUDIO, 1200, b"\xaf\x01" + b"a" * 50))[:40] + bytes(500), DamageKind.ZERO_TAIL),
        (b"1234567", DamageKind.TORN_TAIL),
        (random.Random(3).randbytes(70_000), DamageKind.GARBAGE),
    ],
)  # fmt: skip
def test_what_is_at_the_end_is_told_apart(tail: bytes, kind: DamageKind) -> None:
    (damage,) = [one for one in scanned(WHOLE + tail) if isinstance(one, Damage)]
    assert (damage.kind, damage.size) == (kind, len(tail))


def test_a_damaged_region_is_skipped_and_reported(path: Path) -> None:
    tags = tags_in(WHOLE)
    begin, end = tags[20].offset + 3, tags[30].offset + 7
    path.write_bytes(WHOLE[:begin] + random.Random(1).randbytes(end - begin) + WHOLE[end:])
    found = repair(path)
    (loss,) = found.losses
    assert (loss.damage.begin, loss.damage.end) == (tags[20].offset, tags[31].offset)
    assert loss.milliseconds == tags[31].timestamp_ms - tags[19].timestamp_ms
    assert_repaired(path, [*tags[1:20], *tags[31:]])


def test_bytes_that_are_missing_or_too_many_are_no_obstacle(path: Path) -> None:
    tags = tags_in(WHOLE)
    path.write_bytes(WHOLE[: tags[10].offset + 4] + WHOLE[tags[12].offset :])
    repair(path)
    assert_repaired(path, [*tags[1:10], *tags[12:]])
    path.write_bytes(WHOLE[: tags[10].offset] + b"nonsense" + WHOLE[tags[10].offset :])
    repair(path)
    assert_repaired(path, tags[1:])


def test_a_lost_start_is_made_anew(path: Path) -> None:
    tags = tags_in(WHOLE)
    path.write_bytes(bytes(tags[0].offset + 100) + WHOLE[tags[0].offset + 100 :])
    found = repair(path)
    assert found.complaints == ["the file header is missing"]
    assert_repaired(path, tags[1:])
    values = metadata_of(path.read_bytes())
    assert (values["videocodecid"], values["audiocodecid"]) == (7.0, 10.0)


def test_a_file_without_index_gets_one(path: Path) -> None:
    path.write_bytes(plain_file([*STARTUP, *groups(3)]))
    assert inspect(path).complaints == ["there is no metadata at the start"]
    assert repair(path).lost_bytes == 0
    assert inspect(path).is_fine


def test_damage_to_two_places_close_together() -> None:
    tags = tags_in(WHOLE)
    data = bytearray(WHOLE)
    for number in (20, 22):
        data[tags[number].offset + 1] ^= 0xFF
    assert [found for found in scanned(bytes(data)) if isinstance(found, FlvTag)] == [
        tag for number, tag in enumerate(tags) if number not in (20, 22)
    ]


def test_one_wrong_size_costs_nothing(path: Path) -> None:
    """The other size, and the place where the next tag begins, say what the right one is."""
    tags = tags_in(WHOLE)
    data = bytearray(WHOLE)
    wrong_size, huge, wrong_trailer = tags[10], tags[20], tags[30]
    data[wrong_size.offset + 3] ^= 0x55
    data[huge.offset + 1 : huge.offset + 4] = b"\xff\xff\xff"
    data[wrong_trailer.end - 4 : wrong_trailer.end] = b"junk"
    path.write_bytes(data)
    found = [one for one in scanned(bytes(data)) if isinstance(one, Damage)]
    assert [(one.kind, one.tag, one.lost_bytes) for one in found] == [
        (DamageKind.WRONG_SIZE, wrong_size, 0),
        (DamageKind.WRONG_SIZE, huge, 0),
        (DamageKind.WRONG_TRAILER, wrong_trailer, 0),
    ]
    assert not inspect(path).is_fine
    result = repair(path)
    assert (result.lost_bytes, result.lost_ms, result.tags) == (0, 0, len(tags))
    assert_repaired(path, tags[1:])


def test_two_wrong_sizes_of_one_tag_cost_that_tag(path: Path) -> None:
    tags = tags_in(WHOLE)
    data = bytearray(WHOLE)
    data[tags[10].offset + 3] ^= 0x55
    data[tags[10].end - 1] ^= 0x33
    (damage,) = [one for one in scanned(bytes(data)) if isinstance(one, Damage)]
    assert (damage.kind, damage.tag, damage.lost_bytes) == (DamageKind.GARBAGE, None, damage.size)
    path.write_bytes(data)
    repair(path)
    assert_repaired(path, [*tags[1:10], *tags[11:]])


def test_tags_across_the_edges_of_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    tags = tags_in(WHOLE)
    garbage = random.Random(2).randbytes(1000)
    at = tags[30].offset
    data = WHOLE[:at] + garbage + WHOLE[at:]
    for size in range(15, 90, 7):
        monkeypatch.setattr(scan, "_WINDOW_SIZE", size)
        found = scanned(data)
        assert [one.payload for one in found if isinstance(one, FlvTag)] == [tag.payload for tag in tags]
        assert [one.size for one in found if isinstance(one, Damage)] == [1000]


@pytest.mark.parametrize("data", [b"", b"X", b"<html>", bytes(100_000), b"\x00\x00\x00\x18ftypmp42"])
def test_what_is_not_flv_is_left_alone(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    with pytest.raises(BadRecordingError):
        repair(path)
    assert path.read_bytes() == data


@given(FRAMES, st.data())
def test_any_cut_gives_back_exactly_the_whole_tags_before_it(
    frames: list[MediaFrame], data: st.DataObject
) -> None:
    file = plain_file(frames)
    cut = data.draw(st.integers(13, len(file)))
    tags = [found for found in scanned(file[:cut]) if isinstance(found, FlvTag)]
    assert tags == [tag for tag in tags_in(file) if tag.end <= cut]


@given(FRAMES, st.data())
def test_any_damage_is_skipped_and_reported(frames: list[MediaFrame], data: st.DataObject) -> None:
    """Tags that the damage does not touch are all found; what it touches is reported, unless it is mere payload."""
    file = plain_file(frames)
    begin = data.draw(st.integers(13, len(file)))
    damage = data.draw(st.binary(max_size=min(200, len(file) - begin)))
    end = begin + len(damage)
    damaged = file[:begin] + damage + file[end:]
    found = scanned(damaged)
    tags = [one for one in found if isinstance(one, FlvTag)]
    for tag in tags_in(file):
        if tag.end <= begin or tag.offset >= end:
            assert tag in tags
    # Everything is accounted for, in order, without holes.
    at = 13
    for one in found:
        place = one.offset if isinstance(one, FlvTag) else one.begin
        assert place == at
        at = one.end
    assert at == len(file)
    reported = [one for one in found if isinstance(one, Damage)]
    assert all(one.begin < end and one.end > begin for one in reported)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(frames=FRAMES, data=st.data())
def test_repair_makes_anything_fine(path: Path, frames: list[MediaFrame], data: st.DataObject) -> None:
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


def test_a_failed_repair_leaves_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(WHOLE[:-5])

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("rtmprelay.flv.repair._write_all", fail)
    with pytest.raises(OSError, match="No space"):
        repair(path)
    assert path.read_bytes() == WHOLE[:-5]
    assert list(path.parent.iterdir()) == [path]


# -- the command ---------------------------------------------------------------------------------------------


def test_the_command(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = path.with_name("good.flv")
    good.write_bytes(WHOLE)
    path.write_bytes(WHOLE[:-5])
    assert main(["check", str(good)]) == 0
    assert capsys.readouterr().out == f"{good}: fine (63 whole tags, 6 keyframes, 1.160 s)\n"
    assert main(["check", str(good), str(path)]) == 1
    assert f"{path}: damaged, 20 bytes and 0 ms lost" in capsys.readouterr().out
    assert main(["repair", str(path), str(good)]) == 0
    out = capsys.readouterr().out
    assert f"{path}: repaired, 20 bytes and 0 ms lost (62 whole tags, 6 keyframes, 1.160 s)\n" in out
    assert "  a torn tag at the end: 20 bytes from byte" in out
    assert main(["check", str(path)]) == 0


def test_the_command_goes_on_behind_a_file_that_it_cannot_read(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path.write_bytes(b"<html>")
    good = path.with_name("good.flv")
    good.write_bytes(WHOLE)
    assert main(["check", str(path.with_name("absent.flv")), str(path), str(good)]) == 1
    out, err = capsys.readouterr()
    assert "good.flv: fine" in out
    assert "absent.flv: No such file or directory" in err
    assert f"{path}: This is not an FLV file" in err


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_progress_bar() -> None:
    out = Terminal()
    bar = ProgressBar(out, "big.flv", 1 << 30)
    bar(0)
    bar(1)
    bar(1 << 29)
    bar(1 << 30)
    bar.close()
    assert out.getvalue() == (
        f"\rbig.flv [{'.' * 40}]   0 %\rbig.flv [{'#' * 20}{'.' * 20}]  50 %\rbig.flv [{'#' * 40}] 100 %\r\x1b[K"
    )
    assert not io.StringIO().isatty()
    silent = io.StringIO()
    ProgressBar(silent, "big.flv", 1 << 30)(5)
    small = Terminal()
    ProgressBar(small, "small.flv", 1000)(5)
    assert silent.getvalue() == small.getvalue() == ""


@pytest.mark.parametrize(
    ("filesize", "shown"),
    [(7.0, "filesize 7 instead of"), ([[["x" * 100]]], "filesize that is not a number instead of")],
)
def test_wrong_metadata_is_told_in_few_words(path: Path, filesize: AmfValue, shown: str) -> None:
    """A number is shown as people write it; anything else in a stranger's file is not shown at all."""
    metadata = MediaFrame(MediaKind.DATA, 0, encode_metadata({"filesize": filesize, "duration": 1.0}))
    path.write_bytes(plain_file([metadata, *STARTUP, *groups(2)]))
    (complaint,) = inspect(path).complaints
    assert shown in complaint
    assert len(complaint) < 100
