"""Parses a keys file. Errors name the place in the file.

    {
      "streams": [
        {"match": "live/*", "publish": {"keys": ["..."], "users": ["anna"]}, "play": "anyone"}
      ],
      "users": {"anna": "password"},
      "ask_for_user": ["live"]
    }

The first stream whose pattern matches counts. Error messages do not contain keys or passwords.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any, TypeVar

import attrs

from rtmprelay.access.authorizers.hash_key import PREFIX, ScryptHash
from rtmprelay.access.request import Action
from rtmprelay.errors import ConfigError
from rtmprelay.secret import Secret
from rtmprelay.session.adobe import USER_NAME

_T = TypeVar("_T")

#: Hashed keys for one action on one pattern: a wrong key is compared with each of them, at some 40 ms.
MAX_HASHES = 32

ANYONE, NOBODY = "anyone", "nobody"


@attrs.frozen
class Rule:
    """Who may publish, or who may play, the streams of one pattern."""

    anyone: bool = False
    keys: tuple[Secret, ...] = ()
    hashes: tuple[ScryptHash, ...] = ()
    users: frozenset[str] = frozenset()


@attrs.frozen
class StreamEntry:
    """A pattern, and the rules for the streams that it matches."""

    match: str
    rules: dict[Action, Rule]


@attrs.frozen
class KeysRules:
    """The content of a keys file."""

    streams: tuple[StreamEntry, ...]
    users: dict[str, Secret] = attrs.field(factory=dict)
    ask_for_user: tuple[str, ...] = ()

    def rule(self, action: Action, stream: str) -> Rule:
        """The rule for an action on a stream; if no pattern matches, nobody may do it."""
        for entry in self.streams:
            if fnmatchcase(stream, entry.match):
                return entry.rules[action]
        return Rule()

    def wants_user(self, app: str) -> bool:
        """Whether clients must log in when they open an application."""
        return any(fnmatchcase(app, pattern) for pattern in self.ask_for_user)


def parse_keys(text: str) -> KeysRules:
    try:
        document = json.loads(text, object_pairs_hook=_without_duplicates)
    except RecursionError:
        raise ConfigError("it is nested too deeply") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise ConfigError(f"it is not valid JSON: {error.msg} at {place}") from None
    except ValueError:
        # Python refuses to convert integers of more than 4,300 digits.
        raise ConfigError("it is not valid JSON: one of its numbers is too long") from None
    fields = _fields(document, "", {"streams"}, {"users", "ask_for_user"})
    users = {
        name: _user(name, password, f"users.{name}")
        for name, password in _object(fields.get("users", {}), "users").items()
    }
    streams = _list(fields["streams"], "streams", lambda value, place: _entry(value, place, users))
    ask_for_user = _list(fields.get("ask_for_user", []), "ask_for_user", _pattern)
    if ask_for_user and not users:
        raise ConfigError("ask_for_user: there are no users who could log in")
    return KeysRules(tuple(streams), users, tuple(ask_for_user))


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in fields:
            # Python would silently take the last one.
            raise ConfigError(f"the field {name[:80]!r} is there twice in one object")
        fields[name] = value
    return fields


def _entry(value: object, place: str, users: Mapping[str, Secret]) -> StreamEntry:
    fields = _fields(value, place, {"match", "publish", "play"}, set())
    match = _pattern(fields["match"], f"{place}.match")
    rules = {action: _rule(fields[action.value], f"{place}.{action.value}", users) for action in Action}
    return StreamEntry(match, rules)


def _rule(value: object, place: str, users: Mapping[str, Secret]) -> Rule:
    if value == ANYONE:
        return Rule(anyone=True)
    if value == NOBODY:
        return Rule()
    if not isinstance(value, dict):
        raise ConfigError(
            f'{place}: "{ANYONE}", "{NOBODY}", or an object with "keys" and "users" is expected'
        )
    fields = _fields(value, place, set(), {"keys", "users"})
    keys = _list(fields.get("keys", []), f"{place}.keys", _key)
    names = _list(fields.get("users", []), f"{place}.users", lambda name, at: _known_user(name, at, users))
    if not keys and not names:
        raise ConfigError(f'{place}: there are no keys and no users; if nobody may, write "{NOBODY}"')
    hashes = tuple(key for key in keys if isinstance(key, ScryptHash))
    if len(hashes) > MAX_HASHES:
        raise ConfigError(
            f"{place}.keys: {len(hashes)} hashed keys would take too long to check: at most {MAX_HASHES} are allowed"
        )
    plain = tuple(key for key in keys if isinstance(key, Secret))
    return Rule(keys=plain, hashes=hashes, users=frozenset(names))


def _key(value: object, place: str) -> Secret | ScryptHash:
    text = _text(value, place)
    if text.startswith(PREFIX):
        try:
            return ScryptHash.parse(text)
        except ConfigError as error:
            raise ConfigError(f"{place}: {error}") from None
    if text.startswith("$"):
        raise ConfigError(
            f"{place}: a key that begins with $ is taken for a hash, and $scrypt$ is the only kind supported"
        )
    return Secret(text)


def _user(name: str, password: object, place: str) -> Secret:
    if USER_NAME.fullmatch(name) is None:
        raise ConfigError(
            f"users: {name[:80]!r} cannot be the name of a user: up to 64 letters, digits and . _ @ - are allowed"
        )
    text = _text(password, place)
    if text.startswith(PREFIX):
        raise ConfigError(f"{place}: RTMP's login needs the password itself, not a hash of it")
    return Secret(text)


def _known_user(name: object, place: str, users: Mapping[str, Secret]) -> str:
    text = _text(name, place)
    if text not in users:
        raise ConfigError(f"{place}: there is no user {text[:80]!r} in users")
    return text


# -- checked values ------------------------------------------------------------------------------------------------


def _fields(value: object, place: str, needed: set[str], optional: set[str]) -> dict[str, Any]:
    fields = _object(value, place)
    prefix = f"{place}: " if place else ""
    for name in fields:
        if name not in needed | optional:
            known = ", ".join(sorted(needed | optional))
            raise ConfigError(f"{prefix}unknown field {name[:80]!r}; known fields: {known}")
    for name in sorted(needed):
        if name not in fields:
            raise ConfigError(f"{prefix}the field {name!r} is missing")
    return fields


def _object(value: object, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{place or 'the file'}: an object in braces is expected")
    return value


def _list(value: object, place: str, read: Callable[[object, str], _T]) -> list[_T]:
    if not isinstance(value, list):
        raise ConfigError(f"{place}: a list in brackets is expected")
    return [read(one, f"{place}[{number}]") for number, one in enumerate(value)]


def _text(value: object, place: str) -> str:
    if not isinstance(value, str) or not value or not value.isprintable():
        raise ConfigError(f"{place}: printable text of at least one character is expected")
    return value


def _pattern(value: object, place: str) -> str:
    return _text(value, place)
