"""The server's side of Adobe's authentication, against the client of ours, which other servers have tried out."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtmprelay.secret import Secret
from rtmprelay.session.adobe import (
    CHALLENGE_LIFETIME,
    WANTS_USER,
    AdobeAuthentication,
    AdobeLogin,
    AuthenticationRefusedError,
    LoginAccepted,
    LoginRefused,
    without_login,
)

PASSWORDS = {"anna": "geheim", "b.c@d-e_f": "/+= ü"}


def passwords_of(user: str) -> Sequence[Secret]:
    return [Secret(PASSWORDS[user])] if user in PASSWORDS else []


def judge(login: AdobeLogin, query: str, now: float = 0.0) -> LoginAccepted | LoginRefused | None:
    return login.judge(Secret(query), passwords_of, now)


def answer_of(login: AdobeLogin, user: str, password: str, now: float = 0.0) -> str:
    """What a client sends in the end; the two questions before it are answered."""
    client = AdobeAuthentication(user, Secret(password))
    client.refused(WANTS_USER)
    challenge = judge(login, client.query, now)
    assert isinstance(challenge, LoginRefused)
    assert not challenge.wrong
    client.refused(challenge.description)
    return client.query


@pytest.mark.parametrize("user", PASSWORDS)
def test_client_with_the_password_is_accepted(user: str) -> None:
    login = AdobeLogin()
    assert judge(login, answer_of(login, user, PASSWORDS[user])) == LoginAccepted(user)


@pytest.mark.parametrize(("user", "password"), [("anna", "Geheim"), ("anna", ""), ("nobody", "geheim")])
def test_every_wrong_login_gets_the_same_refusal(user: str, password: str) -> None:
    login = AdobeLogin()
    refused = judge(login, answer_of(login, user, password))
    assert isinstance(refused, LoginRefused)
    assert refused.wrong
    assert refused.description.endswith(f"?reason=authfailed&user={user}")
    client = AdobeAuthentication(user, Secret(password))
    with pytest.raises(AuthenticationRefusedError, match="does not accept"):
        client.refused(refused.description)


@pytest.mark.parametrize("query", ["", "key=abc", "user=anna&response=x", "authmod=llnw&user=anna"])
def test_query_without_authentication_is_not_judged(query: str) -> None:
    assert judge(AdobeLogin(), query) is None


@pytest.mark.parametrize("before", ["token=abc?", "token=abc&", "user=other&response=no&", ""])
def test_other_parameters_before_the_authentication_are_ignored(before: str) -> None:
    login = AdobeLogin()
    query = before + answer_of(login, "anna", "geheim")
    assert judge(login, query) == LoginAccepted("anna")
    assert without_login(Secret(query)).reveal() in (before[:-1], "")


def test_challenge_expires() -> None:
    login = AdobeLogin()
    answer = answer_of(login, "anna", "geheim", now=100.0)
    late = judge(login, answer, now=101.0 + CHALLENGE_LIFETIME)
    assert isinstance(late, LoginRefused)
    assert judge(login, answer, now=100.0 + CHALLENGE_LIFETIME) == LoginAccepted("anna")


def test_right_answer_is_accepted_once() -> None:
    login = AdobeLogin()
    answer = answer_of(login, "anna", "geheim")
    assert judge(login, answer) == LoginAccepted("anna")
    again = judge(login, answer, now=1.0)
    assert isinstance(again, LoginRefused)
    assert again.wrong


def test_used_answers_are_forgotten_when_their_challenge_has_expired() -> None:
    login = AdobeLogin()
    for now in range(200):
        assert judge(login, answer_of(login, "anna", "geheim", now), now) == LoginAccepted("anna")
    assert len(login._used) <= CHALLENGE_LIFETIME + 2


def test_challenges_and_wrong_answers_take_no_memory() -> None:
    login = AdobeLogin()
    for _ in range(100):
        judge(login, answer_of(login, "anna", "wrong"))
    assert login._used == {}


def test_challenge_for_one_user_is_refused_for_another() -> None:
    login = AdobeLogin()
    answer = answer_of(login, "anna", PASSWORDS["b.c@d-e_f"]).replace("user=anna", "user=b.c@d-e_f")
    assert isinstance(judge(login, answer), LoginRefused)


@pytest.mark.parametrize("opaque", ["", "00", "zz", "0" * 64, "ü", " 0"])
def test_challenge_of_another_server_is_refused(opaque: str) -> None:
    login = AdobeLogin()
    answer = re.sub("opaque=.*", f"opaque={opaque}", answer_of(login, "anna", "geheim"))
    assert isinstance(judge(login, answer), LoginRefused)
    other = answer_of(AdobeLogin(), "anna", "geheim")
    assert isinstance(judge(login, other), LoginRefused)


def test_challenges_differ_and_contain_both_values() -> None:
    login = AdobeLogin()
    described = set()
    for _ in range(5):
        challenge = judge(login, "authmod=adobe&user=anna")
        assert isinstance(challenge, LoginRefused)
        found = re.fullmatch(
            r"\[ AccessManager.Reject \] : \[ authmod=adobe \] : \?reason=needauth&user=anna"
            r"&salt=([0-9a-f]{16})&challenge=([0-9a-f]{64})&opaque=([0-9a-f]{64})",
            challenge.description,
        )
        assert found is not None
        assert found[2] == found[3]
        described.add(challenge.description)
    assert len(described) == 5


def test_unknown_users_get_challenges_as_well() -> None:
    """A salt that changed from time to time would give them away."""
    login = AdobeLogin()
    for user in ("anna", "nobody"):
        salts = set()
        for _ in range(3):
            challenge = judge(login, f"authmod=adobe&user={user}")
            assert isinstance(challenge, LoginRefused)
            salts.add(challenge.description.partition("salt=")[2].partition("&")[0])
        assert len(salts) == 1


@pytest.mark.parametrize("user", ["", "a b", "a%26reason", "ü", "x" * 65, "a]"])
def test_invalid_user_names_are_not_repeated_in_the_refusal(user: str) -> None:
    refused = judge(AdobeLogin(), f"authmod=adobe&user={user}")
    assert isinstance(refused, LoginRefused)
    assert refused.wrong
    assert refused.description.endswith("?reason=authfailed")


def test_user_with_two_passwords_must_match_both() -> None:
    """Two files may have a user of the same name: knowing one password must not open the other's doors."""
    login = AdobeLogin()
    query = Secret(answer_of(login, "anna", "geheim"))
    assert isinstance(login.judge(query, lambda _: [Secret("geheim"), Secret("other")], 0.0), LoginRefused)
    assert login.judge(query, lambda _: [Secret("geheim"), Secret("geheim")], 0.0) == LoginAccepted("anna")


