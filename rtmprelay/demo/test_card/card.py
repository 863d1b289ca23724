"""What the test picture shows: colour bars, a moving block, a clock, the number of the picture, a light with the beep."""

from __future__ import annotations

from collections.abc import Iterable

from rtmprelay.demo.test_card.font import text_rows
from rtmprelay.demo.test_card.h264 import Picture, PictureFormat
from rtmprelay.demo.test_card.macroblocks import CELLS

FORMAT = PictureFormat(width=640, height=360, rate=25)

#: How long the beep and its light last, from each full second on.
BEEP_MS = 120

#: Luma, blue and red of the eight bars of television at three quarters of full colour.
BARS = (
    (180, 128, 128),
    (162, 44, 142),
    (131, 156, 44),
    (112, 72, 58),
    (84, 184, 198),
    (65, 100, 212),
    (35, 212, 114),
    (16, 128, 128),
)
_BAR_ROWS = 11

#: All luma values below the bars differ by multiples of 16: `rtmprelay.demo.test_card.macroblocks` says why.
PAPER = 16
INK = 224
_FAINT_INK = 144
_NO_COLOUR = 128

# Places in cells. The leftmost square of each row stays empty, since those below are predicted from it.
_LEFT = 8
_BLOCK_TOP = 45
_BLOCK_SIZE = 6
_TITLE_TOP = 53
_CLOCK_TOP = 63
_NUMBER_TOP = 80
_LIGHT_LEFT = 140
_LIGHT_SIZE = 7

_CELL_COLUMNS = FORMAT.columns * CELLS
_CELL_ROWS = FORMAT.rows * CELLS
_SWING = _CELL_COLUMNS - _BLOCK_SIZE - CELLS


def timestamp_of(number: int) -> int:
    """When the picture of this number is shown, in milliseconds."""
    return number * 1000 // FORMAT.rate


def beeps_at(timestamp_ms: int) -> bool:
    """Whether there is a beep at this time."""
    return timestamp_ms % 1000 < BEEP_MS


def block_column(number: int) -> int:
    """Where the moving block is, in cells from the left: it goes to and fro, one cell with each picture."""
    step = number % (2 * _SWING)
    return CELLS + min(step, 2 * _SWING - step)


def clock_text(number: int) -> str:
    """Hours, minutes, seconds and pictures since the beginning."""
    seconds, picture = divmod(number, FORMAT.rate)
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours % 100:02d}:{minute:02d}:{second:02d}:{picture:02d}"


def draw(number: int) -> Picture:
    """The picture of this number; 0 is the first."""
    luma = [*_BACKGROUND.luma]
    block = [bytes([INK]) * _BLOCK_SIZE] * _BLOCK_SIZE
    _put(luma, _BLOCK_TOP, block_column(number), block)
    _put(luma, _CLOCK_TOP, _LEFT, text_rows(clock_text(number), PAPER, INK, scale=2))
    _put(luma, _NUMBER_TOP, _LEFT, text_rows(f"FRAME {number % 10**9:09d}", PAPER, _FAINT_INK))
    if beeps_at(timestamp_of(number)):
        _put(luma, _TITLE_TOP, _LIGHT_LEFT, [bytes([INK]) * _LIGHT_SIZE] * _LIGHT_SIZE)
    return Picture(tuple(luma), _BACKGROUND.blue, _BACKGROUND.red)


def _put(luma: list[bytes], top: int, left: int, rows: Iterable[bytes]) -> None:
    for offset, cells in enumerate(rows):
        line = luma[top + offset]
        luma[top + offset] = line[:left] + cells + line[left + len(cells) :]


def _bars(plane: int, width: int) -> bytes:
    """One row of one plane of the bars."""
    return b"".join(bytes([bar[plane]]) * (width // len(BARS)) for bar in BARS)


def _background() -> Picture:
    """What never changes."""
    bar_cells = _BAR_ROWS * CELLS
    luma = [_bars(0, _CELL_COLUMNS)] * bar_cells
    luma += [bytes([PAPER]) * _CELL_COLUMNS] * (_CELL_ROWS - bar_cells)
    _put(luma, _TITLE_TOP, _LEFT, text_rows("RTMPRELAY TEST CARD", PAPER, _FAINT_INK))
    grey = [bytes([_NO_COLOUR]) * FORMAT.columns] * (FORMAT.rows - _BAR_ROWS)
    blue, red = ([_bars(plane, FORMAT.columns)] * _BAR_ROWS + grey for plane in (1, 2))
    return Picture(tuple(luma), tuple(blue), tuple(red))


_BACKGROUND = _background()
