"""Stream names in all the forms that clients use, and the credentials in them."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtmprelay.amf.amf0 import AmfValue
from rtmprelay.errors import LimitExceededError, RemoteProtocolError
from rtmprelay.secret import Secret
from rtmprelay.wire.limits import LONGEST_CREDENTIALS, LONGEST_STREAM_NAME
from rtmprelay.wire.names import Application, StreamKey, read_application, read_stream_name

APPLICATIONS: dict[str, tuple[dict[str, AmfValue], str, str]] = {
    "plain": ({"app": "live", "tcUrl": "rtmp://host/live"}, "live", ""),
    "trailing slash": ({"app": "live/"}, "live", ""),
    "leading slash": ({"app": "/live"}, "live", ""),
    "two levels": ({"app": "a/b"}, "a/b", ""),
    "query on app": ({"app": "live?token=t"}, "live", "token=t"),
    "query and slash on app": ({"app": "live/?token=t"}, "live", "token=t"),
    "query on tcUrl": ({"app": "live", "tcUrl": "rtmp://host/live?token=t"}, "live", "token=t"),
    "the same query on both": ({"app": "live?a=1", "tcUrl": "rtmp://host/live?a=1"}, "live", "a=1"),
    "different queries": ({"app": "live?a=1", "tcUrl": "rtmp://host/live?b=2"}, "live", "a=1&b=2"),
    "lower-case tcurl": ({"app": "live", "tcurl": "rtmp://host/live?token=t"}, "live", "token=t"),
    "tcUrl in quotes": ({"app": "live", "tcUrl": "'rtmp://host/live?token=t'"}, "live", "token=t"),
    "tcUrl in double quotes, no app": ({"tcUrl": '"rtmp://host/live"'}, "live", ""),
    "no app": ({"tcUrl": "rtmp://host:1935/a/b/?token=t"}, "a/b", "token=t"),
    "empty app": ({"app": "", "tcUrl": "rtmp://host/live"}, "live", ""),
    "empty app, no path": ({"app": "", "tcUrl": "rtmp://host"}, "", ""),
    "app is only a query": ({"app": "?token=t", "tcUrl": "rtmp://host/"}, "", "token=t"),
    "app is only a slash": ({"app": "/"}, "", ""),
    "app of a wrong type": ({"app": 5.0, "tcUrl": "rtmp://host/live"}, "live", ""),
    "app null": ({"app": None, "tcUrl": "rtmp://host/live"}, "live", ""),
    "tcUrl of a wrong type": ({"app": "live", "tcUrl": {}}, "live", ""),
    "tcUrl empty, tcurl not": ({"tcUrl": "", "tcurl": "rtmp://host/live"}, "live", ""),
    "tcUrl is no URL": ({"app": "live", "tcUrl": "rtmp://[::1/live?token=t"}, "live", ""),
    "IPv6": ({"tcUrl": "rtmp://[::1]:1935/live"}, "live", ""),
    "nothing": ({}, "", ""),
    "hash sign in a token": ({"app": "live", "tcUrl": "rtmp://host/live?token=a#b"}, "live", "token=a#b"),
    "question mark in a token": ({"app": "live?token=a?b"}, "live", "token=a?b"),
}


@pytest.mark.parametrize(("properties", "app", "credentials"), APPLICATIONS.values(), ids=APPLICATIONS)
def test_application_and_credentials_are_read_from_connect(
    properties: dict[str, AmfValue], app: str, credentials: str
) -> None:
    application = read_application(properties)
    assert application == Application(app, Secret(credentials))


def application(app: str = "live", credentials: str = "") -> Application:
    return Application(app, Secret(credentials))


NAMES: dict[str, tuple[Application, str, str, str]] = {
    "plain": (application(), "key", "live/key", ""),
    "query": (application(), "key?token=t", "live/key", "token=t"),
    "query on both": (application(credentials="a=1"), "key?b=2", "live/key", "b=2&a=1"),
    "the same query on both": (application(credentials="a=1"), "key?a=1", "live/key", "a=1"),
    "query on the application only": (application(credentials="a=1"), "key", "live/key", "a=1"),
    "two question marks": (application(), "key?a?b", "live/key", "a?b"),
    # The keys of some platforms are only a query.
    "question mark first": (application(), "?streamname=s&key=k", "live", "streamname=s&key=k"),
    "empty query": (application(), "key?", "live/key", ""),
    "mp4 prefix": (application(), "mp4:talk.mp4", "live/talk.mp4", ""),
    "flv prefix": (application(), "flv:talk", "live/talk", ""),
    "flv suffix": (application(), "talk.flv", "live/talk", ""),
    "flv suffix and query": (application(), "talk.flv?t=1", "live/talk", "t=1"),
    "colon elsewhere": (application(), "a:b", "live/a:b", ""),
    "leading slash": (application(), "/key", "live/key", ""),
    "trailing slash": (application(), "key/", "live/key", ""),
    "slash after the prefix": (application(), "mp4:/key", "live/key", ""),
    "slash before the suffix": (application(), "key/.flv", "live/key", ""),
    "no application": (application(""), "key", "key", ""),
    "no name": (application(), "", "live", ""),
    "not ASCII": (application("прямая"), "речь", "прямая/речь", ""),
}


@pytest.mark.parametrize(("app", "name", "key", "credentials"), NAMES.values(), ids=NAMES)
def test_key_and_credentials_are_read_from_a_stream_name(
    app: Application, name: str, key: str, credentials: str
) -> None:
    found, secret = read_stream_name(app, name)
    assert str(found) == key
    assert secret == Secret(credentials)


def test_key_is_the_same_wherever_it_is_split() -> None:
    keys = [
        read_stream_name(application(app), name)[0]
        for app, name in [("", "a/b/c"), ("a", "b/c"), ("a/b", "c"), ("a/b/c", "")]
    ]
    assert {str(key) for key in keys} == {"a/b/c"}
    assert len(set(keys)) == 1


def test_different_keys_are_different() -> None:
    assert StreamKey("a", "b") != StreamKey("a", "c")
    assert StreamKey("a", "b") != "a/b"


@pytest.mark.parametrize("name", ["", "/", "?token=t", "mp4:", ".flv"])
def test_stream_without_a_name_is_refused(name: str) -> None:
    with pytest.raises(RemoteProtocolError, match="no name"):
        read_stream_name(application(""), name)


@pytest.mark.parametrize("character", ["\x00", "\n", "\r", "\t", "\x1b", "\x7f", "\x85", "\x9b"], ids=ascii)
def test_control_characters_are_refused(character: str) -> None:
    with pytest.raises(RemoteProtocolError, match="stream name"):
        read_stream_name(application(), f"a{character}b")
    with pytest.raises(RemoteProtocolError, match="application name"):
        read_application({"app": f"a{character}b"})


def test_too_long_names_are_refused() -> None:
    longest = "x" * (LONGEST_STREAM_NAME - len("live/"))
    assert read_stream_name(application(), longest)[0].name == longest
    with pytest.raises(RemoteProtocolError, match="at most 255 are allowed"):
        read_stream_name(application(), longest + "x")
    with pytest.raises(RemoteProtocolError, match="at most 255 are allowed"):
        read_application({"app": "x" * (LONGEST_STREAM_NAME + 1)})


def test_joined_queries_contain_each_query_once() -> None:
    asked = read_application({"app": "live?a", "tcUrl": "rtmp://h/live?b"})
    assert read_stream_name(asked, "film?c")[1] == Secret("c&a&b")
    assert read_stream_name(asked, "film")[1] == Secret("a&b")
    assert read_stream_name(read_application({"app": "live?a", "tcUrl": "rtmp://h/live?a"}), "x?a")[
        1
    ] == Secret("a")
    assert not read_stream_name(read_application({"app": "live?"}), "film?")[1]


def test_too_long_keys_and_tokens_are_refused_by_their_limit() -> None:
    half = "k" * (LONGEST_CREDENTIALS // 2)
    asked = read_application({"app": f"live?{half}"})
    assert read_stream_name(asked, f"film?{half[1:-1]}x")[1]
    with pytest.raises(LimitExceededError, match="at most 4096 are allowed") as raised:
        read_stream_name(asked, f"film?{half}x")
    assert raised.value.limit == "credentials_size"
    assert half not in str(raised.value)
    with pytest.raises(LimitExceededError):
        read_application({"app": "live", "tcUrl": f"rtmp://h/live?{half}{half}x"})


# -- credentials stay hidden -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "properties",
    [
        {"app": "live?hidden"},
        {"app": "live", "tcUrl": "rtmp://host/live?hidden"},
        {"tcurl": "'rtmp://h/live?hidden'"},
    ],
    ids=["app", "tcUrl", "tcurl"],
)
def test_query_of_an_application_is_never_shown(properties: dict[str, AmfValue]) -> None:
    found = read_application(properties)
    assert found.credentials.reveal() == "hidden"
    key, secret = read_stream_name(found, "key")
    assert secret.reveal() == "hidden"
    for value in (found, key, secret, (found, key, secret)):
        assert "hidden" not in f"{value!r} {value}"


def test_query_of_a_stream_name_is_never_shown() -> None:
    key, secret = read_stream_name(application(), "key?hidden")
    assert secret.reveal() == "hidden"
    assert "hidden" not in f"{key!r} {key} {secret!r} {secret}"


@pytest.mark.parametrize("name", ["a\nb?hidden", "x" * 5000 + "?hidden", "?hidden"])
def test_errors_do_not_show_the_query(name: str) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        read_stream_name(application("", "hidden too"), name)
    assert "hidden" not in f"{caught.value!r}"


@given(st.text(max_size=30), st.text(max_size=30), st.text(max_size=30))
def test_arbitrary_names_raise_only_remote_protocol_errors(app: str, url: str, name: str) -> None:
    with contextlib.suppress(RemoteProtocolError):
        key, secret = read_stream_name(read_application({"app": app, "tcUrl": f"rtmp://{url}"}), name)
        assert "?" not in str(key)
        assert secret.reveal() or not secret
