"""URLs of streams on other servers; their secrets stay secret."""

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


# -- hosts --------------------------------------------------------------------------------------------------


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
def test_scheme_host_and_port_are_parsed(
    text: str, scheme: str, host: str, port: int, place: str, tc_url: str | None
) -> None:
    url = RtmpUrl.parse(text)
    assert (url.scheme, url.host, url.port, url.location) == (scheme, host, port, place)
    assert url.secure is (scheme == "rtmps")
    if tc_url is not None:
        assert url.tc_url == tc_url


def test_ipv6_host_keeps_its_brackets_in_tc_url() -> None:
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
def test_user_and_password_are_parsed(written: str, user: str, password: str) -> None:
    url = RtmpUrl.parse(f"rtmp://{written}host:1936/app/key")
    assert (url.user, url.password.reveal()) == (user, password)
    assert (url.host, url.port, url.app, url.key.reveal()) == ("host", 1936, "app", "key")


def test_at_sign_in_the_key_does_not_begin_a_user() -> None:
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
def test_key_is_everything_after_the_application(key: str) -> None:
    url = RtmpUrl.parse(f"rtmp://host/app/{key}")
    assert (url.app, url.key.reveal()) == ("app", key)
    assert not url.app_query


@pytest.mark.parametrize("text", ["rtmp://host/app", "rtmp://host/app/", "rtmp://host:1935/app"])
def test_url_may_have_no_key(text: str) -> None:
    url = RtmpUrl.parse(text)
    assert url.app == "app"
    assert not url.key
    assert str(url) == "rtmp://host:1935/app"


@pytest.mark.parametrize("query", ["token=abc", "path=/a/b", "a=1&b=?", "x=/y?z"])
def test_query_before_any_key_belongs_to_the_application(query: str) -> None:
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
def test_whole_path_is_the_application_if_the_key_is_separate(path: str, app: str, query: str) -> None:
    url = RtmpUrl.parse(f"rtmp://host{path}", Secret("a/b?c"))
    assert (url.app, url.app_query.reveal(), url.key.reveal()) == (app, query, "a/b?c")


# -- the URL for one source ------------------------------------------------------------------------------------


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
def test_placeholders_are_filled_in(text: str, app: str, key: str) -> None:
    filled = RtmpUrl.parse(text).filled_in("live", "cam")
    assert (filled.app, filled.key.reveal()) == (app, key)


def test_filled_in_url_keeps_everything_else() -> None:
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
def test_identity_is_the_same_however_the_url_is_written(one: str, other: str, same: bool) -> None:
    assert (RtmpUrl.parse(one).identity == RtmpUrl.parse(other).identity) is same


# -- wrong URLs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "not an RTMP URL"),
        ("host/app/key", "not an RTMP URL"),
        ("host", "not an RTMP URL"),
        ("rtmp:/host/app", "not an RTMP URL"),
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
        ("rtmp://host/a\x1b[2Jb/key", "application contains control characters"),
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
def test_wrong_url_is_reported_in_one_sentence(text: str, word: str) -> None:
    with pytest.raises(ConfigError) as caught:
        RtmpUrl.parse(text)
    sentence = str(caught.value)
    assert word in sentence
    assert len(sentence) < 200
    assert sentence.isprintable()
    assert "key@" not in sentence
    assert "password@" not in sentence


def test_password_with_a_slash_is_not_shown() -> None:
    with pytest.raises(ConfigError) as caught:
        RtmpUrl.parse("rtmp://user:hunter2/x@host/app/key")
    assert "hunter2" not in str(caught.value)
    assert "%2F" in str(caught.value)


def test_separate_key_that_cannot_be_sent_is_refused() -> None:
    with pytest.raises(ConfigError, match="cannot be sent"):
        RtmpUrl.parse("rtmp://host/app", Secret("\udc80"))


# -- secrets -------------------------------------------------------------------------------------------------


def shown(url: RtmpUrl) -> str:
    return "\n".join([str(url), repr(url), url.location, f"{url}", f"{url!r}"])


def test_shown_url_contains_no_secret() -> None:
    for text in (
        "rtmp://user:PASSWORD@host/app/KEYKEY",
        "rtmp://user:PASSWORD@host/app?token=QUERYQUERY",
        "rtmp://user:PASS@WORD@host/app/a/KEYKEY?x=QUERYQUERY",
    ):
        url = RtmpUrl.parse(text)
        for secret in ("PASSWORD", "WORD", "KEYKEY", "QUERYQUERY"):
            assert secret not in shown(url)
    assert str(RtmpUrl.parse("rtmp://user:p@host/app/key")) == "rtmp://host:1935/app/***"


def test_tc_url_does_not_contain_the_key() -> None:
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
def test_arbitrary_text_is_parsed_or_raises_only_a_config_error(text: str, key: Secret | None) -> None:
    with contextlib.suppress(ConfigError):
        url = RtmpUrl.parse(text, key)
        assert url.host
        assert url.app
        assert 1 <= url.port <= 65535
        assert url.location.isprintable()


@given(pieces, pieces)
def test_key_and_password_are_never_shown(before: str, after: str) -> None:
    for text in (
        f"rtmp://host/app/{before}{MARK}{after}",
        f"rtmp://host/app?{before}{MARK}{after}",
        f"rtmp://user:{MARK}{before.replace('/', '')}@host/app/key{after}",
        f"rtmp://user:{before.replace('/', '')}{MARK}@host/app/key{after}",
        f"rtmp://user:{MARK}/{before}@host/app/key",
    ):
        try:
            output = shown(RtmpUrl.parse(text))
        except ConfigError as error:
            output = str(error)
        assert MARK not in output


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_separate_key_is_kept_as_it_is(key: str) -> None:
    url = RtmpUrl.parse("rtmp://host/app", Secret(key))
    assert url.key.reveal() == key
    if key:
        replaced = key.replace("{app}", "live").replace("{name}", "cam")
        assert url.filled_in("live", "cam").key.reveal() == replaced


def test_key_left_in_the_url_is_not_shown() -> None:
    # Users paste the whole URL although they give the key separately.
    url = RtmpUrl.parse("rtmp://host/live/KEYMARK", Secret("other"))
    assert url.app == "live/KEYMARK"
    assert str(url) == "rtmp://host:1935/live/.../***"
    assert "KEYMARK" not in url.location


@pytest.mark.parametrize(
    "text", ["rtmp://host/app/{nme}", "rtmp://host/{ap}/key", "rtmp://host/app/x-{stream}"]
)
def test_unknown_placeholder_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="placeholder"):
        RtmpUrl.parse(text)


def test_other_braces_belong_to_the_key() -> None:
    assert RtmpUrl.parse("rtmp://host/app/{12}{}").key.reveal() == "{12}{}"
