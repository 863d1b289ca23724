"""A secret does not show in anything that a log, a traceback or an answer is made of."""

from __future__ import annotations

import copy
import json
import pickle
import traceback
from collections.abc import Callable

import attrs
import pytest

from rtmprelay.secret import Secret

VALUE = "live_8c1f?token=Swordfish"


@attrs.frozen
class Holder:
    secret: Secret


SHOWN: dict[str, Callable[[Secret], str]] = {
    "str": str,
    "repr": repr,
    "ascii": ascii,
    "format": format,
    "f-string": lambda secret: f"{secret} {secret!s} {secret!r} {secret!a} {secret!s:>60}",
    "percent": lambda secret: "%s %r" % (secret, secret),  # noqa: UP031
    "str.format": lambda secret: "{} {!r}".format(secret, secret),  # noqa: UP032
    "attrs": lambda secret: f"{Holder(secret)} {attrs.asdict(Holder(secret))}",
    "containers": lambda secret: f"{[secret]} {(secret,)} { ({secret: secret}) } { {secret} }",
    "json with default": lambda secret: json.dumps({"key": secret}, default=str),
    "error": lambda secret: "".join(traceback.format_exception_only(ValueError(secret))),
}


@pytest.mark.parametrize("show", SHOWN.values(), ids=SHOWN)
def test_no_text_form_shows_it(show: Callable[[Secret], str]) -> None:
    shown = show(Secret(VALUE))
    assert "<secret " in shown
    assert not any(part in shown for part in ("Swordfish", "8c1f", "token"))


REFUSED: dict[str, Callable[[Secret], object]] = {
    "pickle": pickle.dumps,
    "pickle of a holder": lambda secret: pickle.dumps([secret]),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "json": json.dumps,
    "format with a width": lambda secret: f"{secret:>60}",
    "vars": vars,
    "iteration": lambda secret: list(secret),  # type: ignore[call-overload]
    "joining": lambda secret: "&".join([secret]),  # type: ignore[list-item]
}


@pytest.mark.parametrize("take", REFUSED.values(), ids=REFUSED)
def test_it_cannot_be_stored_or_taken_apart(take: Callable[[Secret], object]) -> None:
    with pytest.raises(TypeError) as caught:
        take(Secret(VALUE))
    assert "Swordfish" not in str(caught.value)


def test_it_is_revealed_on_purpose() -> None:
    assert Secret(VALUE).reveal() == VALUE


def test_equality_and_hash_follow_the_value() -> None:
    assert Secret("a") == Secret("a")
    assert Secret("a") != Secret("b")
    assert len({Secret("a"), Secret("a"), Secret("b")}) == 2


def test_it_is_not_equal_to_the_text() -> None:
    assert Secret("a") != "a"
    assert hash(Secret("a")) != hash("a")


def test_the_same_secret_has_the_same_mask_and_another_one_another() -> None:
    assert repr(Secret("a")) == repr(Secret("a"))
    assert repr(Secret("a")) != repr(Secret("b"))


def test_the_mask_does_not_tell_the_length() -> None:
    assert len(repr(Secret("a"))) == len(repr(Secret("a" * 1000)))


def test_an_empty_secret_is_false_and_says_so() -> None:
    assert not Secret("")
    assert Secret("0")
    assert str(Secret("")) == "<no secret>"


def test_any_text_will_do() -> None:
    odd = Secret("\ud800 п\x00")
    assert odd == Secret(odd.reveal())
    assert str(odd).startswith("<secret ")
