from __future__ import annotations

import contextlib
import copy
import enum
import math
import pickle
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtmprelay.amf.amf0 import (
    MAX_DEPTH,
    MAX_ENCODED_BYTES,
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


def shape(value: AmfValue) -> object:
    """The value with its types spelled out: dicts of different kinds compare equal, True equals 1.0."""
    kind = type(value)
    if isinstance(value, TypedObject):
        return kind, value.class_name, [(key, shape(item)) for key, item in value.items()]
    if isinstance(value, dict):
        return kind, [(key, shape(item)) for key, item in value.items()]
    if isinstance(value, list):
        return kind, [shape(item) for item in value]
    return kind, value


@vectors
def test_encode_writes_the_bytes(value: AmfValue, data: bytes) -> None:
    assert encode(value) == data


@vectors
def test_decode_reads_the_value(value: AmfValue, data: bytes) -> None:
    assert shape(decode_all(data)) == shape([value])


@vectors
def test_decode_first_stops_behind_the_value(value: AmfValue, data: bytes) -> None:
    decoded, offset = decode_first(b"\x05" + data + b"\xff", 1)
    assert shape(decoded) == shape(value)
    assert offset == 1 + len(data)


@vectors
def test_truncated_data_is_an_error(value: AmfValue, data: bytes) -> None:
    cuts = range(len(data)) if len(data) < 1000 else (0, 1, 2, 3, len(data) // 2, len(data) - 1)
    for cut in cuts:
        with pytest.raises(RemoteProtocolError, match="cut short"):
            # Inside of a list, no object is the outermost one, whose end may be missing.
            decode_first(b"\x0a\x00\x00\x00\x01" + data[:cut])


# Where the data may stop: in front of a name of the outermost object or ECMA array.
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
def test_only_an_outermost_object_may_lack_its_end(name: str) -> None:
    data = VECTORS[name][1]
    if len(data) > 1000:
        return
    tolerated = set()
    for cut in range(len(data)):
        try:
            decode_first(data[:cut])
        except RemoteProtocolError:
            continue
        tolerated.add(cut)
    assert tolerated == OUTERMOST_KEY_BOUNDARIES.get(name, set())


def test_object_without_end_marker_keeps_its_properties() -> None:
    assert decode_all(b"\x05\x08\x00\x00\x00\x09\x00\x01a" + ONE) == [None, {"a": 1.0}]


@pytest.mark.parametrize("count", [b"\x00\x00\x00\x00", b"\xff\xff\xff\xff"])
def test_announced_count_of_ecma_array_is_ignored(count: bytes) -> None:
    assert decode_all(b"\x08" + count + b"\x00\x01a\x05" + END + b"\x06") == [{"a": None}, UNDEFINED]


def test_message_of_several_values() -> None:
    data = b"\x02\x00\x07connect" + ONE + b"\x03\x00\x03app\x02\x00\x04live" + END
    assert encode("connect", 1, {"app": "live"}) == data
    assert decode_all(data) == ["connect", 1.0, {"app": "live"}]


def test_no_bytes_are_no_values() -> None:
    assert decode_all(b"") == []
    assert encode() == b""


def test_any_byte_but_zero_is_true() -> None:
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
def test_error_says_what_and_where(data: bytes, message: str) -> None:
    with pytest.raises(RemoteProtocolError, match=message):
        decode_all(data)


def test_decode_first_needs_a_value_at_the_offset() -> None:
    with pytest.raises(RemoteProtocolError, match="cut short"):
        decode_first(b"\x05", 7)
    with pytest.raises(LocalProtocolError, match="negative"):
        decode_first(b"\x05", -1)


# -- text that is no UTF-8


def test_invalid_utf8_stays_distinct_and_printable() -> None:
    decoded = decode_all(b"\x03\x00\x01\xff\x05\x00\x01\xfe\x05" + END)
    assert decoded == [{"\\xff": None, "\\xfe": None}]


def test_lone_surrogate_is_escaped() -> None:
    assert encode("\ud800") == b"\x02\x00\x06\\ud800"
    assert encode({"\udfff": None}) == b"\x03\x00\x06\\udfff\x05" + END


# -- references


def test_every_kind_of_container_counts_as_referable() -> None:
    containers: list[AmfValue] = [{}, EcmaArray(), [], TypedObject("T")]
    references = b"\x07\x00\x00\x07\x00\x01\x07\x00\x02\x07\x00\x03"
    # Values that are no containers lie in between and must not count.
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


def test_object_that_refers_to_itself() -> None:
    [value] = decode_all(b"\x03\x00\x04self\x07\x00\x00" + END)
    assert isinstance(value, dict)
    assert value["self"] is value
    assert repr(value) == "{'self': {...}}"
    with pytest.raises(LocalProtocolError, match="in itself"):
        encode(value)


def test_shared_value_is_written_twice() -> None:
    shared: AmfValue = [1.0]
    assert encode([shared, shared]) == encode([[1.0], [1.0]])


def test_references_cannot_multiply_values() -> None:
    # Each list holds the one before it twice: the last of 40 would print as 2**40 values.
    data = b"\x0a\x00\x00\x00\x00" + b"".join(
        b"\x0a\x00\x00\x00\x02" + (b"\x07" + index.to_bytes(2, "big")) * 2 for index in range(40)
    )
    with pytest.raises(LimitExceededError) as caught:
        decode_all(data)
    assert caught.value.limit == "amf_values"


def test_references_cannot_add_up_to_depth() -> None:
    def chain(length: int) -> bytes:
        links = (b"\x0a\x00\x00\x00\x01\x07" + index.to_bytes(2, "big") for index in range(length - 1))
        return b"\x0a\x00\x00\x00\x00" + b"".join(links)

    assert len(decode_all(chain(MAX_DEPTH))) == MAX_DEPTH
    with pytest.raises(LimitExceededError) as caught:
        decode_all(chain(MAX_DEPTH + 1))
    assert caught.value.limit == "amf_depth"


def test_siblings_do_not_add_up_to_depth() -> None:
    # A deep value closed before must not count for what comes behind it.
    deep = b"\x0a\x00\x00\x00\x01" * (MAX_DEPTH - 1) + b"\x0a\x00\x00\x00\x00"
    shallow = b"\x0a\x00\x00\x00\x01\x03" + END
    reference = b"\x0a\x00\x00\x00\x01\x07" + MAX_DEPTH.to_bytes(2, "big")
    assert decode_all(deep + shallow + reference)[1:] == [[{}], [[{}]]]


# -- limits


def test_depth_bomb() -> None:
    with pytest.raises(LimitExceededError) as caught:
        decode_all(b"\x03\x00\x01a" * 10000)
    assert caught.value.limit == "amf_depth"


@pytest.mark.parametrize(
    "opening", [b"\x03\x00\x01a", b"\x08\0\0\0\0\0\x01a", b"\x0a\0\0\0\x01", b"\x10\0\0\0\x01a"]
)
def test_deepest_allowed_value(opening: bytes) -> None:
    closing = b"" if opening[0] == 0x0A else END
    decode_all(opening * MAX_DEPTH + b"\x05" + closing * MAX_DEPTH)
    with pytest.raises(LimitExceededError):
        decode_all(opening * (MAX_DEPTH + 1) + b"\x05" + closing * (MAX_DEPTH + 1))


def test_depth_limit_of_the_caller() -> None:
    assert decode_all(b"\x05\x03" + END, max_depth=1) == [None, {}]
    with pytest.raises(LimitExceededError):
        decode_first(b"\x03" + END, max_depth=0)


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
def test_count_bomb(data: bytes) -> None:
    with pytest.raises(LimitExceededError) as caught:
        decode_all(data)
    assert caught.value.limit == "amf_values"


def test_as_many_values_as_allowed() -> None:
    assert len(decode_all(b"\x05" * MAX_VALUES)) == MAX_VALUES
    assert decode_first(b"\x03\x00\x01a\x05" + END, max_values=2)[0] == {"a": None}
    with pytest.raises(LimitExceededError):
        decode_first(b"\x03\x00\x01a\x05" + END, max_values=1)


def test_large_message_decodes_quickly() -> None:
    data = encode(EcmaArray({"times": [float(number) for number in range(50_000)]}))
    started = time.thread_time()
    decode_all(data)
    # A hundredth of that is usual; a decoder that is not linear would take minutes.
    assert time.thread_time() - started < 5


# -- what cannot be encoded


class Level(enum.IntEnum):
    HIGH = 2


class Word(enum.StrEnum):
    HELLO = "test"


def test_subclasses_are_written_as_their_base() -> None:
    assert encode(Level.HIGH) == TWO
    assert encode(Word.HELLO) == b"\x02\x00\x04test"
    assert encode(2) == TWO


@pytest.mark.parametrize("value", [(1,), {1}, b"bytes", object()], ids=["tuple", "set", "bytes", "object"])
def test_other_types_cannot_be_encoded(value: AmfValue) -> None:
    with pytest.raises(LocalProtocolError, match=f"type {type(value).__qualname__} "):
        encode([value])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({1: None}, "a str, not int"),
        ({"x" * 65536: None}, "65535 bytes at most, not 65536"),
        (TypedObject("x" * 65536), "65535 bytes at most"),
        (10**400, "range of a double"),
        (AmfDate(0, 32768), "AmfDate"),
        (AmfDate(10**5000), "AmfDate"),
        ([None] * MAX_VALUES, "More than 100000 values"),
        ("x" * (MAX_ENCODED_BYTES + 1), "does not fit"),
        (["x" * 1_000_000] * 17, "longer than 16777215 bytes"),
    ],
    ids=["key", "long_key", "long_class", "huge", "zone", "huge_date", "count", "string", "strings"],
)
def test_values_out_of_range_cannot_be_encoded(value: AmfValue, message: str) -> None:
    with pytest.raises(LocalProtocolError, match=message):
        encode(value)


