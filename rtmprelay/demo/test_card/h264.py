"""A very small H.264 encoder (constrained baseline) for pictures that are made of cells, as `Picture` has them.

A keyframe predicts every square from its neighbour; the other pictures skip all squares that have not changed. Nothing is
lost: a decoder shows exactly the values of the picture.
"""

from __future__ import annotations

import attrs

from rtmprelay.demo.test_card import macroblocks
from rtmprelay.demo.test_card.bit_strings import exponential, fixed, signed, to_bytes
from rtmprelay.demo.test_card.macroblocks import CELLS, UNKNOWN_VALUE, Prediction, encode_square

#: Pixels of a square in each direction.
SQUARE = 16

_CONSTRAINED_BASELINE = 66
_CONSTRAINTS = 0b11000000
#: Enough for 720 by 576 pixels, 25 times a second.
_LEVEL = 30

#: Bits for the number of a picture in its group; the shortest that the standard has is 4.
_FRAME_NUMBER_BITS = 8
LONGEST_GROUP = 1 << _FRAME_NUMBER_BITS

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
class Picture:
    """What is to be seen, in limited range as television has it.

    Attributes:
        luma: Rows of cells of 4 by 4 pixels, a byte each; as many as fill whole squares.
        blue, red: Rows of squares of 16 by 16 pixels, a byte each.
    """

    luma: tuple[bytes, ...]
    blue: tuple[bytes, ...]
    red: tuple[bytes, ...]

    def row(self, row: int) -> tuple[tuple[bytes, ...], bytes, bytes]:
        """All of one row of squares."""
        return self.luma[CELLS * row : CELLS * row + CELLS], self.blue[row], self.red[row]

    def square(self, column: int, row: int) -> tuple[bytes, int, int]:
        """All of one square."""
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


def encode_keyframe(picture: Picture, group: int) -> bytes:
    """A picture at which decoding can start, as the bytes of one slice.

    Args:
        group: A number that differs from that of the keyframe before.
    """
    parts = [
        *_slice_start(_INTRA_PICTURE, 0),
        exponential(group % 2),
        # Pictures before it may be shown to the end, and it is kept no longer than usual.
        "00",
        *_slice_end(),
    ]
    parts += (
        _encode(picture, column, row, False)
        for row, line in enumerate(picture.blue)
        for column in range(len(line))
    )
    return _unit(_KEY_SLICE, parts)


def encode_difference(picture: Picture, before: Picture, number: int) -> bytes:
    """A picture that leans on the one before.

    Args:
        number: Which picture of its group it is; 1 is the one behind the keyframe.
    """
    parts = [
        *_slice_start(_INTER_PICTURE, number % LONGEST_GROUP),
        # One reference picture, in the usual order, and nothing special becomes of this one.
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
                parts += (exponential(skipped), _encode(picture, column, row, True))
                skipped = 0
    if skipped:
        parts.append(exponential(skipped))
    return _unit(_SLICE, parts)


def _slice_start(kind: int, number: int) -> tuple[str, ...]:
    first_square = parameters = exponential(0)
    return first_square, exponential(kind), parameters, fixed(number, _FRAME_NUMBER_BITS)


def _slice_end() -> tuple[str, str]:
    # The quantizer is that of the parameters, and edges are not smoothed: they are meant to be sharp.
    return signed(0), exponential(1)


def _encode(picture: Picture, column: int, row: int, beside_inter: bool) -> str:
    cells, blue, red = picture.square(column, row)
    prediction, predicted, old_blue, old_red = _predicted(picture, column, row)
    residual = tuple(cell - guess for cell, guess in zip(cells, predicted, strict=True))
    return encode_square(prediction, residual, blue - old_blue, red - old_red, beside_inter)


def _predicted(picture: Picture, column: int, row: int) -> tuple[Prediction, bytes, int, int]:
    """What a decoder expects of a square, from the cells that touch it."""
    if column:
        cells, blue, red = picture.square(column - 1, row)
        edge = cells[CELLS - 1 :: CELLS]
        return macroblocks.FROM_LEFT, bytes(cell for cell in edge for _ in range(CELLS)), blue, red
    if row:
        cells, blue, red = picture.square(column, row - 1)
        return macroblocks.FROM_ABOVE, cells[-CELLS:] * CELLS, blue, red
    return macroblocks.FROM_NOWHERE, bytes([UNKNOWN_VALUE]) * CELLS * CELLS, UNKNOWN_VALUE, UNKNOWN_VALUE


def _unit(first: int, parts: list[str]) -> bytes:
    """A NAL unit: its type, its bits, the stop bit; and nothing in it looks like the start of another one."""
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
    """What a decoder must know of all pictures."""
    return _unit(
        _SEQUENCE_PARAMETERS,
        [
            fixed(_CONSTRAINED_BASELINE, 8),
            fixed(_CONSTRAINTS, 8),
            fixed(_LEVEL, 8),
            exponential(0),
            exponential(_FRAME_NUMBER_BITS - 4),
            # Pictures are shown in the order in which they come.
            exponential(2),
            # One reference picture, and none is missing on purpose.
            exponential(1),
            "0",
            exponential(form.columns - 1),
            exponential(form.rows - 1),
            # Whole frames; the 8x8 inference that goes with it.
            "1",
            "1",
            *_cropping(form),
            "1",
            *_usability(form),
        ],
    )


def _cropping(form: PictureFormat) -> tuple[str, ...]:
    """What of the last squares is not to be seen, in steps of two pixels."""
    right = (form.columns * SQUARE - form.width) // 2
    bottom = (form.rows * SQUARE - form.height) // 2
    if not right and not bottom:
        return ("0",)
    return "1", exponential(0), exponential(right), exponential(0), exponential(bottom)


def _usability(form: PictureFormat) -> tuple[str, ...]:
    """Colours, the rate, and that nothing has to be waited for before a picture is shown."""
    return (
        # No aspect ratio, no overscan; a video format that is not told, limited range, and the colours.
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
    """How pictures are coded."""
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
            signed(macroblocks.QUANTIZER - 26),
            signed(0),
            signed(macroblocks.CHROMA_QUANTIZER_OFFSET),
            # Slices say how edges are smoothed; prediction from any neighbour; no redundant pictures.
            "1" + "0" + "0",
        ],
    )


def decoder_configuration(form: PictureFormat) -> bytes:
    """Both sets of parameters, as MP4 and FLV have them (avcC); units have lengths of four bytes."""
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
