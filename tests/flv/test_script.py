"""The metadata of a stream as script data, with the envelope of publishers and without."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtmprelay.amf.amf0 import AmfValue, encode
from rtmprelay.flv.script import (
    decode_metadata,
    encode_metadata,
    is_clear_data_frame,
    is_metadata,
    with_set_data_frame,
    without_set_data_frame,
)

VALUES: dict[str, AmfValue] = {"width": 1920.0, "stereo": True, "encoder": "obs-output module"}
PLAIN = (
    b"\x02\x00\x0aonMetaData"
    + b"\x08\x00\x00\x00\x01\x00\x05width\x00\x40\x9e\x00\x00\x00\x00\x00\x00\x00\x00\x09"
)
ENVELOPED = b"\x02\x00\x0d@setDataFrame" + PLAIN
CLEAR = b"\x02\x00\x0f@clearDataFrame\x02\x00\x0aonMetaData"
CUE_POINT = encode("onCuePoint", {"name": "goal"})


def test_metadata_has_the_bytes_of_the_format() -> None:
    assert encode_metadata({"width": 1920}) == PLAIN


def test_metadata_is_read_as_it_was_written() -> None:
    assert decode_metadata(encode_metadata(VALUES)) == VALUES


@pytest.mark.parametrize(
    "payload", [PLAIN, ENVELOPED, encode("onMetaData", {"width": 1920}), PLAIN + b"\x05", PLAIN[:-3]]
)
def test_metadata_is_read_with_and_without_envelope_as_object_or_array(payload: bytes) -> None:
    assert decode_metadata(payload) == {"width": 1920.0}


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\x05",
        CUE_POINT,
        CLEAR,
        encode("@setDataFrame", "onCuePoint", {}),
        encode("onMetaData", 5),
        encode("onMetaData"),
        PLAIN[:-4],
    ],
)
def test_other_script_data_is_no_metadata(payload: bytes) -> None:
    assert decode_metadata(payload) is None


def test_metadata_is_recognised_by_its_first_bytes() -> None:
    assert is_metadata(PLAIN)
    assert is_metadata(ENVELOPED)
    assert is_metadata(PLAIN[:14])
    assert not is_metadata(CUE_POINT)
    assert not is_metadata(with_set_data_frame(CUE_POINT))
    assert not is_metadata(b"")


def test_withdrawn_metadata_is_recognised() -> None:
    assert is_clear_data_frame(CLEAR)
    assert not is_clear_data_frame(PLAIN)
    assert not is_clear_data_frame(ENVELOPED)


def test_envelope_is_added_and_removed_once() -> None:
    assert with_set_data_frame(PLAIN) == ENVELOPED
    assert with_set_data_frame(ENVELOPED) == ENVELOPED
    assert without_set_data_frame(ENVELOPED) == PLAIN
    assert without_set_data_frame(PLAIN) == PLAIN
    assert without_set_data_frame(CLEAR) == CLEAR


@given(st.binary(max_size=64), st.sampled_from([b"", PLAIN[:13], ENVELOPED[:29], PLAIN[:18]]))
def test_arbitrary_bytes_never_raise(tail: bytes, start: bytes) -> None:
    payload = start + tail
    assert decode_metadata(payload) is None or is_metadata(payload)
    assert without_set_data_frame(with_set_data_frame(payload)) == without_set_data_frame(payload)
