"""Addresses of streams on other servers, and that their secrets stay secret."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtmprelay.errors import ConfigError
from rtmprelay.secret import Secret
from rtmprelay.wire.url import RtmpUrl


def key_of(text: str) -> str:
    return RtmpUrl.parse(text).key.reveal()


# -- places --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "scheme", "host", "port", "place", "tc_url"),
    [
        ("rtmp://host/app/key", "rtmp", "host", 1935, "host:1935/app", "rtmp://host/app"),
        ("rtmps://host/app/key", "rtmps", "host", 443, "host:443/app", "rtmps://host/app"),
        ("rtmp://host:1935/app/key", "rtmp", "host", 1935, "host:1935/app", "rtmp://host:1935/app"),
        ("rtmps://host:1/app/key", "rtmps", "host", 1, "host:1/app", "rtmps://host:1/app"),
        ("rtmp://host:65535/app", "rtmp", "host", 65535, "host:65535/app", "rtmp://host:65535/app"),
        ("RTMP://Host/App/key", "rtmp", "Host", 1935, "Host:1935/App", "rtmp://Host/App"),
        ("rtmp://[2001:db8::1]/app/key", "rtmp", "2001:db8::1", 1935, "[2001:db8::1]:1935/app", None),
        ("rtmps://[::1]:8443/app/key", "rtmps", "::1", 8443, "[::1]:8443/app", "rtmps://[::1]:8443/app"),
        ("rtmp://192.0.2.1/app/key", "rtmp", "192.0.2.1", 1935, "192.0.2.1:1935/app", "rtmp://192.0.2.1/app"),
        ("rtmp://bücher.example/app/k", "rtmp", "bücher.example", 1935, "bücher.example:1935/app", None),
    ],
)
def test_where_it_leads(text: str, scheme: str, host: str, port: int, place: str, tc_url: str | None) -> None:
    url = RtmpUrl.parse(text)
    assert (url.scheme, url.host, url.port, url.place) == (scheme, host, port, place)
    assert url.secure is (scheme == "rtmps")
    if tc_url is not None:
        assert url.tc_url == tc_url


def test_an_ipv6_host_keeps_its_brackets_in_what_the_server_is_told() -> None:
    assert RtmpUrl.parse("rtmp://[2001:db8::1]/app/key").tc_url == "rtmp://[2001:db8::1]/app"


# -- users ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "user", "password"),
    [
        ("", "", ""),
        ("user@", "user", ""),
        ("user:@", "user", ""),
        (":password@", "", "password"),
        ("user:password@", "user", "password"),
        ("us%40er:pa%2Fss%3Aword%40%25@", "us@er", "pa/ss:word@%"),
        ("user:a:b@", "user", "a:b"),
        ("user:pass@word@", "user", "pass@word"),
        ("us@er:p@", "us@er", "p"),
        ("user:p?ss@", "user", "p?ss"),
        ("user:p%C3%A4ss@", "user", "päss"),
    ],
)
def test_user_and_password(written: str, user: str, password: str) -> None:
    url = RtmpUrl.parse(f"rtmp://{written}host:1936/app/key")
    assert (url.user, url.password.reveal()) == (user, password)
    assert (url.host, url.port, url.app, url.key.reveal()) == ("host", 1936, "app", "key")


def test_an_at_sign_in_the_key_makes_no_user() -> None:
    url = RtmpUrl.parse("rtmp://host:1935/app/key@x:y")
    assert (url.host, url.user, url.key.reveal()) == ("host", "", "key@x:y")


# -- keys ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "key",
    [
        "key",
        "live_123?bandwidthtest=true",
        "?streamname=live_1&key=2",
        "a/b/c",
        "a/b?c=/d&e=f==",
        "key with spaces",
        "%2F%20",
        "#key",
        "key/",
        "/key",
    ],
)
def test_a_key_is_taken_as_it_is(key: str) -> None:
    url = RtmpUrl.parse(f"rtmp://host/app/{key}")
    assert (url.app, url.key.reveal()) == ("app", key)
    assert not url.app_query


@pytest.mark.parametrize("text", ["rtmp://host/app", "rtmp://host/app/", "rtmp://host:1935/app"])
def test_without_a_key(text: str) -> None:
    url = RtmpUrl.parse(text)
    assert url.app == "app"
    assert not url.key
    assert str(url) == "rtmp://host:1935/app"


@pytest.mark.parametrize("query", ["token=abc", "path=/a/b", "a=1&b=?", "x=/y?z"])
def test_a_query_before_any_key_belongs_to_the_application(query: str) -> None:
    url = RtmpUrl.parse(f"rtmp://host/app?{query}")
    assert (url.app, url.app_query.reveal(), url.key.reveal()) == ("app", query, "")
    assert url.app_with_query == f"app?{query}"
    assert url.tc_url == f"rtmp://host/app?{query}"


@pytest.mark.parametrize(
    ("path", "app", "query"),
    [
        ("/app", "app", ""),
        ("/app/", "app", ""),
        ("/app/instance/more", "app/instance/more", ""),
        ("/app/instance?a=b/c", "app/instance", "a=b/c"),
    ],
)
def test_with_the_key_apart_the_whole_path_is_the_application(path: str, app: str, query: str) -> None:
    url = RtmpUrl.parse(f"rtmp://host{path}", Secret("a/b?c"))
    assert (url.app, url.app_query.reveal(), url.key.reveal()) == (app, query, "a/b?c")


# -- one source's address ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "app", "key"),
    [
        ("rtmp://host/app", "app", "cam"),
        ("rtmp://host/app/fixed", "app", "fixed"),
        ("rtmp://host/{app}", "live", "cam"),
        ("rtmp://host/{app}/{name}", "live", "cam"),
        ("rtmp://host/x-{app}-{name}/{app}_{name}?k={name}", "x-live-cam", "live_cam?k=cam"),
    ],
)
def test_templates(text: str, app: str, key: str) -> None:
    filled = RtmpUrl.parse(text).filled_in("live", "cam")
    assert (filled.app, filled.key.reveal()) == (app, key)


def test_a_template_keeps_the_rest() -> None:
    url = RtmpUrl.parse("rtmps://u:p@host:1/app?q=1").filled_in("live", "cam")
    assert (url.user, url.password.reveal(), url.port, url.app_query.reveal()) == ("u", "p", 1, "q=1")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("rtmp://host/app/key", "rtmp://host:1935/app/key", True),
        ("rtmp://host/app/key", "rtmp://HOST/app/key", True),
        ("rtmps://host/app/key", "rtmps://host:443/app/key", True),
        ("rtmp://u:p@host/app/key", "rtmp://host/app/key", True),
        ("rtmp://host/app/key", "rtmp://host/app/KEY", False),
        ("rtmp://host/app/key", "rtmps://host/app/key", False),
        ("rtmp://host/app/key", "rtmp://host:1936/app/key", False),
        ("rtmp://host/app", "rtmp://host/app?a", False),
        ("rtmp://host/app/key", "rtmp://host/App/key", False),
    ],
)
def test_the_same_place_however_it_is_written(one: str, other: str, same: bool) -> None:
    assert (RtmpUrl.parse(one).same_place == RtmpUrl.parse(other).same_place) is same


# -- bad ones ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "no address"),
        ("host/app/key", "no address"),
        ("host", "no address"),
        ("rtmp:/host/app", "no address"),
        ("http://host/app/key", "scheme is 'http'"),
        ("rtmpe://host/app/key", "scheme is 'rtmpe'"),
        ("://host/app/key", "scheme is ''"),
        (" rtmp://host/app/key", "scheme is ' rtmp'"),
        ("rtmp:///app/key", "no host"),
        ("rtmp://:1935/app/key", "no host"),
        ("rtmp://[]/app/key", "no host"),
        ("rtmp://user:password@/app/key", "no host"),
        ("rtmp://ho st/app/key", "its host"),
        ("rtmp://host\n/app/key", "its host"),
        ("rtmp://a..b/app/key", "its host"),
        (f"rtmp://{'a' * 64}/app/key", "its host"),
        ("rtmp://host", "no application"),
        ("rtmp://host/", "no application"),
        ("rtmp://host//key", "no application"),
        ("rtmp://host/?a=b", "no application"),
        ("rtmp://host?a=b", "no application"),
        ("rtmp://host/a\x1b[2Jb/key", "application has control characters"),
        ("rtmp://host/app/\ud800", "cannot be sent"),
        ("rtmp://host:/app/key", "port"),
        ("rtmp://host:0/app/key", "port"),
        ("rtmp://host:65536/app/key", "port"),
        ("rtmp://host:-1/app/key", "port"),
        ("rtmp://host:x/app/key", "port"),
        ("rtmp://host:1935:1935/app/key", "port"),
        ("rtmp://host:\u0661\u0669\u0663\u0665/app/key", "port"),
        (f"rtmp://host:{'1' * 5000}/app/key", "port"),
        ("rtmp://[::1/app/key", "no host"),
    ],
)
def test_a_bad_address_is_one_clear_sentence(text: str, word: str) -> None:
    with pytest.raises(ConfigError) as caught:
        RtmpUrl.parse(text)
    sentence = str(caught.value)
    assert word in sentence
    assert len(sentence) < 200
    assert sentence.isprintable()
    assert "key@" not in sentence
    assert "password@" not in sentence


def test_a_slash_in_a_password_shows_nothing_of_it() -> None:
    with pytest.raises(ConfigError) as caught:
        RtmpUrl.parse("rtmp://user:hunter2/x@host/app/key")
    assert "hunter2" not in str(caught.value)
    assert "%2F" in str(caught.value)


def test_a_key_given_apart_that_cannot_be_sent() -> None:
    with pytest.raises(ConfigError, match="cannot be sent"):
        RtmpUrl.parse("rtmp://host/app", Secret("\udc80"))


# -- secrets -------------------------------------------------------------------------------------------------


def shown(url: RtmpUrl) -> str:
    return "\n".join([str(url), repr(url), url.place, f"{url}", f"{url!r}"])


def test_what_is_shown_has_no_secret_in_it() -> None:
    for text in (
        "rtmp://user:PASSWORD@host/app/KEYKEY",
        "rtmp://user:PASSWORD@host/app?token=QUERYQUERY",
        "rtmp://user:PASS@WORD@host/app/a/KEYKEY?x=QUERYQUERY",
    ):
        url = RtmpUrl.parse(text)
        for secret in ("PASSWORD", "WORD", "KEYKEY", "QUERYQUERY"):
            assert secret not in shown(url)
    assert str(RtmpUrl.parse("rtmp://user:p@host/app/key")) == "rtmp://host:1935/app/***"


def test_the_key_is_not_in_what_the_server_is_called() -> None:
    url = RtmpUrl.parse("rtmp://u:PASSWORD@host/app/KEYKEY?a=b")
    assert url.tc_url == "rtmp://host/app"


MARK = "QzXmArK"
pieces = st.lists(
    st.sampled_from(
        ["rtmp", "rtmps", "://", "/", ":", "@", "?", "&", "=", "[", "]", "#", "%", "1935", "host", "app"]
    )
    | st.text(max_size=4),
    max_size=12,
).map("".join)


@given(st.text() | pieces, st.none() | st.text(max_size=5).map(Secret))
def test_any_text_is_an_address_or_told_to_be_none(text: str, key: Secret | None) -> None:
    with contextlib.suppress(ConfigError):
        url = RtmpUrl.parse(text, key)
        assert url.host
        assert url.app
        assert 1 <= url.port <= 65535
        assert url.place.isprintable()


@given(pieces, pieces)
def test_a_marked_key_and_password_are_never_shown(before: str, behind: str) -> None:
    for text in (
        f"rtmp://host/app/{before}{MARK}{behind}",
        f"rtmp://host/app?{before}{MARK}{behind}",
        f"rtmp://user:{MARK}{before.replace('/', '')}@host/app/key{behind}",
        f"rtmp://user:{before.replace('/', '')}{MARK}@host/app/key{behind}",
        f"rtmp://user:{MARK}/{before}@host/app/key",
    ):
        try:
            told = shown(RtmpUrl.parse(text))
        except ConfigError as error:
            told = str(error)
        assert MARK not in told


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_key_given_apart_is_sent_as_it_is(key: str) -> None:
    url = RtmpUrl.parse("rtmp://host/app", Secret(key))
    assert url.key.reveal() == key
    if key:
        replaced = key.replace("{app}", "live").replace("{name}", "cam")
        assert url.filled_in("live", "cam").key.reveal() == replaced


def test_a_key_left_in_the_address_is_not_shown() -> None:
    """Who pastes the whole address and the key apart makes an easy mistake; it must not show the key."""
    url = RtmpUrl.parse("rtmp://host/live/KEYMARK", Secret("other"))
    assert url.app == "live/KEYMARK"
    assert str(url) == "rtmp://host:1935/live/.../***"
    assert "KEYMARK" not in url.place


@pytest.mark.parametrize(
    "text", ["rtmp://host/app/{nme}", "rtmp://host/{ap}/key", "rtmp://host/app/x-{stream}"]
)
def test_an_unknown_placeholder_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="placeholder"):
        RtmpUrl.parse(text)


def test_braces_that_are_no_placeholder_belong_to_the_key() -> None:
    assert RtmpUrl.parse("rtmp://host/app/{12}{}").key.reveal() == "{12}{}"
