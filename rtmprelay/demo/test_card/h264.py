"""A very small H.264 encoder (constrained baseline) for pictures made of cells.

A keyframe predicts every square of 16 by 16 pixels from its neighbour; the other pictures skip all squares that have not
changed. A square has sixteen luma cells of 4 by 4 pixels, and one colour. The quantizers are chosen so that one step of a
DC coefficient is one step of a pixel: a decoder shows exactly the values of the picture. That works as long as the cells of
a square differ from the predicted values by one value, or by multiples of 16.
"""

from __future__ import annotations

from functools import lru_cache

import attrs

from rtmprelay.demo.test_card.codes import (
    encode_block,
    encode_flat_chroma,
    exponential,
    fixed,
    signed,
    to_bytes,
)

#: Pixels of a square in each direction.
SQUARE = 16

#: A step of a luma coefficient is a step of the pixel value.
_QUANTIZER = 28
#: The same for colours, whose quantizer is relative to that of luma.
_CHROMA_QUANTIZER_OFFSET = -6

#: Cells of a square in each direction.
CELLS = 4

#: The value that a decoder assumes where it has no neighbour to predict from.
_UNKNOWN_VALUE = 128

#: A picture that depends on another one may have squares that do not; their types follow the types of those that do.
_FIRST_INTRA_TYPE_BESIDE_INTER = 5

_ZIGZAG = (0, 1, 4, 8, 5, 2, 3, 6, 9, 12, 13, 10, 7, 11, 14, 15)

_CONSTRAINED_BASELINE = 66
_CONSTRAINTS = 0b11000000
#: Enough for 720 by 576 pixels, 25 times a second.
_LEVEL = 30

#: Bits for the number of a picture in its group; the shortest that the standard has is 4.
_FRAME_NUMBER_BITS = 8
_MAX_GROUP = 1 << _FRAME_NUMBER_BITS

_SEQUENCE_PARAMETERS = 0x67
_PICTURE_PARAMETERS = 0x68
_KEY_SLICE = 0x65
_SLICE = 0x41

_INTER_PICTURE = 5
_INTRA_PICTURE = 7

#: The colours of standard television (SMPTE 170M): primaries, transfer and matrix alike.
_TELEVISION = 6

_STOP = "1"


@attrs.frozen
class CardPicture:
    """The values of a picture, in the limited range of television.

    Attributes:
        luma: Rows of cells of 4 by 4 pixels, a byte each, for whole squares.
        blue, red: Rows of squares of 16 by 16 pixels, a byte each.
    """

    luma: tuple[bytes, ...]
    blue: tuple[bytes, ...]
    red: tuple[bytes, ...]

    def row(self, row: int) -> tuple[tuple[bytes, ...], bytes, bytes]:
        """The values of one row of squares."""
        return self.luma[CELLS * row : CELLS * row + CELLS], self.blue[row], self.red[row]

    def square(self, column: int, row: int) -> tuple[bytes, int, int]:
        """The values of one square."""
        left = CELLS * column
        cells = b"".join(line[left : left + CELLS] for line in self.luma[CELLS * row : CELLS * row + CELLS])
        return cells, self.blue[row][column], self.red[row][column]


