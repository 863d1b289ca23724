"""The credentials that a client sends in its query string."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtmprelay.access.request import Credentials
from rtmprelay.secret import Secret
from tests.access.helpers import access_request


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
        # Keys are often base64.
        ("key=a+b/c==", {"key": "a+b/c=="}),
        ("&".join(f"p{number}=1" for number in range(100)), {}),
        ("key=" + "x" * 20_000, {}),
    ],
)
def test_query_parameters_are_parsed(query: str, expected: dict[str, str]) -> None:
    assert revealed(query) == expected


def test_first_parameter_name_that_is_present_counts() -> None:
    credentials = Credentials(Secret("token=t&key=k"))
    found = credentials.parameter("key", "token")
    assert found is not None
    assert found.reveal() == "k"
    assert credentials.parameter("jwt") is None


def test_credentials_are_missing_without_query_and_user() -> None:
    assert Credentials().are_missing
    assert not Credentials(Secret("key=x")).are_missing
    assert not Credentials(user="anna").are_missing


@given(st.text())
def test_any_query_string_is_parsed_without_an_error(query: str) -> None:
    parameters = Credentials(Secret(query)).parameters()
    assert all(value.reveal() for value in parameters.values())


def test_repr_of_a_request_shows_no_secret() -> None:
    request = access_request(query="key=MARKED")
    assert "MARKED" not in repr(request) + str(request) + repr(request.credentials.parameters())
