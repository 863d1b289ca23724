"""Documents that are made once for many."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.task import Clock

from rtmprelay.web.server import scheduling
from rtmprelay.web.server.responses import entry_pieces, json_bytes, list_pieces, object_pieces, small_fields
from rtmprelay.web.server.scheduling import CachedDocument, HttpScheduler
from tests.web.helpers import one_turn


class World:
    """A document of three pieces, which counts how often it is made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        # Each piece takes a turn.
        monkeypatch.setattr(scheduling, "BUDGET", -1.0)
        self.clock = Clock()
        self.version = 0
        self.made = 0
        self.broken = False
        self.document = CachedDocument(
            self._pieces, HttpScheduler(self.clock), self.clock, 1.0, lambda: self.version
        )

    def _pieces(self) -> Iterator[bytes]:
        self.made += 1
        number = self.made
        for piece in range(3):
            if self.broken and piece == 1:
                raise RuntimeError("a bug")
            yield b"%d.%d " % (number, piece)

    def ask(self) -> list[object]:
        """The result, once there is one."""
        results: list[object] = []
        self.document.get().addBoth(results.append)
        return results

    def finish(self) -> None:
        for _ in range(20):
            one_turn(self.clock)


def test_all_who_ask_share_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """While it is made, and for as long as it is fresh."""
    world = World(monkeypatch)
    first, second = world.ask(), world.ask()
    assert (first, second) == ([], [])
    world.finish()
    assert first == second == world.ask() == [b"1.0 1.1 1.2 "]
    world.clock.advance(0.9)
    assert world.ask() == first
    world.clock.advance(0.2)
    later = world.ask()
    world.finish()
    assert later == [b"2.0 2.1 2.2 "]
    assert world.made == 2


def test_a_change_makes_it_old_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks behind the change never gets what was made before; who asked before may."""
    world = World(monkeypatch)
    before = world.ask()
    one_turn(world.clock)
    world.version = 1
    after = world.ask()
    assert after == []
    world.finish()
    assert before == [b"1.0 1.1 1.2 "]
    assert after == [b"2.0 2.1 2.2 "]
    assert world.ask() == after


def test_a_failure_is_everybodys_and_then_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one who asks has it made again."""
    world = World(monkeypatch)
    world.broken = True
    first, second = world.ask(), world.ask()
    world.finish()
    assert "a bug" in str(first[0])
    assert "a bug" in str(second[0])
    world.broken = False
    again = world.ask()
    world.finish()
    assert again == [b"2.0 2.1 2.2 "]


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
def test_pieces_make_the_same_json_as_the_whole(
    entries: dict[str, object], array: list[object], fields: dict[str, object]
) -> None:
    """Whatever the values are, and also if there are none."""
    whole = {**fields, "entries": entries, "array": array}
    pieces = object_pieces(
        [*small_fields(fields), ("entries", entry_pieces(entries.items())), ("array", list_pieces(array))]
    )
    text = b"".join(pieces)
    if not {"entries", "array"} & set(fields):
        assert json.loads(text) == json.loads(json_bytes(whole))
    assert json.loads(b"".join(object_pieces([]))) == {}


def test_what_is_no_json_becomes_null() -> None:
    """Python reads NaN in a configuration file, and nobody else can."""
    value = {"a": float("nan"), "b": [float("inf"), 1.5, ("x", -float("inf"))], "c": "\ud800"}
    assert json.loads(json_bytes(value)) == {"a": None, "b": [None, 1.5, ["x", None]], "c": "?"}
