"""Secrets are masked in everything that logs, tracebacks and responses consist of."""

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
def test_secret_is_masked_in_every_text_form(show: Callable[[Secret], str]) -> None:
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
def test_secret_cannot_be_stored_or_taken_apart(take: Callable[[Secret], object]) -> None:
    with pytest.raises(TypeError) as caught:
        take(Secret(VALUE))
    assert "Swordfish" not in str(caught.value)


def test_secret_can_be_revealed() -> None:
    assert Secret(VALUE).reveal() == VALUE


def test_secrets_are_equal_if_their_values_are() -> None:
    assert Secret("a") == Secret("a")
    assert Secret("a") != Secret("b")
    assert len({Secret("a"), Secret("a"), Secret("b")}) == 2


def test_secret_is_not_equal_to_its_text() -> None:
    assert Secret("a") != "a"
    assert hash(Secret("a")) != hash("a")


def test_equal_secrets_have_the_same_mask_and_others_do_not() -> None:
    assert repr(Secret("a")) == repr(Secret("a"))
    assert repr(Secret("a")) != repr(Secret("b"))


def test_mask_does_not_depend_on_the_length() -> None:
    assert len(repr(Secret("a"))) == len(repr(Secret("a" * 1000)))


def test_empty_secret_is_false_and_shown_as_empty() -> None:
    assert not Secret("")
    assert Secret("0")
    assert str(Secret("")) == "<no secret>"


def test_arbitrary_text_can_be_a_secret() -> None:
    odd = Secret("\ud800 п\x00")
    assert odd == Secret(odd.reveal())
    assert str(odd).startswith("<secret ")
