"""AMF0: values are decoded, and references and limits hold."""

from __future__ import annotations

import math
import time

import pytest

from rtmprelay.amf.amf0 import (
    MAX_DEPTH,
    MAX_VALUES,
    UNDEFINED,
    UNSUPPORTED,
    AmfDate,
    AmfValue,
    EcmaArray,
    TypedObject,
    XmlDocument,
    decode_all,
    decode_first,
    encode,
)
from rtmprelay.errors import LimitExceededError, LocalProtocolError, RemoteProtocolError
from tests.amf.helpers import shape

ONE = b"\x00\x3f\xf0\x00\x00\x00\x00\x00\x00"
TWO = b"\x00\x40\x00\x00\x00\x00\x00\x00\x00"
END = b"\x00\x00\x09"

VECTORS: dict[str, tuple[AmfValue, bytes]] = {
    "number_0": (0.0, b"\x00\x00\x00\x00\x00\x00\x00\x00\x00"),
    "number_1_5": (1.5, b"\x00\x3f\xf8\x00\x00\x00\x00\x00\x00"),
    "number_minus_2": (-2.0, b"\x00\xc0\x00\x00\x00\x00\x00\x00\x00"),
    "number_infinity": (math.inf, b"\x00\x7f\xf0\x00\x00\x00\x00\x00\x00"),
    "boolean_true": (True, b"\x01\x01"),
    "boolean_false": (False, b"\x01\x00"),
    "string": ("test", b"\x02\x00\x04test"),
    "string_empty": ("", b"\x02\x00\x00"),
    "string_two_byte_letter": ("é", b"\x02\x00\x02\xc3\xa9"),
    "string_longest_short": ("x" * 65535, b"\x02\xff\xff" + b"x" * 65535),
    "string_shortest_long": ("x" * 65536, b"\x0c\x00\x01\x00\x00" + b"x" * 65536),
    "object_empty": ({}, b"\x03" + END),
    "object_simple": ({"key": "value"}, b"\x03\x00\x03key\x02\x00\x05value\x00\x00\x09"),
    "object_nested": ({"a": {"b": 1.0}}, b"\x03\x00\x01a\x03\x00\x01b" + ONE + END + END),
    "object_empty_name": ({"": None, "a": True}, b"\x03\x00\x00\x05\x00\x01a\x01\x01" + END),
    "null": (None, b"\x05"),
    "undefined": (UNDEFINED, b"\x06"),
    "ecma_array_empty": (EcmaArray(), b"\x08\x00\x00\x00\x00" + END),
    "ecma_array": (
        EcmaArray({"width": 2.0, "x": "y"}),
        b"\x08\x00\x00\x00\x02\x00\x05width" + TWO + b"\x00\x01x\x02\x00\x01y" + END,
    ),
    "strict_array_empty": ([], b"\x0a\x00\x00\x00\x00"),
    "strict_array": (
        [1.0, 2.0, 3.0],
        b"\x0a\x00\x00\x00\x03\x00\x3f\xf0\x00\x00\x00\x00\x00\x00"
        b"\x00\x40\x00\x00\x00\x00\x00\x00\x00\x00\x40\x08\x00\x00\x00\x00\x00\x00",
    ),
    "date": (AmfDate(1.0), b"\x0b\x3f\xf0\x00\x00\x00\x00\x00\x00\x00\x00"),
    "date_in_zone": (AmfDate(2.0, -60), b"\x0b\x40\x00\x00\x00\x00\x00\x00\x00\xff\xc4"),
    "unsupported": (UNSUPPORTED, b"\x0d"),
    "xml_document": (XmlDocument("<a/>"), b"\x0f\x00\x00\x00\x04<a/>"),
    "typed_object": (
        TypedObject("Point", {"x": 1.0}),
        b"\x10\x00\x05Point\x00\x01x" + ONE + END,
    ),
    "array_in_ecma_array": (
        EcmaArray({"list": [None, EcmaArray()]}),
        b"\x08\x00\x00\x00\x01\x00\x04list\x0a\x00\x00\x00\x02\x05\x08\x00\x00\x00\x00" + END + END,
    ),
}

vectors = pytest.mark.parametrize(("value", "data"), VECTORS.values(), ids=VECTORS.keys())


@vectors
def test_values_are_encoded(value: AmfValue, data: bytes) -> None:
    assert encode(value) == data


@vectors
def test_values_are_decoded(value: AmfValue, data: bytes) -> None:
    assert shape(decode_all(data)) == shape([value])


@vectors
def test_decode_first_stops_after_the_value(value: AmfValue, data: bytes) -> None:
    decoded, offset = decode_first(b"\x05" + data + b"\xff", 1)
    assert shape(decoded) == shape(value)
    assert offset == 1 + len(data)