def nested_lists(depth: int) -> AmfValue:
    value: AmfValue = None
    for _ in range(depth):
        value = [value]
    return value


def test_encode_depth() -> None:
    assert decode_all(encode(nested_lists(MAX_DEPTH))) == [nested_lists(MAX_DEPTH)]
    with pytest.raises(LocalProtocolError, match="deeper than 32"):
        encode(nested_lists(MAX_DEPTH + 1))


def test_encode_of_values_shared_many_times_is_bounded() -> None:
    value: AmfValue = []
    for _ in range(MAX_DEPTH - 1):
        value = [value, value]
    with pytest.raises(LocalProtocolError, match="More than"):
        encode(value)


# -- the values themselves


def test_singletons() -> None:
    for singleton, name in ((UNDEFINED, "UNDEFINED"), (UNSUPPORTED, "UNSUPPORTED")):
        assert repr(singleton) == name
        assert not singleton
        assert copy.deepcopy(singleton) is singleton
        assert pickle.loads(pickle.dumps(singleton)) is singleton


def test_reprs_name_the_type() -> None:
    assert repr(EcmaArray(a=1)) == "EcmaArray({'a': 1})"
    assert repr(TypedObject("C", {"a": 1})) == "TypedObject('C', {'a': 1})"
    assert repr(XmlDocument("<a/>")) == "XmlDocument('<a/>')"


