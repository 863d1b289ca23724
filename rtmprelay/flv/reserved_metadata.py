"""The onMetaData tag at the start of a recording: written when little is known, completed in place at the end.

Behind the values comes space, as AMF nulls: readers take the one value and leave what follows it alone. At the
end the space is overwritten from the end of the old values on, and only then the part before. Until that last
write, which for metadata of usual size lies in one page, the old values stand, with their end mark; after it
the new ones. So there is no moment at which a crash leaves half of each.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from rtmprelay.amf.amf0 import AmfValue
from rtmprelay.errors import LocalProtocolError
from rtmprelay.flv.keyframe_index import KeyframeIndex
from rtmprelay.flv.script import encode_metadata

#: Room for 3,600 keyframes: two hours with one every two seconds. Longer recordings keep fewer of them.
DEFAULT_SPACE = 64 * 1024

#: Room for what is said of the file itself, besides the keyframes.
LEAST_SPACE = 512

#: More would not fit into one AMF message of 100,000 values when it is read back.
MOST_INDEXED = 40_000

_NULL = b"\x05"


@attrs.frozen
class ReservedMetadata:
    """The payload of the tag as it is first written.

    Attributes:
        values_end: Where in the payload the values end and the space begins.
    """

    payload: bytes
    values_end: int

    @classmethod
    def with_space(cls, values: Mapping[str, AmfValue], space: int = DEFAULT_SPACE) -> ReservedMetadata:
        """These values, and space for more; values that cannot be written are left out."""
        encoded = _encode_what_can_be(values)
        return cls(encoded + _NULL * max(space, LEAST_SPACE), len(encoded))

    def completed(
        self, values: Mapping[str, AmfValue], fallback: Mapping[str, AmfValue], index: KeyframeIndex
    ) -> bytes:
        """A payload of the same size with other values and as many keyframes as fit.

        Args:
            values: What it is to say.
            fallback: The part of it to say if there is no space for all.
        """
        size = len(self.payload)
        encoded = _encode_what_can_be(values)
        if len(encoded) > size:
            values, encoded = fallback, _encode_what_can_be(fallback)
        if len(encoded) > size:
            return self.payload
        keyframes = index.as_amf(size - len(encoded))
        if keyframes is not None:
            encoded = _encode_what_can_be({**values, "keyframes": keyframes})
        return encoded.ljust(size, _NULL)


def whole_payload(values: Mapping[str, AmfValue], index: KeyframeIndex) -> bytes:
    """The payload without any space left, for a file that is written when all is known."""
    space = 100 + 18 * min(len(index), MOST_INDEXED)
    return ReservedMetadata(bytes(len(_encode_what_can_be(values)) + space), 0).completed(
        values, values, index
    )


def _encode_what_can_be(values: Mapping[str, AmfValue]) -> bytes:
    try:
        return encode_metadata(values)
    except LocalProtocolError:
        # A publisher's metadata may hold what only a reader understands: AMF3, or a value inside itself.
        return encode_metadata({name: value for name, value in values.items() if _can_be_encoded(value)})


def _can_be_encoded(value: AmfValue) -> bool:
    try:
        encode_metadata({"": value})
    except LocalProtocolError:
        return False
    return True
