"""The test picture: colour bars, a moving block, a clock, the number of the picture, and a light during each beep."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rtmprelay.demo.test_card.h264 import CELLS, CardPicture, PictureFormat

FORMAT = PictureFormat(width=640, height=360, rate=25)

#: The length of the beep and its light, which begin at each full second.
BEEP_MS = 120

#: Luma, blue and red of the eight bars of television at three quarters of full colour.
_BARS = (
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

#: All luma values below the bars differ by multiples of 16: `rtmprelay.demo.test_card.h264` says why.
_PAPER = 16
_INK = 224
_FAINT_INK = 144
_NO_COLOUR = 128

# Places in cells. The leftmost square of each row stays empty: the one below is predicted from it.
_LEFT = 8
_BLOCK_TOP = 45
_BLOCK_SIZE = 6
_TITLE_TOP = 53
_CLOCK_TOP = 63
_NUMBER_TOP = 80
_LIGHT_LEFT = 140
_LIGHT_SIZE = 7

_LETTER_WIDTH = 5
_LETTER_HEIGHT = 7

_CELL_COLUMNS = FORMAT.columns * CELLS
_CELL_ROWS = FORMAT.rows * CELLS
_SWING = _CELL_COLUMNS - _BLOCK_SIZE - CELLS

# The letters that the picture needs, in 5 by 7 cells. Each row is a number whose bits are the cells from the left.
_LETTERS = {
    "0": (0b01110, 0b10001, 0b10011, 0b10101, 0b11001, 0b10001, 0b01110),
    "1": (0b00100, 0b01100, 0b00100, 0b00100, 0b00100, 0b00100, 0b01110),
    "2": (0b01110, 0b10001, 0b00001, 0b00110, 0b01000, 0b10000, 0b11111),
    "3": (0b01110, 0b10001, 0b00001, 0b00110, 0b00001, 0b10001, 0b01110),
    "4": (0b00010, 0b00110, 0b01010, 0b10010, 0b11111, 0b00010, 0b00010),
    "5": (0b11111, 0b10000, 0b11110, 0b00001, 0b00001, 0b10001, 0b01110),
    "6": (0b00110, 0b01000, 0b10000, 0b11110, 0b10001, 0b10001, 0b01110),
    "7": (0b11111, 0b00001, 0b00010, 0b00100, 0b01000, 0b01000, 0b01000),
    "8": (0b01110, 0b10001, 0b10001, 0b01110, 0b10001, 0b10001, 0b01110),
    "9": (0b01110, 0b10001, 0b10001, 0b01111, 0b00001, 0b00010, 0b01100),
    ":": (0b00000, 0b00100, 0b00100, 0b00000, 0b00100, 0b00100, 0b00000),
    " ": (0, 0, 0, 0, 0, 0, 0),
    "A": (0b01110, 0b10001, 0b10001, 0b11111, 0b10001, 0b10001, 0b10001),
    "C": (0b01110, 0b10001, 0b10000, 0b10000, 0b10000, 0b10001, 0b01110),
    "D": (0b11110, 0b10001, 0b10001, 0b10001, 0b10001, 0b10001, 0b11110),
    "E": (0b11111, 0b10000, 0b10000, 0b11110, 0b10000, 0b10000, 0b11111),
    "F": (0b11111, 0b10000, 0b10000, 0b11110, 0b10000, 0b10000, 0b10000),
    "L": (0b10000, 0b10000, 0b10000, 0b10000, 0b10000, 0b10000, 0b11111),
    "M": (0b10001, 0b11011, 0b10101, 0b10101, 0b10001, 0b10001, 0b10001),
    "P": (0b11110, 0b10001, 0b10001, 0b11110, 0b10000, 0b10000, 0b10000),
    "R": (0b11110, 0b10001, 0b10001, 0b11110, 0b10100, 0b10010, 0b10001),
    "S": (0b01111, 0b10000, 0b10000, 0b01110, 0b00001, 0b00001, 0b11110),
    "T": (0b11111, 0b00100, 0b00100, 0b00100, 0b00100, 0b00100, 0b00100),
    "Y": (0b10001, 0b10001, 0b01010, 0b00100, 0b00100, 0b00100, 0b00100),
}


def timestamp_of(number: int) -> int:
    """When the picture of this number is shown, in milliseconds."""
    return number * 1000 // FORMAT.rate


def beeps_at(timestamp_ms: int) -> bool:
    return timestamp_ms % 1000 < BEEP_MS


def block_column(number: int) -> int:
    """Where the moving block is, in cells from the left: it moves one cell a picture, to the right and back."""
    step = number % (2 * _SWING)
    return CELLS + min(step, 2 * _SWING - step)


def clock_text(number: int) -> str:
    """Hours, minutes, seconds and pictures since the beginning."""
    seconds, picture = divmod(number, FORMAT.rate)
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours % 100:02d}:{minute:02d}:{second:02d}:{picture:02d}"


def draw(number: int) -> CardPicture:
    """The picture of this number; 0 is the first."""
    luma = [*_BACKGROUND.luma]
    block = [bytes([_INK]) * _BLOCK_SIZE] * _BLOCK_SIZE
    _put(luma, _BLOCK_TOP, block_column(number), block)
    _put(luma, _CLOCK_TOP, _LEFT, _text_rows(clock_text(number), _PAPER, _INK, scale=2))
    _put(luma, _NUMBER_TOP, _LEFT, _text_rows(f"FRAME {number % 10**9:09d}", _PAPER, _FAINT_INK))
    if beeps_at(timestamp_of(number)):
        _put(luma, _TITLE_TOP, _LIGHT_LEFT, [bytes([_INK]) * _LIGHT_SIZE] * _LIGHT_SIZE)
    return CardPicture(tuple(luma), _BACKGROUND.blue, _BACKGROUND.red)


def _text_rows(text: str, paper: int, ink: int, scale: int = 1) -> Iterator[bytes]:
    """A line of text as rows of cells; an empty column follows each letter."""
    for row in range(_LETTER_HEIGHT):
        cells = bytearray()
        for letter in text:
            bits = _LETTERS[letter][row] << 1
            for place in range(_LETTER_WIDTH, -1, -1):
                cells += bytes([ink if bits >> place & 1 else paper]) * scale
        for _ in range(scale):
            yield bytes(cells)


def _put(luma: list[bytes], top: int, left: int, rows: Iterable[bytes]) -> None:
    for offset, cells in enumerate(rows):
        line = luma[top + offset]
        luma[top + offset] = line[:left] + cells + line[left + len(cells) :]


def _bars(plane: int, width: int) -> bytes:
    """One row of one plane of the bars."""
    return b"".join(bytes([bar[plane]]) * (width // len(_BARS)) for bar in _BARS)


def _background() -> CardPicture:
    """The parts that never change."""
    bar_cells = _BAR_ROWS * CELLS
    luma = [_bars(0, _CELL_COLUMNS)] * bar_cells
    luma += [bytes([_PAPER]) * _CELL_COLUMNS] * (_CELL_ROWS - bar_cells)
    _put(luma, _TITLE_TOP, _LEFT, _text_rows("RTMPRELAY TEST CARD", _PAPER, _FAINT_INK))
    grey = [bytes([_NO_COLOUR]) * FORMAT.columns] * (FORMAT.rows - _BAR_ROWS)
    blue, red = ([_bars(plane, FORMAT.columns)] * _BAR_ROWS + grey for plane in (1, 2))
    return CardPicture(tuple(luma), tuple(blue), tuple(red))


_BACKGROUND = _background()