# -- arbitrary values and bytes

names = st.text(st.characters(codec="utf-8"), max_size=8)
scalars: st.SearchStrategy[AmfValue] = st.one_of(
    st.none(),
    st.booleans(),
    st.floats(allow_nan=False),
    st.text(st.characters(codec="utf-8")),
    st.sampled_from([UNDEFINED, UNSUPPORTED]),
    st.builds(XmlDocument, names),
    st.builds(AmfDate, st.floats(allow_nan=False), st.integers(-(2**15), 2**15 - 1)),
)


def containers_of(children: st.SearchStrategy[AmfValue]) -> st.SearchStrategy[AmfValue]:
    properties = st.dictionaries(names, children, max_size=4)
    return st.one_of(
        st.lists(children, max_size=4),
        properties,
        st.builds(EcmaArray, properties),
        st.builds(TypedObject, names, properties),
    )


values = st.recursive(scalars, containers_of, max_leaves=20)


@given(st.lists(values, max_size=4))
def test_values_survive(message: list[AmfValue]) -> None:
    assert shape(decode_all(encode(*message))) == shape(message)


@given(st.text(st.characters()))
def test_any_text_can_be_encoded(text: str) -> None:
    decode_all(encode(text, {text: XmlDocument(text)}, TypedObject(text)))


@given(st.binary(max_size=200))
def test_arbitrary_bytes_raise_only_the_error_of_the_peer(data: bytes) -> None:
    with contextlib.suppress(RemoteProtocolError):
        decode_all(data)


# Bytes which are markers, small counts or references far more often than chance would have it.
tokens = st.one_of(
    st.sampled_from(
        [b"\x03", b"\x08\0\0\0\x01", b"\x0a\0\0\0\x02", b"\x10\0\x01C", b"\0\x01k", END, b"\x05", ONE]
    ),
    st.sampled_from(
        [b"\x07\0\0", b"\x07\0\x01", b"\x11", b"\x09\x03\x01", b"\x0a\x0b\x01", b"\x06\x03a", b"\x0a\0"]
    ),
    st.binary(min_size=1, max_size=2),
)


@given(st.lists(tokens, max_size=40))
def test_nearly_valid_bytes_raise_only_the_error_of_the_peer(parts: list[bytes]) -> None:
    try:
        decoded = decode_all(b"".join(parts))
    except RemoteProtocolError:
        return
    with contextlib.suppress(LocalProtocolError):
        encode(*decoded)
