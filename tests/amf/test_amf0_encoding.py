"""AMF0: what can be encoded, and what survives encoding and decoding."""

from __future__ import annotations

import contextlib
import copy
import enum
import pickle

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
    encode,
)
from rtmprelay.errors import LocalProtocolError, RemoteProtocolError
from tests.amf.helpers import shape
from tests.amf.test_amf0 import END, ONE, TWO


class Level(enum.IntEnum):
    HIGH = 2


class Word(enum.StrEnum):
    HELLO = "test"


def test_shared_value_is_encoded_twice() -> None:
    shared: AmfValue = [1.0]
    assert encode([shared, shared]) == encode([[1.0], [1.0]])


def test_subclasses_are_encoded_as_their_base() -> None:
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


def test_deeply_nested_value_cannot_be_encoded() -> None:
    assert decode_all(encode(nested_lists(MAX_DEPTH))) == [nested_lists(MAX_DEPTH)]
    with pytest.raises(LocalProtocolError, match="deeper than 32"):
        encode(nested_lists(MAX_DEPTH + 1))


def test_value_shared_too_many_times_cannot_be_encoded() -> None:
    value: AmfValue = []
    for _ in range(MAX_DEPTH - 1):
        value = [value, value]
    with pytest.raises(LocalProtocolError, match="More than"):
        encode(value)


# -- the values themselves


def test_singletons_are_false_and_survive_copying() -> None:
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
def test_values_survive_encoding_and_decoding(message: list[AmfValue]) -> None:
    assert shape(decode_all(encode(*message))) == shape(message)


@given(st.text(st.characters()))
def test_any_text_can_be_encoded(text: str) -> None:
    """Lone surrogates have no UTF-8 form: they arrive escaped, and everything else as it was."""
    sent = text.encode("utf-8", "backslashreplace").decode()
    assert decode_all(encode(text, {text: XmlDocument(text)})) == [sent, {sent: XmlDocument(sent)}]
    (typed,) = decode_all(encode(TypedObject(text)))
    assert isinstance(typed, TypedObject)
    assert typed.class_name == sent


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_values_of_a_byte_or_more_or_a_remote_protocol_error(data: bytes) -> None:
    with contextlib.suppress(RemoteProtocolError):
        assert len(decode_all(data)) <= len(data)


# Bytes that are markers, small counts or references more often than random ones.
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
def test_values_of_nearly_valid_bytes_can_be_encoded_unless_a_limit_or_type_forbids_it(
    parts: list[bytes],
) -> None:
    try:
        decoded = decode_all(b"".join(parts))
    except RemoteProtocolError:
        return
    with contextlib.suppress(LocalProtocolError):
        assert len(decode_all(encode(*decoded))) == len(decoded)
