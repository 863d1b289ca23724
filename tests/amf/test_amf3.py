"""AMF3: values are decoded, alone and inside AMF0, and references and limits hold."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtmprelay.amf.amf0 import decode_all
from rtmprelay.amf.values import (
    MAX_DEPTH,
    UNDEFINED,
    AmfDate,
    AmfValue,
    Budget,
    EcmaArray,
    TypedObject,
    XmlDocument,
)
from rtmprelay.errors import LimitExceededError, RemoteProtocolError
from tests.amf.helpers import decode_amf3, shape

DOUBLE_ONE = b"\x3f\xf0\x00\x00\x00\x00\x00\x00"

# Lengths and counts are shifted left once, with a one for "not a reference": 3 items are 0x07.
VECTORS: dict[str, tuple[AmfValue, bytes]] = {
    "undefined": (UNDEFINED, b"\x00"),
    "null": (None, b"\x01"),
    "false": (False, b"\x02"),
    "true": (True, b"\x03"),
    "integer_0": (0, b"\x04\x00"),
    "integer_one_byte": (127, b"\x04\x7f"),
    "integer_two_bytes": (128, b"\x04\x81\x00"),
    "integer_most_of_two_bytes": (16383, b"\x04\xff\x7f"),
    "integer_three_bytes": (16384, b"\x04\x81\x80\x00"),
    "integer_four_bytes": (2097152, b"\x04\x80\xc0\x80\x00"),
    "integer_largest": (268435455, b"\x04\xbf\xff\xff\xff"),
    "integer_smallest": (-268435456, b"\x04\xc0\x80\x80\x00"),
    "integer_minus_1": (-1, b"\x04\xff\xff\xff\xff"),
    "double": (1.0, b"\x05" + DOUBLE_ONE),
    "string": ("test", b"\x06\x09test"),
    "string_empty": ("", b"\x06\x01"),
    "string_of_two_header_bytes": ("x" * 64, b"\x06\x81\x01" + b"x" * 64),
    "xml_document": (XmlDocument("<a/>"), b"\x07\x09<a/>"),
    "date": (AmfDate(1.0), b"\x08\x01" + DOUBLE_ONE),
    "array_empty": ([], b"\x09\x01\x01"),
    "array_dense": ([1, "a", None], b"\x09\x07\x01\x04\x01\x06\x03a\x01"),
    "array_associative": (EcmaArray({"k": 1}), b"\x09\x01\x03k\x04\x01\x01"),
    "array_mixed": (EcmaArray({"k": 1, "0": True, "1": None}), b"\x09\x05\x03k\x04\x01\x01\x03\x01"),
    "object_empty": ({}, b"\x0a\x0b\x01\x01"),
    "object_dynamic": ({"a": 1}, b"\x0a\x0b\x01\x03a\x04\x01\x01"),
    "object_sealed": (TypedObject("Pt", {"x": 1, "y": 2}), b"\x0a\x23\x05Pt\x03x\x03y\x04\x01\x04\x02"),
    "object_sealed_and_dynamic": (
        TypedObject("Pt", {"x": 1, "z": 3}),
        b"\x0a\x1b\x05Pt\x03x\x04\x01\x03z\x04\x03\x01",
    ),
    "xml": (XmlDocument("<b/>"), b"\x0b\x09<b/>"),
    "byte_array": (b"\x00\xff", b"\x0c\x05\x00\xff"),
    "byte_array_empty": (b"", b"\x0c\x01"),
    "vector_int": ([-1, 2], b"\x0d\x05\x00\xff\xff\xff\xff\x00\x00\x00\x02"),
    "vector_uint": ([4294967295], b"\x0e\x03\x01\xff\xff\xff\xff"),
    "vector_double": ([1.0], b"\x0f\x03\x00" + DOUBLE_ONE),
    "vector_object": (["a", None], b"\x10\x05\x00\x03C\x06\x03a\x01"),
    # The string "k" is sent once as a name and then referred to: as a name, and as a value.
    "string_references": (
        [{"k": 1}, {"k": "k"}],
        b"\x09\x05\x01\x0a\x0b\x01\x03k\x04\x01\x01\x0a\x01\x00\x06\x00\x01",
    ),
    "traits_reference": (
        [TypedObject("P", {"x": 1}), TypedObject("P", {"x": 2})],
        b"\x09\x05\x01\x0a\x13\x03P\x03x\x04\x01\x0a\x01\x04\x02",
    ),
}

vectors = pytest.mark.parametrize(("value", "data"), VECTORS.values(), ids=VECTORS.keys())


@vectors
def test_values_are_decoded(value: AmfValue, data: bytes) -> None:
    decoded, offset = decode_amf3(b"\xee" + data + b"\xff", 1)
    assert shape(decoded) == shape(value)
    assert offset == 1 + len(data)


@vectors
def test_values_inside_amf0_are_decoded(value: AmfValue, data: bytes) -> None:
    assert shape(decode_all(b"\x05\x11" + data + b"\x06")) == shape([None, value, UNDEFINED])


@vectors
def test_truncated_data_is_an_error(value: AmfValue, data: bytes) -> None:
    for cut in range(len(data)):
        with pytest.raises(RemoteProtocolError, match="cut short"):
            decode_amf3(data[:cut])


OBJECT_REFERENCES = {
    "xml_document": b"\x07\x02",
    "date": b"\x08\x02",
    "array_empty": b"\x09\x02",
    "array_mixed": b"\x09\x02",
    "object_dynamic": b"\x0a\x02",
    "object_sealed": b"\x0a\x02",
    "xml": b"\x0b\x02",
    "byte_array": b"\x0c\x02",
    "vector_int": b"\x0d\x02",
    "vector_uint": b"\x0e\x02",
    "vector_double": b"\x0f\x02",
    "vector_object": b"\x10\x02",
}


@pytest.mark.parametrize(("name", "reference"), OBJECT_REFERENCES.items())
def test_references_are_the_same_object(name: str, reference: bytes) -> None:
    # The list around them is object 0, so its first item is object 1.
    decoded, _ = decode_amf3(b"\x09\x05\x01" + VECTORS[name][1] + reference)
    assert isinstance(decoded, list)
    assert shape(decoded[0]) == shape(VECTORS[name][0])
    assert decoded[1] is decoded[0]


@pytest.mark.parametrize("data", [b"\x09\x03\x01\x09\x00", b"\x10\x03\x00\x01\x09\x00"])
def test_list_that_contains_itself_is_decoded(data: bytes) -> None:
    decoded, _ = decode_amf3(data)
    assert isinstance(decoded, list)
    assert decoded[0] is decoded


@pytest.mark.parametrize("data", [b"\x0a\x0b\x01\x03a\x0a\x00\x01", b"\x09\x01\x03a\x09\x00\x01"])
def test_object_that_contains_itself_is_decoded(data: bytes) -> None:
    decoded, _ = decode_amf3(data)
    assert isinstance(decoded, dict)
    assert decoded["a"] is decoded


def test_invalid_utf8_is_escaped() -> None:
    assert decode_amf3(b"\x06\x03\xff")[0] == "\\xff"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x12", "0x12 at offset 0 is unknown"),
        (b"\x11\x03\x00", "dictionary at offset 0 is not supported"),
        (b"\x0a\x07\x03E", "offset 1 is externalizable .class 'E'"),
        (b"\x06\x00", "string reference at offset 1 points to string 0, but only 0"),
        (b"\x06\x02", "points to string 1"),
        (b"\x09\x00", "reference at offset 1 points to value 0, but only 0"),
        (b"\x0a\x01", "traits reference at offset 1 points to class 0, but only 0"),
        (b"\x09\xff\xff\xff\xff\x01\x01", "a list of 268435455 items"),
        (b"\x0f\xff\xff\xff\xff\x00", "a vector at offset 6 needs 2147483640 bytes"),
    ],
)
def test_error_names_the_value_and_its_offset(data: bytes, message: str) -> None:
    with pytest.raises(RemoteProtocolError, match=message):
        decode_amf3(data)


@pytest.mark.parametrize(
    "opening",
    [b"\x09\x03\x01", b"\x09\x01\x03a", b"\x0a\x0b\x01\x03a", b"\x0a\x13\x01\x03a", b"\x10\x03\x00\x01"],
    ids=["dense", "associative", "dynamic", "sealed", "vector"],
)
def test_deeply_nested_value_is_refused(opening: bytes) -> None:
    with pytest.raises(LimitExceededError) as caught:
        decode_amf3(opening * 10000)
    assert caught.value.limit == "amf_depth"


def test_value_of_the_largest_depth_is_decoded() -> None:
    decode_amf3(b"\x09\x03\x01" * MAX_DEPTH + b"\x01")
    with pytest.raises(LimitExceededError):
        decode_amf3(b"\x09\x03\x01" * (MAX_DEPTH + 1) + b"\x01")


def test_depth_is_shared_with_amf0() -> None:
    amf0_levels = b"\x0a\x00\x00\x00\x01" * (MAX_DEPTH - 1) + b"\x11"
    decode_all(amf0_levels + b"\x09\x03\x01\x01")
    with pytest.raises(LimitExceededError):
        decode_all(amf0_levels + b"\x09\x03\x01\x09\x01\x01")


@pytest.mark.parametrize(
    "data",
    [
        b"\x09\x07\x01\x01\x01\x01",
        b"\x0d\x07\x00" + bytes(12),
        b"\x09\x05\x03a\x01\x01\x01\x01",
        b"\x0a\x33\x01\x03a\x03b\x03c\x01\x01\x01",
    ],
    ids=["dense", "vector", "mixed", "names"],
)
def test_too_many_values_are_refused(data: bytes) -> None:
    with pytest.raises(LimitExceededError) as caught:
        decode_amf3(data, budget=Budget(max_values=3))
    assert caught.value.limit == "amf_values"


def test_values_are_counted_with_those_of_amf0() -> None:
    data = b"\x05\x05\x11\x09\x03\x01\x01"
    assert decode_all(data, max_values=5) == [None, None, [None]]
    with pytest.raises(LimitExceededError):
        decode_all(data, max_values=4)


def test_references_cannot_multiply_values() -> None:
    # List n contains list n - 1 twice, by reference; the numbers 2 to 80 are their headers.
    inner = b"".join(b"\x09\x05\x01" + bytes((9, 2 * number)) * 2 for number in range(1, 40))
    with pytest.raises(LimitExceededError):
        decode_amf3(b"\x09\x51\x01" + b"\x09\x01\x01" + inner)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_a_value_inside_them_or_a_remote_protocol_error(data: bytes) -> None:
    with contextlib.suppress(RemoteProtocolError):
        _, offset = decode_amf3(data)
        assert 0 < offset <= len(data)


# Bytes that are markers, headers or references more often than random ones.
tokens = st.one_of(
    st.sampled_from(
        [b"\x09\x05\x01", b"\x09\x03\x03k", b"\x0a\x0b\x01", b"\x0a\x13\x03C\x03x", b"\x0a\x01", b"\x01"]
    ),
    st.sampled_from(
        [b"\x09\x00", b"\x09\x02", b"\x0a\x02", b"\x06\x00", b"\x04\x07", b"\x10\x05\x00\x01", b"\x03n"]
    ),
    st.binary(min_size=1, max_size=2),
)


@given(st.lists(tokens, min_size=1, max_size=40))
def test_nearly_valid_bytes_raise_only_remote_protocol_errors(parts: list[bytes]) -> None:
    data = b"".join(parts)
    try:
        _, offset = decode_amf3(data)
    except RemoteProtocolError:
        return
    assert 0 < offset <= len(data)
