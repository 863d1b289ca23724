"""What somebody brings along to be let in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtmprelay.access.request import Credentials
from rtmprelay.secret import Secret
from tests.access.helpers import wish


def revealed(query: str) -> dict[str, str]:
    return {name: value.reveal() for name, value in Credentials(Secret(query)).parameters().items()}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", {}),
        ("key=abc", {"key": "abc"}),
        ("key=a%20b&token=c", {"key": "a b", "token": "c"}),
        ("key=first&key=second", {"key": "first"}),
        ("key=&token=t", {"token": "t"}),
        ("novalue", {}),
        # Base64 is what keys are made of.
        ("key=a+b/c==", {"key": "a+b/c=="}),
        ("&".join(f"p{number}=1" for number in range(100)), {}),
        ("key=" + "x" * 20_000, {}),
    ],
)
def test_parameters(query: str, expected: dict[str, str]) -> None:
    assert revealed(query) == expected


def test_the_first_of_several_names_that_is_there() -> None:
    credentials = Credentials(Secret("token=t&key=k"))
    found = credentials.parameter("key", "token")
    assert found is not None
    assert found.reveal() == "k"
    assert credentials.parameter("jwt") is None


def test_nothing_was_brought() -> None:
    assert Credentials().are_missing
    assert not Credentials(Secret("key=x")).are_missing
    assert not Credentials(user="anna").are_missing


@given(st.text())
def test_whatever_comes_can_be_looked_at(query: str) -> None:
    Credentials(Secret(query)).parameters()


def test_no_repr_shows_a_secret() -> None:
    request = wish(query="key=MARKED")
    assert "MARKED" not in repr(request) + str(request) + repr(request.credentials.parameters())