@attrs.frozen
class PictureFormat:
    """Size and rate. Width and height are even numbers of pixels."""

    width: int
    height: int
    rate: int

    @property
    def columns(self) -> int:
        """Squares from left to right."""
        return -(-self.width // SQUARE)

    @property
    def rows(self) -> int:
        """Squares from top to bottom; the last ones may be cut."""
        return -(-self.height // SQUARE)


def encode_keyframe(picture: CardPicture, group: int) -> bytes:
    """A picture at which decoding can start, as the bytes of one slice.

    Args:
        group: A number that differs from that of the keyframe before.
    """
    parts = [
        *_slice_start(_INTRA_PICTURE, 0),
        exponential(group % 2),
        # Earlier pictures are still shown, and this one is a short-term reference.
        "00",
        *_slice_end(),
    ]
    parts += (
        _square(picture, column, row, False)
        for row, line in enumerate(picture.blue)
        for column in range(len(line))
    )
    return _unit(_KEY_SLICE, parts)


def encode_difference(picture: CardPicture, before: CardPicture, number: int) -> bytes:
    """A picture that depends on the one before.

    Args:
        number: Its number in its group; 1 is the picture after the keyframe.
    """
    parts = [
        *_slice_start(_INTER_PICTURE, number % _MAX_GROUP),
        # One reference picture, in the usual order, and this one is an ordinary reference.
        "000",
        *_slice_end(),
    ]
    skipped = 0
    for row, line in enumerate(picture.blue):
        if picture.row(row) == before.row(row):
            skipped += len(line)
            continue
        for column in range(len(line)):
            if picture.square(column, row) == before.square(column, row):
                skipped += 1
            else:
                parts += (exponential(skipped), _square(picture, column, row, True))
                skipped = 0
    if skipped:
        parts.append(exponential(skipped))
    return _unit(_SLICE, parts)


def _slice_start(kind: int, number: int) -> tuple[str, ...]:
    first_square = parameters = exponential(0)
    return first_square, exponential(kind), parameters, fixed(number, _FRAME_NUMBER_BITS)


def _slice_end() -> tuple[str, str]:
    # The quantizer of the parameters, and no deblocking: edges must stay sharp.
    return signed(0), exponential(1)


def _square(picture: CardPicture, column: int, row: int, beside_inter: bool) -> str:
    cells, blue, red = picture.square(column, row)
    prediction, predicted, old_blue, old_red = _predicted(picture, column, row)
    residual = tuple(cell - guess for cell, guess in zip(cells, predicted, strict=True))
    return _encode_square(prediction, residual, blue - old_blue, red - old_red, beside_inter)


def _predicted(picture: CardPicture, column: int, row: int) -> tuple[_Prediction, bytes, int, int]:
    """The values that a decoder predicts for a square from the cells that touch it."""
    if column:
        cells, blue, red = picture.square(column - 1, row)
        edge = cells[CELLS - 1 :: CELLS]
        return _FROM_LEFT, bytes(cell for cell in edge for _ in range(CELLS)), blue, red
    if row:
        cells, blue, red = picture.square(column, row - 1)
        return _FROM_ABOVE, cells[-CELLS:] * CELLS, blue, red
    return _FROM_NOWHERE, bytes([_UNKNOWN_VALUE]) * CELLS * CELLS, _UNKNOWN_VALUE, _UNKNOWN_VALUE


# -- squares -------------------------------------------------------------------------------------------------


@attrs.frozen
class _Prediction:
    """The neighbour from which a decoder predicts a square: the standard's numbers for luma and for colour."""

    luma: int
    chroma: int


_FROM_ABOVE = _Prediction(luma=0, chroma=2)
_FROM_LEFT = _Prediction(luma=1, chroma=1)
_FROM_NOWHERE = _Prediction(luma=2, chroma=0)

_WITHOUT_RESIDUAL = 1
_CHROMA_DC = 4


# Bars, digits and the block repeat all the time. The cache is bounded to some hundred kilobytes.
@lru_cache(maxsize=4096)
def _encode_square(
    prediction: _Prediction, residual: tuple[int, ...], blue: int, red: int, beside_inter: bool
) -> str:
    """A square as bits.

    Args:
        residual: What to add to the predicted values of the sixteen cells, row by row.
        blue, red: The same for the two colour planes.
        beside_inter: Whether the picture depends on the one before.
    """
    kind = _WITHOUT_RESIDUAL + prediction.luma
    has_colour = bool(blue or red)
    if has_colour:
        kind += _CHROMA_DC
    if beside_inter:
        kind += _FIRST_INTRA_TYPE_BESIDE_INTER
    parts = [exponential(kind), exponential(prediction.chroma), signed(0)]
    parts.append(encode_block(_coefficients(residual)))
    if has_colour:
        parts += (encode_flat_chroma(blue), encode_flat_chroma(red))
    return "".join(parts)


def _coefficients(residual: tuple[int, ...]) -> list[int]:
    """The coefficients that the decoder's Hadamard transform turns into these values."""
    rows = [_hadamard(residual[at : at + CELLS]) for at in range(0, len(residual), CELLS)]
    columns = [_hadamard(column) for column in zip(*rows, strict=True)]
    found = []
    for place in _ZIGZAG:
        value, rest = divmod(columns[place % CELLS][place // CELLS], CELLS * CELLS)
        if rest:
            raise ValueError(f"this square cannot be shown exactly: {residual}")
        found.append(value)
    return found


def _hadamard(values: tuple[int, ...]) -> tuple[int, int, int, int]:
    first, second, third, fourth = values
    return (
        first + second + third + fourth,
        first + second - third - fourth,
        first - second - third + fourth,
        first - second + third - fourth,
    )


# -- units ---------------------------------------------------------------------------------------------------


def _unit(first: int, parts: list[str]) -> bytes:
    """A NAL unit: its type, its bits, the stop bit; escaped so that nothing in it looks like the start of another one."""
    plain = to_bytes([*parts, _STOP])
    escaped = bytearray([first])
    zeros = 0
    for byte in plain:
        if zeros >= 2 and byte <= 3:
            escaped.append(3)
            zeros = 0
        escaped.append(byte)
        zeros = zeros + 1 if byte == 0 else 0
    return bytes(escaped)


def sequence_parameters(form: PictureFormat) -> bytes:
    return _unit(
        _SEQUENCE_PARAMETERS,
        [
            fixed(_CONSTRAINED_BASELINE, 8),
            fixed(_CONSTRAINTS, 8),
            fixed(_LEVEL, 8),
            exponential(0),
            exponential(_FRAME_NUMBER_BITS - 4),
            # Pictures are shown in the order of decoding.
            exponential(2),
            # One reference picture, and no gaps in the numbers of pictures.
            exponential(1),
            "0",
            exponential(form.columns - 1),
            exponential(form.rows - 1),
            # Whole frames, and the 8x8 inference that they need.
            "1",
            "1",
            *_cropping(form),
            "1",
            *_usability(form),
        ],
    )


def _cropping(form: PictureFormat) -> tuple[str, ...]:
    """The part of the last squares that is not shown, in steps of two pixels."""
    right = (form.columns * SQUARE - form.width) // 2
    bottom = (form.rows * SQUARE - form.height) // 2
    if not right and not bottom:
        return ("0",)
    return "1", exponential(0), exponential(right), exponential(0), exponential(bottom)


def _usability(form: PictureFormat) -> tuple[str, ...]:
    """Colours and rate; and no reordering, so a decoder shows each picture at once."""
    return (
        # No aspect ratio, no overscan; unspecified video format, limited range, and the colours.
        "00",
        "1" + fixed(5, 3) + "0" + "1",
        fixed(_TELEVISION, 8) * 3,
        "0",
        # A tick is half a picture.
        "1" + fixed(1, 32) + fixed(2 * form.rate, 32) + "1",
        # No buffer model, no picture structure; then the restrictions.
        "000",
        "1" + "1" + exponential(0) + exponential(0) + exponential(8) + exponential(8),
        exponential(0) + exponential(1),
    )


def picture_parameters() -> bytes:
    """The quantizers and the kind of code (PPS)."""
    return _unit(
        _PICTURE_PARAMETERS,
        [
            exponential(0),
            exponential(0),
            # Variable-length codes; no field order; one slice group; one reference picture.
            "0",
            "0",
            exponential(0),
            exponential(0),
            exponential(0),
            # No weights.
            "0" + "00",
            signed(_QUANTIZER - 26),
            signed(0),
            signed(_CHROMA_QUANTIZER_OFFSET),
            # Slices control deblocking; prediction from any neighbour; no redundant pictures.
            "1" + "0" + "0",
        ],
    )


def decoder_configuration(form: PictureFormat) -> bytes:
    """Both sets of parameters in the form of MP4 and FLV (avcC); the lengths of units have four bytes."""
    sequence, picture = sequence_parameters(form), picture_parameters()
    return b"".join(
        (
            b"\x01",
            sequence[1:4],
            b"\xff\xe1",
            len(sequence).to_bytes(2),
            sequence,
            b"\x01",
            len(picture).to_bytes(2),
            picture,
        )
    )
