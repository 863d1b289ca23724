"""The test card in a real decoder: every pixel is as drawn, and the beep is where the light is."""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path

import imageio_ffmpeg
import pytest

from rtmprelay.demo.test_card import aac
from rtmprelay.demo.test_card.card import BEEP_MS, FORMAT, block_column, clock_text, draw, timestamp_of
from rtmprelay.demo.test_card.h264 import CELLS, SQUARE, CardPicture
from rtmprelay.demo.test_card.stream import GROUP, frames
from rtmprelay.flv.container import encode_tag, file_header
from rtmprelay.media import MediaKind

#: Three keyframes.
PICTURES = 2 * GROUP + 10
CELL = SQUARE // CELLS


def decode(path: Path, *arguments: str) -> bytes:
    program = imageio_ffmpeg.get_ffmpeg_exe()
    done = subprocess.run(
        [program, "-v", "warning", "-xerror", "-i", str(path), *arguments, "-"],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == b"", done.stderr.decode()
    assert done.returncode == 0
    return done.stdout


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The beginning of the stream as a file."""
    path = tmp_path_factory.mktemp("card") / "card.flv"
    until = timestamp_of(PICTURES)
    with path.open("wb") as file:
        file.write(file_header())
        for frame in itertools.takewhile(lambda frame: frame.timestamp_ms < until, frames()):
            file.write(encode_tag(frame))
    return path


def expected_luma(picture: CardPicture) -> bytes:
    rows = (bytes(cell for cell in row for _ in range(CELL))[: FORMAT.width] for row in picture.luma)
    return b"".join(row * CELL for row in rows)[: FORMAT.width * FORMAT.height]


def expected_colour(plane: tuple[bytes, ...]) -> bytes:
    half = SQUARE // 2
    rows = (bytes(square for square in row for _ in range(half))[: FORMAT.width // 2] for row in plane)
    return b"".join(row * half for row in rows)[: FORMAT.width * FORMAT.height // 4]


def test_decoded_pictures_are_exactly_as_drawn(film: Path) -> None:
    pixels = decode(film, "-map", "0:v", "-f", "rawvideo", "-pix_fmt", "yuv420p", "-fps_mode", "passthrough")
    luma_size, colour_size = FORMAT.width * FORMAT.height, FORMAT.width * FORMAT.height // 4
    size = luma_size + 2 * colour_size
    assert len(pixels) == PICTURES * size
    for number in range(PICTURES):
        shown = pixels[number * size : (number + 1) * size]
        drawn = draw(number)
        assert shown[:luma_size] == expected_luma(drawn), number
        assert shown[luma_size : luma_size + colour_size] == expected_colour(drawn.blue), number
        assert shown[luma_size + colour_size :] == expected_colour(drawn.red), number


def test_sound_has_a_beep_at_each_full_second(film: Path) -> None:
    sound = memoryview(decode(film, "-map", "0:a", "-f", "s16le", "-ac", "1")).cast("h")

    def loudness(begin_ms: int, end_ms: int) -> int:
        part = sound[begin_ms * aac.SAMPLE_RATE // 1000 : end_ms * aac.SAMPLE_RATE // 1000]
        return max(map(abs, part))

    for second in range(1, 4):
        beep = second * 1000
        # A decoder begins and ends a sound softly, over the length of a frame or two.
        assert loudness(beep + 50, beep + BEEP_MS - 20) > 1000
        assert loudness(beep + BEEP_MS + 100, beep + 950) < 10


def test_stream_has_headers_first_and_ordered_timestamps() -> None:
    first = list(itertools.islice(frames(), 400))
    assert [frame.kind for frame in first[:3]] == [MediaKind.DATA, MediaKind.VIDEO, MediaKind.AUDIO]
    times = [frame.timestamp_ms for frame in first]
    assert times == sorted(times)
    pictures = [frame for frame in first[3:] if frame.kind is MediaKind.VIDEO]
    keyframes = [number for number, frame in enumerate(pictures) if frame.payload[0] == 0x17]
    assert keyframes == list(range(0, len(pictures), GROUP))


def test_block_moves_one_cell_a_picture_and_stays_inside() -> None:
    columns = [block_column(number) for number in range(1000)]
    assert min(columns) >= CELLS
    assert max(columns) < FORMAT.columns * CELLS
    assert all(abs(one - other) == 1 for one, other in itertools.pairwise(columns))


def test_clock_counts_pictures() -> None:
    assert clock_text(0) == "00:00:00:00"
    assert clock_text(25 * 3661 + 7) == "01:01:01:07"


@pytest.mark.parametrize("number", [25 * 3600 * 99, 25 * 3600 * 100, 10**9])
def test_clock_and_number_wrap_after_hours(number: int) -> None:
    assert draw(number) != draw(number + 1)
    assert len(clock_text(number)) == len(clock_text(0))