@given(st.text(), st.text(), st.text(), st.text())
def test_arbitrary_queries_raise_no_error(user: str, own: str, response: str, opaque: str) -> None:
    query = f"authmod=adobe&user={user}&challenge={own}&response={response}&opaque={opaque}"
    assert not isinstance(judge(AdobeLogin(), query), LoginAccepted)


@given(st.text(st.characters(codec="utf-8"), max_size=40))
def test_query_without_a_login_is_unchanged(query: str) -> None:
    if "authmod=adobe" not in query:
        assert without_login(Secret(query)).reveal() == query


def test_password_is_in_no_repr() -> None:
    login = AdobeLogin()
    query = Secret(answer_of(login, "anna", "geheim"))
    assert "geheim" not in repr(login.judge(query, passwords_of, 0.0)) + repr(login) + repr(query)


def right_response_to(opaque: str, login: AdobeLogin) -> str:
    """What a client sends that knows the password, but answers a challenge of its own choice."""
    client = AdobeAuthentication("anna", Secret("geheim"))
    client.refused(WANTS_USER)
    challenge = judge(login, client.query)
    assert isinstance(challenge, LoginRefused)
    description = re.sub(r"opaque=\w+", f"opaque={opaque}", challenge.description)
    client.refused(description)
    return client.query


@pytest.mark.parametrize("opaque", ["zz", "0", "00", "ab" * 16, "ab" * 32, "ab" * 100])
def test_right_answer_to_a_challenge_that_was_never_sent_is_refused(opaque: str) -> None:
    """An eavesdropper of one login could repeat it for ever if the client chose what it answers."""
    login = AdobeLogin()
    refused = judge(login, right_response_to(opaque, login))
    assert isinstance(refused, LoginRefused)
    assert refused.wrong


def test_challenge_of_another_user_cannot_be_answered() -> None:
    login = AdobeLogin()
    other = AdobeAuthentication("b.c@d-e_f", Secret("x"))
    other.refused(WANTS_USER)
    challenge = judge(login, other.query)
    assert isinstance(challenge, LoginRefused)
    found = re.search(r"opaque=(\w+)", challenge.description)
    assert found is not None
    refused = judge(login, right_response_to(found[1], login))
    assert isinstance(refused, LoginRefused)
    assert refused.wrong


def test_answers_are_forgotten_when_their_challenge_is_too_old_to_be_answered_again() -> None:
    login = AdobeLogin()
    for now in (0.0, 10.0, CHALLENGE_LIFETIME + 5):
        assert judge(login, answer_of(login, "anna", "geheim", now), now) == LoginAccepted("anna")
    assert len(login._used) == 2
    judge(login, answer_of(login, "anna", "geheim", 1000.0), 1000.0)
    assert len(login._used) == 1


@pytest.mark.parametrize(("more", "searched"), [(0, True), (1, False)])
def test_query_above_4096_characters_is_not_searched_for_a_login(more: int, searched: bool) -> None:
    login = AdobeLogin()
    query = "authmod=adobe&user=anna&x="
    query += "y" * (4096 - len(query) + more)
    assert (judge(login, query) is not None) is searched
