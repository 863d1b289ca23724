"""What a worker knows of a part of a file, and sends if others read the rest of it."""

from __future__ import annotations

import pickle

import attrs
import numpy as np

from rtmprelay.amf.amf0 import AmfValue
from spark_analytics.recordings.beginning import Beginning
from spark_analytics.recordings.part import Part


@attrs.frozen(eq=False)
class PartResult:
    """What is known of a part of a file.

    Attributes:
        begin: Where its first tag begins; equal to `end` if none begins in it.
        end: Where the first tag of the next part begins.
        metadata: Some of what the metadata at the start of the file says.
        has_header: Whether the file has a file header, and whether it begins with those of one.
        error: Why it could not be read; then there is nothing else.
    """

    begin: int = 0
    end: int = 0
    part: Part = attrs.field(factory=Part)
    beginning: Beginning = attrs.field(factory=Beginning)
    metadata: dict[str, AmfValue] = attrs.field(factory=dict)
    has_header: bool = False
    has_signature: bool = False
    error: str | None = None

    def packed(self) -> bytes:
        """As bytes. Most of the steps are never made."""
        made = np.flatnonzero(self.part.steps)
        sparse = made.astype(np.int32), self.part.steps[made]
        bare = attrs.evolve(self, part=attrs.evolve(self.part, steps=np.empty(0, np.int64)))
        return pickle.dumps((bare, *sparse), pickle.HIGHEST_PROTOCOL)

    @classmethod
    def unpacked(cls, data: bytes) -> PartResult:
        """From bytes that a worker of this same program made."""
        result, made, counts = pickle.loads(data)
        steps = Part().steps
        steps[made] = counts
        result.part.steps = steps
        assert isinstance(result, PartResult)
        return result


def reason_of(error: Exception) -> str:
    """Why a file could not be read, in the words of a row."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return f"{type(error).__name__}: {error}" if not isinstance(error, OSError) else str(error)