@vectors
def test_truncated_data_is_an_error(value: AmfValue, data: bytes) -> None:
    cuts = range(len(data)) if len(data) < 1000 else (0, 1, 2, 3, len(data) // 2, len(data) - 1)
    for cut in cuts:
        with pytest.raises(RemoteProtocolError, match="cut short"):
            # Inside a list, because the end of an outermost object may be missing.
            decode_first(b"\x0a\x00\x00\x00\x01" + data[:cut])


# Where the data may end: before a name of the outermost object or ECMA array.
OUTERMOST_KEY_BOUNDARIES = {
    "object_empty": {1},
    "object_simple": {1, 14},
    "object_nested": {1, 20},
    "object_empty_name": {1, 4, 9},
    "ecma_array_empty": {5},
    "ecma_array": {5, 21, 28},
    "array_in_ecma_array": {5, 25},
}


@pytest.mark.parametrize("name", VECTORS.keys())
def test_only_an_outermost_object_may_have_no_end(name: str) -> None:
    data = VECTORS[name][1]
    if len(data) > 1000:
        return
    accepted = set()
    for cut in range(len(data)):
        try:
            decode_first(data[:cut])
        except RemoteProtocolError:
            continue
        accepted.add(cut)
    assert accepted == OUTERMOST_KEY_BOUNDARIES.get(name, set())


def test_object_without_end_marker_keeps_its_properties() -> None:
    assert decode_all(b"\x05\x08\x00\x00\x00\x09\x00\x01a" + ONE) == [None, {"a": 1.0}]


@pytest.mark.parametrize("count", [b"\x00\x00\x00\x00", b"\xff\xff\xff\xff"])
def test_announced_count_of_ecma_array_is_ignored(count: bytes) -> None:
    assert decode_all(b"\x08" + count + b"\x00\x01a\x05" + END + b"\x06") == [{"a": None}, UNDEFINED]


def test_several_values_make_a_message() -> None:
    data = b"\x02\x00\x07connect" + ONE + b"\x03\x00\x03app\x02\x00\x04live" + END
    assert encode("connect", 1, {"app": "live"}) == data
    assert decode_all(data) == ["connect", 1.0, {"app": "live"}]


def test_no_bytes_contain_no_values() -> None:
    assert decode_all(b"") == []
    assert encode() == b""


def test_any_byte_except_zero_is_true() -> None:
    assert decode_all(b"\x01\x02") == [True]


def test_later_property_of_the_same_name_wins() -> None:
    assert decode_all(b"\x03\x00\x01a\x05\x00\x01a\x06" + END) == [{"a": UNDEFINED}]


def test_amf3_values_share_tables_in_one_message() -> None:
    assert decode_all(b"\x11\x06\x05hi\x05\x11\x06\x00") == ["hi", None, "hi"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x05\x04", r"0x04 at offset 1 is reserved"),
        (b"\x0e", r"0x0e at offset 0 is reserved"),
        (b"\x12", r"0x12 at offset 0 is unknown"),
        (b"\x09", r"0x09 at offset 0 ends an object"),
        (b"\x03\x00\x01a\x09", r"0x09 at offset 4 ends an object"),
        (b"\x05\x07\x00\x00", r"offset 1 points to value 0, but only 0 came before"),
        (b"\x02\x00\x05abc", r"a string at offset 3 needs 5 bytes, and 3 are left"),
        (b"\x0a\xff\xff\xff\xff\x05", r"4294967295 items at offset 5"),
    ],
)
def test_error_names_the_value_and_its_offset(data: bytes, message: str) -> None:
    with pytest.raises(RemoteProtocolError, match=message):
        decode_all(data)


def test_decode_first_needs_a_value_at_the_offset() -> None:
    with pytest.raises(RemoteProtocolError, match="cut short"):
        decode_first(b"\x05", 7)
    with pytest.raises(LocalProtocolError, match="negative"):
        decode_first(b"\x05", -1)


# -- text that is not UTF-8


def test_invalid_utf8_stays_distinct_and_printable() -> None:
    decoded = decode_all(b"\x03\x00\x01\xff\x05\x00\x01\xfe\x05" + END)
    assert decoded == [{"\\xff": None, "\\xfe": None}]


def test_lone_surrogate_is_escaped() -> None:
    assert encode("\ud800") == b"\x02\x00\x06\\ud800"
    assert encode({"\udfff": None}) == b"\x03\x00\x06\\udfff\x05" + END


# -- references


def test_every_kind_of_container_can_be_referred_to() -> None:
    containers: list[AmfValue] = [{}, EcmaArray(), [], TypedObject("T")]
    references = b"\x07\x00\x00\x07\x00\x01\x07\x00\x02\x07\x00\x03"
    # The values between the containers have no number.
    decoded = decode_all(encode({}, 1, EcmaArray(), "s", [], AmfDate(0), TypedObject("T")) + references)
    originals = [decoded[0], decoded[2], decoded[4], decoded[6]]
    assert shape(originals) == shape(containers)
    for original, referred in zip(originals, decoded[7:], strict=True):
        assert referred is original


