"""A keys file is parsed, and every mistake in it is reported with its place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtmprelay.access.authorizers.hash_key import ScryptHash
from rtmprelay.access.authorizers.keys_rules import KeysRules, parse_keys
from rtmprelay.access.request import Action
from rtmprelay.errors import ConfigError
from rtmprelay.secret import Secret

HASH = str(ScryptHash.of(Secret("geheim")))


def stream(match: Any = "live/*", publish: Any = "anyone", play: Any = "nobody") -> dict[str, Any]:
    return {"match": match, "publish": publish, "play": play}


def parse(*streams: Any, **more: Any) -> KeysRules:
    return parse_keys(json.dumps({"streams": list(streams), **more}))


def test_first_matching_pattern_counts() -> None:
    rules = parse(stream("live/secret", publish="nobody"), stream("live/*"), stream("*", publish="nobody"))
    assert not rules.rule(Action.PUBLISH, "live/secret").anyone
    assert rules.rule(Action.PUBLISH, "live/other").anyone
    assert not rules.rule(Action.PUBLISH, "vod/other").anyone
    assert not rules.rule(Action.PLAY, "live/other").anyone


def test_pattern_matches_the_whole_key_and_its_case() -> None:
    rules = parse(stream("live/a"))
    for name in ("live/A", "live/ab", "xlive/a", "live/a/b", "live"):
        assert not rules.rule(Action.PUBLISH, name).anyone


def test_keys_hashes_and_users_are_parsed() -> None:
    rules = parse(
        stream(publish={"keys": ["plain", HASH], "users": ["anna"]}, play={"users": ["anna"]}),
        users={"anna": "password"},
        ask_for_user=["live", "studio/*"],
    )
    rule = rules.rule(Action.PUBLISH, "live/x")
    assert rule.keys == (Secret("plain"),)
    assert [str(one) for one in rule.hashes] == [HASH]
    assert rule.users == {"anna"}
    assert rules.users == {"anna": Secret("password")}
    assert rules.wants_user("live")
    assert rules.wants_user("studio/one")
    assert not rules.wants_user("other")


def test_file_without_streams_allows_nobody() -> None:
    assert not parse().rule(Action.PLAY, "live/x").anyone


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is not valid JSON: Expecting value at line 1, column 1"),
        ('{"streams": [}', "it is not valid JSON: Expecting value at line 1, column 14"),
        ("[]", "the file: an object in braces is expected"),
        ("[" * 100_000, "it is nested too deeply"),
        ('{"streams": ' + "1" * 5000 + "}", "it is not valid JSON: one of its numbers is too long"),
        ("{}", "the field 'streams' is missing"),
        ('{"streams": {}}', "streams: a list in brackets is expected"),
        ('{"streams": [], "streams": []}', "the field 'streams' is there twice in one object"),
        ('{"streams": [], "user": {}}', "unknown field 'user'; known fields: ask_for_user, streams, users"),
        ('{"streams": [1]}', r"streams\[0\]: an object in braces is expected"),
    ],
)
def test_malformed_file_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{message}$"):
        parse_keys(text)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"match": "*", "publish": "anyone"}, r"streams\[1\]: the field 'play' is missing"),
        ({**stream(), "key": "MARKED"}, r"streams\[1\]: unknown field 'key'"),
        (stream(match=""), r"streams\[1\].match: printable text of at least one character is expected"),
        (stream(match=7), r"streams\[1\].match: printable text"),
        (stream(publish="everyone"), r'streams\[1\].publish: "anyone", "nobody", or an object'),
        (stream(publish=["MARKED"]), r'streams\[1\].publish: "anyone", "nobody", or an object'),
        (
            stream(play={}),
            r'streams\[1\].play: there are no keys and no users; if nobody may, write "nobody"',
        ),
        (stream(play={"keys": []}), r"streams\[1\].play: there are no keys and no users"),
        (stream(play={"keys": "MARKED"}), r"streams\[1\].play.keys: a list in brackets"),
        (stream(play={"keys": ["MARKED", ""]}), r"streams\[1\].play.keys\[1\]: printable text"),
        (stream(play={"keys": ["MARKED", 7]}), r"streams\[1\].play.keys\[1\]: printable text"),
        (stream(play={"keys": ["MARKED\n"]}), r"streams\[1\].play.keys\[0\]: printable text"),
        (
            stream(play={"keys": ["$argon2$MARKED"]}),
            r"streams\[1\].play.keys\[0\]: a key that begins with \$",
        ),
        (stream(play={"keys": ["$scrypt$MARKED"]}), r"streams\[1\].play.keys\[0\]: this is not a hash"),
        (stream(play={"keys": [HASH] * 33}), r"streams\[1\].play.keys: 33 hashed keys would take too long"),
        (
            stream(play={"users": ["berta"]}),
            r"streams\[1\].play.users\[0\]: there is no user 'berta' in users",
        ),
        (
            stream(play={"user": ["anna"]}),
            r"streams\[1\].play: unknown field 'user'; known fields: keys, users",
        ),
    ],
)
def test_malformed_stream_is_refused_with_its_place_and_without_its_keys(entry: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{message}") as caught:
        parse(stream(), entry, users={"anna": "password"})
    assert "MARKED" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"users": ["anna"]}, "users: an object in braces"),
        ({"users": {"anna": 7}}, "users.anna: printable text"),
        ({"users": {"a b": "MARKED"}}, "users: 'a b' cannot be the name of a user"),
        (
            {"users": {"anna": HASH}},
            "users.anna: RTMP's login needs the password itself, not a hash of it",
        ),
        ({"ask_for_user": ["live"]}, "ask_for_user: there are no users"),
        ({"ask_for_user": "live", "users": {"anna": "MARKED"}}, "ask_for_user: a list in brackets"),
        ({"ask_for_user": [7], "users": {"anna": "MARKED"}}, r"ask_for_user\[0\]: printable text"),
    ],
)
def test_malformed_users_are_refused_with_their_place(more: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{message}") as caught:
        parse(**more)
    assert "MARKED" not in str(caught.value)


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["streams", "match", "publish", "play", "keys", "users", "ask_for_user", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


def assert_read_or_refused(text: str) -> None:
    refusal = ""
    try:
        parse_keys(text)
    except ConfigError as error:
        refusal = str(error)
    assert "\n" not in refusal


@given(json_values)
def test_any_json_is_parsed_or_refused_in_one_line(value: Any) -> None:
    assert_read_or_refused(json.dumps(value))


@given(st.text())
def test_any_text_is_parsed_or_refused_in_one_line(text: str) -> None:
    assert_read_or_refused(text)


def test_repr_of_the_rules_shows_no_key() -> None:
    rules = parse(stream(publish={"keys": ["MARKED", HASH]}), users={"anna": "MARKED"})
    assert "MARKED" not in repr(rules)
    assert HASH.rpartition("$")[2] not in repr(rules)
