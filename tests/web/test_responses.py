"""JSON in pieces."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from rtmprelay.web.server.responses import entry_pieces, json_bytes, list_pieces, object_pieces, small_fields

TEXTS = st.text(max_size=10)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=10,
)


@given(
    st.dictionaries(TEXTS, VALUES, max_size=4),
    st.lists(VALUES, max_size=4),
    st.dictionaries(TEXTS, VALUES, max_size=3),
)
def test_json_in_pieces_equals_json_of_the_whole(
    entries: dict[str, object], array: list[object], fields: dict[str, object]
) -> None:
    whole = {**fields, "entries": entries, "array": array}
    pieces = object_pieces(
        [*small_fields(fields), ("entries", entry_pieces(entries.items())), ("array", list_pieces(array))]
    )
    text = b"".join(pieces)
    if not {"entries", "array"} & set(fields):
        assert json.loads(text) == json.loads(json_bytes(whole))
    assert json.loads(b"".join(object_pieces([]))) == {}


def test_numbers_that_json_does_not_have_become_null() -> None:
    """Python reads NaN in a configuration file; JSON parsers refuse it."""
    value = {"a": float("nan"), "b": [float("inf"), 1.5, ("x", -float("inf"))], "c": "\ud800"}
    assert json.loads(json_bytes(value)) == {"a": None, "b": [None, 1.5, ["x", None]], "c": "?"}