def test_containers_are_numbered_in_order_of_appearance() -> None:
    decoded = decode_all(b"\x0a\x00\x00\x00\x01\x03" + END + b"\x07\x00\x01")
    outer = decoded[0]
    assert isinstance(outer, list)
    assert decoded[1] is outer[0]


def test_object_that_refers_to_itself_is_decoded_but_not_encoded() -> None:
    [value] = decode_all(b"\x03\x00\x04self\x07\x00\x00" + END)
    assert isinstance(value, dict)
    assert value["self"] is value
    assert repr(value) == "{'self': {...}}"
    with pytest.raises(LocalProtocolError, match="in itself"):
        encode(value)


def test_references_cannot_multiply_values() -> None:
    # Each list contains the one before it twice: the last of 40 would be printed as 2**40 values.
    data = b"\x0a\x00\x00\x00\x00" + b"".join(
        b"\x0a\x00\x00\x00\x02" + (b"\x07" + index.to_bytes(2, "big")) * 2 for index in range(40)
    )
    with pytest.raises(LimitExceededError) as caught:
        decode_all(data)
    assert caught.value.limit == "amf_values"


def test_depth_of_references_adds_up() -> None:
    def chain(length: int) -> bytes:
        links = (b"\x0a\x00\x00\x00\x01\x07" + index.to_bytes(2, "big") for index in range(length - 1))
        return b"\x0a\x00\x00\x00\x00" + b"".join(links)

    assert len(decode_all(chain(MAX_DEPTH))) == MAX_DEPTH
    with pytest.raises(LimitExceededError) as caught:
        decode_all(chain(MAX_DEPTH + 1))
    assert caught.value.limit == "amf_depth"


def test_depth_of_siblings_does_not_add_up() -> None:
    # A deep value must not count for the values after it.
    deep = b"\x0a\x00\x00\x00\x01" * (MAX_DEPTH - 1) + b"\x0a\x00\x00\x00\x00"
    shallow = b"\x0a\x00\x00\x00\x01\x03" + END
    reference = b"\x0a\x00\x00\x00\x01\x07" + MAX_DEPTH.to_bytes(2, "big")
    assert decode_all(deep + shallow + reference)[1:] == [[{}], [[{}]]]


# -- limits


def test_deeply_nested_value_is_refused() -> None:
    with pytest.raises(LimitExceededError) as caught:
        decode_all(b"\x03\x00\x01a" * 10000)
    assert caught.value.limit == "amf_depth"


@pytest.mark.parametrize(
    "opening", [b"\x03\x00\x01a", b"\x08\0\0\0\0\0\x01a", b"\x0a\0\0\0\x01", b"\x10\0\0\0\x01a"]
)
def test_value_of_the_largest_depth_is_decoded(opening: bytes) -> None:
    closing = b"" if opening[0] == 0x0A else END
    decode_all(opening * MAX_DEPTH + b"\x05" + closing * MAX_DEPTH)
    with pytest.raises(LimitExceededError):
        decode_all(opening * (MAX_DEPTH + 1) + b"\x05" + closing * (MAX_DEPTH + 1))


def test_caller_can_lower_the_depth_limit() -> None:
    assert decode_all(b"\x05\x03" + END, max_depth=1) == [None, {}]
    with pytest.raises(LimitExceededError):
        decode_all(b"\x03" + END, max_depth=0)


@pytest.mark.parametrize(
    "data",
    [
        b"\x05" * (MAX_VALUES + 1),
        b"\x0a" + MAX_VALUES.to_bytes(4, "big") + b"\x05" * MAX_VALUES,
        b"\x03" + b"\x00\x01a\x05" * MAX_VALUES + END,
        b"\x08\x00\x00\x00\x00" + b"\x00\x01a\x05" * MAX_VALUES + END,
    ],
    ids=["top", "strict", "object", "ecma"],
)
def test_too_many_values_are_refused(data: bytes) -> None:
    with pytest.raises(LimitExceededError) as caught:
        decode_all(data)
    assert caught.value.limit == "amf_values"


def test_values_up_to_the_limit_are_decoded() -> None:
    assert len(decode_all(b"\x05" * MAX_VALUES)) == MAX_VALUES
    assert decode_all(b"\x03\x00\x01a\x05" + END, max_values=2) == [{"a": None}]
    with pytest.raises(LimitExceededError):
        decode_all(b"\x03\x00\x01a\x05" + END, max_values=1)


def test_decoding_time_is_linear() -> None:
    data = encode(EcmaArray({"times": [float(number) for number in range(50_000)]}))
    started = time.thread_time()
    decode_all(data)
    # Usually it takes a hundredth of that; a decoder that is not linear would take minutes.
    assert time.thread_time() - started < 5
