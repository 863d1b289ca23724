"""Adobe's authentication, with the answers computed once more here."""

from __future__ import annotations

import base64
import hashlib
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtmprelay.errors import DestinationRefusedError
from rtmprelay.secret import Secret
from rtmprelay.session.adobe import (
    AdobeAuthentication,
    AuthenticationRefusedError,
    wants_authentication,
)

NEED_AUTH = "[ AccessManager.Reject ] : [ code=403 need auth; authmod=adobe ] : "
OWN = bytes.fromhex("0badcafe")


def challenge(**values: str) -> str:
    """What a server says to a user's name."""
    query = "&".join(f"{name}={value}" for name, value in values.items())
    return f"[ AccessManager.Reject ] : [ authmod=adobe ] : ?reason=needauth&user=anna&{query}"


def digest(*texts: str) -> str:
    return base64.b64encode(hashlib.md5("".join(texts).encode(), usedforsecurity=False).digest()).decode()


def authentication(user: str = "anna", password: str = "geheim") -> AdobeAuthentication:
    return AdobeAuthentication(user, Secret(password), random_bytes=lambda size: OWN[:size])


def test_first_connect_contains_no_authentication() -> None:
    assert authentication().query == ""


def test_second_connect_names_the_user() -> None:
    auth = authentication()
    auth.refused(NEED_AUTH)
    assert auth.query == "authmod=adobe&user=anna"


def test_opaque_value_is_answered_and_sent_back() -> None:
    auth = authentication()
    auth.refused(NEED_AUTH)
    auth.refused(challenge(salt="c2FsdA==", challenge="Y2hhbA==", opaque="b3BhcXVl"))
    salted = digest("anna", "c2FsdA==", "geheim")
    response = digest(salted, "b3BhcXVl", "0badcafe")
    assert auth.query == (f"authmod=adobe&user=anna&challenge=0badcafe&response={response}&opaque=b3BhcXVl")


def test_challenge_is_answered_when_there_is_no_opaque_value() -> None:
    auth = authentication()
    auth.refused(NEED_AUTH)
    auth.refused(challenge(salt="c2FsdA==", challenge="Y2hhbA=="))
    response = digest(digest("anna", "c2FsdA==", "geheim"), "Y2hhbA==", "0badcafe")
    assert auth.query == f"authmod=adobe&user=anna&challenge=0badcafe&response={response}"


def test_challenge_in_the_first_refusal_is_answered() -> None:
    auth = authentication()
    auth.refused(challenge(salt="s", challenge="c"))
    assert f"response={digest(digest('anna', 's', 'geheim'), 'c', '0badcafe')}" in auth.query


@given(st.text("abcXYZ019+/=", min_size=1, max_size=24), st.text("abc09+/=", min_size=1, max_size=24))
def test_base64_values_keep_their_plus_and_equals_signs(salt: str, theirs: str) -> None:
    auth = authentication()
    auth.refused(NEED_AUTH)
    auth.refused(challenge(salt=salt, challenge=theirs) + " more text ]")
    expected = digest(digest("anna", salt, "geheim"), theirs, "0badcafe")
    values = dict(parse_qsl(auth.query.replace("+", "%2B")))
    assert values["response"] == expected


@pytest.mark.parametrize("ending", ["", " ]", "]", " and more"])
def test_text_after_the_challenge_is_not_part_of_it(ending: str) -> None:
    auth = authentication()
    auth.refused(challenge(salt="s", opaque="o==") + ending)
    assert auth.query.endswith("&opaque=o==")


@pytest.mark.parametrize("reason", ["authfailed", "nosuchuser"])
def test_wrong_user_or_password_is_an_error(reason: str) -> None:
    auth = authentication()
    auth.refused(NEED_AUTH)
    auth.refused(challenge(salt="s", challenge="c"))
    with pytest.raises(AuthenticationRefusedError, match="does not accept the user or the password"):
        auth.refused(f"[ AccessManager.Reject ] : [ authmod=adobe ] : ?reason={reason}&opaque=o")


def test_unknown_user_is_an_error_at_once() -> None:
    auth = authentication()
    auth.refused(NEED_AUTH)
    with pytest.raises(AuthenticationRefusedError):
        auth.refused("[ authmod=adobe ] : ?reason=nosuchuser&user=anna")


def test_second_challenge_after_an_answer_is_an_error() -> None:
    auth = authentication()
    auth.refused(challenge(salt="s", challenge="c"))
    with pytest.raises(AuthenticationRefusedError):
        auth.refused(challenge(salt="s", challenge="d"))


def test_second_refusal_without_a_challenge_is_an_error() -> None:
    auth = authentication()
    auth.refused(NEED_AUTH)
    with pytest.raises(AuthenticationRefusedError, match="sends no challenge"):
        auth.refused(NEED_AUTH)


def test_missing_user_is_an_error_that_shows_the_url_to_write() -> None:
    with pytest.raises(AuthenticationRefusedError, match="user:password@"):
        authentication(user="").refused(NEED_AUTH)


def test_authentication_errors_are_refusals_of_the_destination() -> None:
    assert issubclass(AuthenticationRefusedError, DestinationRefusedError)


@given(st.text())
def test_arbitrary_descriptions_raise_only_refusals(description: str) -> None:
    """It ends after a few steps, and no error shows the password."""
    auth = authentication(password="MARKEDPASSWORD")

    def ask_again_and_again() -> None:
        for _ in range(4):
            auth.refused(description)

    with pytest.raises(AuthenticationRefusedError) as caught:
        ask_again_and_again()
    assert "MARKEDPASSWORD" not in str(caught.value)


def test_client_challenges_differ() -> None:
    queries = set()
    for _ in range(5):
        auth = AdobeAuthentication("anna", Secret("geheim"))
        auth.refused(challenge(salt="s", challenge="c"))
        queries.add(auth.query)
    assert len(queries) == 5


def test_authentication_is_recognized_in_a_refusal() -> None:
    assert wants_authentication(NEED_AUTH)
    assert wants_authentication(challenge(salt="s"))
    assert not wants_authentication("[ code=403 need auth; authmod=llnw ]")
    assert not wants_authentication("")


@pytest.mark.parametrize(
    ("values", "salt", "theirs"),
    [({"challenge": "c"}, "", "c"), ({"salt": "s", "opaque": "o"}, "s", "o"), ({"opaque": "o"}, "", "o")],
    ids=["no salt", "no challenge", "only opaque"],
)
def test_missing_value_of_a_challenge_counts_as_empty(values: dict[str, str], salt: str, theirs: str) -> None:
    auth = authentication()
    auth.refused("[ authmod=adobe ] : ?" + "&".join(f"{name}={value}" for name, value in values.items()))
    assert f"response={digest(digest('anna', salt, 'geheim'), theirs, '0badcafe')}" in auth.query
