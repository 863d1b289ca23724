"""Media frames, and distances between 32-bit timestamps."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtmprelay.media import TIMESTAMP_MODULUS, MediaFrame, MediaKind, milliseconds_between

DISTANCES = [
    (0, 0, 0),
    (100, 140, 40),
    (140, 100, -40),
    (2**32 - 1, 0, 1),
    (0, 2**32 - 1, -1),
    (2**32 - 10, 10, 20),
    (10, 2**32 - 10, -20),
    (0, 2**31 - 1, 2**31 - 1),
    # Half the range apart: both ways are equally long, and the sign is negative.
    (0, 2**31, -(2**31)),
    (2**31, 0, -(2**31)),
    (0, 2**31 + 1, -(2**31) + 1),
]


@pytest.mark.parametrize(("earlier", "later", "distance"), DISTANCES)
def test_distance_wraps_at_32_bits(earlier: int, later: int, distance: int) -> None:
    assert milliseconds_between(earlier, later) == distance


TIMESTAMPS = st.integers(0, TIMESTAMP_MODULUS - 1)


@given(TIMESTAMPS, TIMESTAMPS)
def test_timestamp_plus_distance_is_the_other_timestamp(earlier: int, later: int) -> None:
    distance = milliseconds_between(earlier, later)
    assert -(2**31) <= distance < 2**31
    assert (earlier + distance) % TIMESTAMP_MODULUS == later


def test_media_kinds_are_the_types_of_messages_and_tags() -> None:
    assert {kind.name: kind.value for kind in MediaKind} == {"AUDIO": 8, "VIDEO": 9, "DATA": 18}


def test_frames_are_immutable_and_compared_by_value() -> None:
    frame = MediaFrame(MediaKind.VIDEO, 5, b"x")
    assert frame == MediaFrame(MediaKind.VIDEO, 5, b"x")
    assert frame != MediaFrame(MediaKind.AUDIO, 5, b"x")
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        frame.timestamp_ms = 6  # type: ignore[misc]
