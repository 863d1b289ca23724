"""One square of 16 by 16 pixels in H.264: sixteen luma cells of 4 by 4 pixels, one colour.

The quantizers are chosen so that one step of a DC coefficient is one step of a pixel: what is decoded is exactly what was
drawn. That works as long as the cells of a square differ from what is predicted by one value, or by multiples of 16.
"""

from __future__ import annotations

from functools import lru_cache

import attrs

from rtmprelay.demo.test_card.bit_strings import exponential, signed
from rtmprelay.demo.test_card.cavlc import encode_block, encode_flat_chroma

#: One luma coefficient more is one pixel value more.
QUANTIZER = 28
#: The same for colours, whose quantizer is relative to that of luma.
CHROMA_QUANTIZER_OFFSET = -6

#: Cells of a square in each direction.
CELLS = 4

#: What a decoder assumes where it has no neighbour to predict from.
UNKNOWN_VALUE = 128

#: A picture that leans on another one may have squares that do not; their types come behind those that do.
FIRST_INTRA_TYPE_BESIDE_INTER = 5

_ZIGZAG = (0, 1, 4, 8, 5, 2, 3, 6, 9, 12, 13, 10, 7, 11, 14, 15)


@attrs.frozen
class Prediction:
    """From where a decoder predicts a square: the standard's numbers for luma and for colour."""

    luma: int
    chroma: int


FROM_ABOVE = Prediction(luma=0, chroma=2)
FROM_LEFT = Prediction(luma=1, chroma=1)
FROM_NOWHERE = Prediction(luma=2, chroma=0)

_WITHOUT_RESIDUAL = 1
_CHROMA_DC = 4


# Bars, digits and the block look the same again and again. The bound is some hundred kilobytes.
@lru_cache(maxsize=4096)
def encode_square(
    prediction: Prediction, residual: tuple[int, ...], blue: int, red: int, beside_inter: bool
) -> str:
    """A square as bits.

    Args:
        residual: What is to be added to the predicted values of the sixteen cells, row by row.
        blue, red: The same for the two colour planes.
        beside_inter: Whether the picture leans on the one before.
    """
    kind = _WITHOUT_RESIDUAL + prediction.luma
    has_colour = bool(blue or red)
    if has_colour:
        kind += _CHROMA_DC
    if beside_inter:
        kind += FIRST_INTRA_TYPE_BESIDE_INTER
    parts = [exponential(kind), exponential(prediction.chroma), signed(0)]
    parts.append(encode_block(_coefficients(residual)))
    if has_colour:
        parts += (encode_flat_chroma(blue), encode_flat_chroma(red))
    return "".join(parts)


def _coefficients(residual: tuple[int, ...]) -> list[int]:
    """What the decoder's Hadamard transform turns into these values."""
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
