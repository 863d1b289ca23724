"""Reading the relay configuration file: what it may hold, and the error messages."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtmprelay.destinations.config_file import parse_relay_config, read_relay_config
from rtmprelay.destinations.settings import DestinationSettings
from rtmprelay.errors import ConfigError
from rtmprelay.secret import Secret
from rtmprelay.wire.url import RtmpUrl
from tests.certificates import self_signed

URL = "rtmp://host/app"


def parse(*entries: object, **environment: str) -> list[DestinationSettings]:
    return parse_relay_config(json.dumps({"destinations": list(entries)}), environment)


def entry(**more: object) -> dict[str, object]:
    return {"name": "one", "url": URL} | more


def error_in(text: str, folder: Path | None = None, **environment: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_relay_config(text, environment, folder)
    sentence = str(caught.value)
    assert sentence.isprintable()
    return sentence


def error_about(*entries: object, folder: Path | None = None, **environment: str) -> str:
    return error_in(json.dumps({"destinations": list(entries)}), folder, **environment)


# -- right files ---------------------------------------------------------------------------------------------


def test_name_and_url_are_enough() -> None:
    (one,) = parse(entry())
    assert one == DestinationSettings(name="one", url=RtmpUrl.parse(URL))
    assert (one.enabled, one.max_retries, one.match, one.linger, one.verify) == (True, 0, "*", 10.0, True)
    assert (one.backup, one.failures_before_backup, one.ca_file, one.metadata) == ((), 3, None, {})


def test_all_fields_are_read(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(self_signed("host")[1])
    text = json.dumps(
        {
            "destinations": [
                {
                    "name": "Platform, main",
                    "url": "rtmps://host/app/instance",
                    "stream_key": "a/b?c=d",
                    "backup": ["rtmps://other/app", "rtmp://third/app"],
                    "failures_before_backup": 2,
                    "enabled": False,
                    "max_retries": 7,
                    "match": "live/*",
                    "linger": 2.5,
                    "verify": False,
                    "ca_file": "ca.pem",
                    "metadata": {"owner": "anna", "tags": [1, None]},
                }
            ]
        }
    )
    (one,) = parse_relay_config(text, {}, tmp_path)
    key = Secret("a/b?c=d")
    assert one == DestinationSettings(
        name="Platform, main",
        url=RtmpUrl.parse("rtmps://host/app/instance", key),
        backup=(RtmpUrl.parse("rtmps://other/app", key), RtmpUrl.parse("rtmp://third/app", key)),
        failures_before_backup=2,
        enabled=False,
        max_retries=7,
        match="live/*",
        linger=2.5,
        verify=False,
        ca_file=str(tmp_path / "ca.pem"),
        metadata={"owner": "anna", "tags": [1, None]},
    )
    assert [url.key.reveal() for url in one.addresses] == ["a/b?c=d"] * 3


def test_list_may_be_empty() -> None:
    assert parse() == []


def test_destinations_keep_their_order() -> None:
    names = [one.name for one in parse(entry(), entry(name="two", url=URL + "2"))]
    assert names == ["one", "two"]


def test_linger_may_be_a_whole_number() -> None:
    (one,) = parse(entry(linger=0))
    assert one.linger == 0.0


def test_url_may_hold_the_key() -> None:
    (one,) = parse(entry(url="rtmp://host/app/key?x"))
    assert one.url.key.reveal() == "key?x"


def test_placeholders_are_replaced_from_the_environment() -> None:
    (one,) = parse(
        entry(url="rtmp://${HOST}/app", stream_key="a-${KEY}-${KEY}", backup=["rtmp://${B}/x"]),
        HOST="h",
        KEY="k${HOST}",
        B="b",
    )
    assert (one.url.host, one.backup[0].host) == ("h", "b")
    assert one.url.key.reveal() == "a-k${HOST}-k${HOST}"


@pytest.mark.parametrize("text", ["$KEY", "${}", "${1}", "$${", "{KEY}"])
def test_dollar_without_a_name_is_text(text: str) -> None:
    (one,) = parse(entry(stream_key=text))
    assert one.url.key.reveal() == text


def test_environment_of_the_process_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RTMPRELAY_TEST_KEY", "from-there")
    (one,) = parse_relay_config(json.dumps({"destinations": [entry(stream_key="${RTMPRELAY_TEST_KEY}")]}))
    assert one.url.key.reveal() == "from-there"


def test_key_is_read_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("  from-a-file?x=y\n")
    config = tmp_path / "relay.json"
    config.write_text(json.dumps({"destinations": [entry(stream_key_file="key")]}))
    (one,) = read_relay_config(str(config))
    assert one.url.key.reveal() == "from-a-file?x=y"


# -- wrong files ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "{", '{"destinations": [}', "nonsense", "[1, 2", '{"a" 1}', "\x00"])
def test_invalid_json_is_refused(text: str) -> None:
    assert error_in(text).startswith("it is not valid JSON: ")


@pytest.mark.parametrize("text", ["[" * 200_000, '{"destinations":' * 100_000])
def test_json_nested_too_deeply_is_refused(text: str) -> None:
    assert error_in(text).startswith("it is not valid JSON")


@pytest.mark.parametrize("text", ["[]", "1", "null", '"destinations"', "true"])
def test_json_that_is_not_an_object_is_refused(text: str) -> None:
    assert "not a JSON object" in error_in(text)


@pytest.mark.parametrize("value", ["{}", "null", "1", '"text"', '{"name": "one"}', "true"])
def test_destinations_that_are_not_a_list_are_refused(value: str) -> None:
    assert "destinations" in error_in(f'{{"destinations": {value}}}')


@pytest.mark.parametrize("value", [None, 1, "text", [], [["name", "one"]]])
def test_destination_that_is_not_an_object_is_refused(value: object) -> None:
    assert "destinations[1]" in error_about(entry(), value)


def test_error_names_a_missing_field() -> None:
    assert "'destinations' is missing" in error_in("{}")
    error = error_about({"name": "one"}, {"url": URL})
    assert "'url' is missing @ $.destinations[0]" in error
    assert "'name' is missing @ $.destinations[1]" in error


def test_error_names_an_unknown_field() -> None:
    error = error_about(entry(), entry(name="two", nmae="x", steam_key="y"))
    assert "unknown field 'nmae', 'steam_key' @ $.destinations[1]" in error
    assert "unknown field 'destination'" in error_in('{"destinations": [], "destination": []}')


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("name", 1, "text is expected"),
        ("url", None, "text is expected"),
        ("url", ["rtmp://host/app"], "text is expected"),
        ("stream_key", 12345, "text is expected"),
        ("stream_key", True, "text is expected"),
        ("stream_key_file", 1, "text is expected"),
        ("ca_file", {}, "text is expected"),
        ("match", ["*"], "text is expected"),
        ("enabled", "yes", "true or false is expected"),
        ("enabled", 1, "true or false is expected"),
        ("enabled", None, "true or false is expected"),
        ("verify", "no", "true or false is expected"),
        ("max_retries", "3", "a whole number is expected"),
        ("max_retries", 3.5, "a whole number is expected"),
        ("max_retries", True, "a whole number is expected"),
        ("failures_before_backup", "1", "a whole number is expected"),
        ("linger", "10", "a number is expected"),
        ("linger", False, "a number is expected"),
        ("linger", None, "a number is expected"),
        ("linger", 10**400, ""),
        ("backup", "rtmp://host/app", "a list is expected"),
        ("backup", {"rtmp://host/app": 1}, "a list is expected"),
        ("backup", [1], "text is expected"),
        ("metadata", "text", ""),
        ("metadata", [["a", 1]], ""),
    ],
)
def test_error_names_a_field_of_the_wrong_type(field: str, value: object, expected: str) -> None:
    error = error_about(entry(), {"name": "two", "url": URL, field: value})
    assert f"$.destinations[1].{field}" in error
    assert expected in error


def test_error_names_all_fields_of_the_wrong_type() -> None:
    error = error_about({"name": 1, "url": 2, "linger": "x"}, {"enabled": 3})
    for word in ("[0].name", "[0].url", "[0].linger", "[1].enabled", "'name' is missing", "'url' is missing"):
        assert word in error


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"name": ""}, "the name must be printable text"),
        ({"name": "  "}, "the name must be printable text"),
        ({"name": "a\nb"}, "the name must be printable text"),
        ({"name": "\ud800"}, "the name must be printable text"),
        ({"max_retries": -1}, "must not be negative"),
        ({"linger": -0.5}, "must not be negative"),
        ({"failures_before_backup": 0}, "must be positive"),
        ({"url": "http://host/app"}, "url: its scheme is 'http'"),
        ({"url": "rtmp://host"}, "url: it has no application"),
        ({"url": ""}, "url: it is not an RTMP URL"),
        ({"backup": ["rtmp://host/app2", "rtmp:///app"]}, "backup[1]: it has no host"),
        ({"stream_key": "x", "stream_key_file": "y"}, "cannot both be given"),
        ({"stream_key": "${NOT_THERE}"}, "stream_key: the environment has no NOT_THERE"),
        ({"url": "rtmp://${NOT_THERE}/app"}, "): url: the environment has no NOT_THERE"),
        ({"backup": ["rtmp://${NOT_THERE}/app"]}, "): backup[0]: the environment has no NOT_THERE"),
        ({"stream_key": "${EMPTY}"}, "stream_key: ${EMPTY} is empty in the environment"),
        ({"stream_key": "\ud800"}, "cannot be sent"),
    ],
)
def test_value_that_cannot_be_used_is_refused(more: dict[str, object], words: str) -> None:
    error = error_about(entry(name="zero", url="rtmp://zero/app"), entry(**more), EMPTY="")
    assert "destinations[1]" in error
    assert words in error


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_linger_that_is_not_finite_is_refused(number: str) -> None:
    error = error_in(f'{{"destinations": [{{"name": "one", "url": "{URL}", "linger": {number}}}]}}')
    assert "destinations[0]" in error
    assert "linger" in error


def test_same_name_or_address_is_refused() -> None:
    assert "two destinations called 'one'" in error_about(entry(), entry(url="rtmp://other/app"))
    same = error_about(entry(stream_key="k"), entry(name="two", url="rtmp://HOST:1935/app/k"))
    assert "'one' and 'two' go to the same place" in same
    assert len(parse(entry(), entry(name="two", match="a/*"))) == 2
    assert len(parse(entry(stream_key="a"), entry(name="two", stream_key="b"))) == 2


def test_key_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for name in ("missing", "folder", "binary", "a\x00b", "\ud800"):
        error = error_about(entry(stream_key_file=name), folder=tmp_path)
        assert "stream_key_file" in error
        assert ("is not UTF-8 text" if name == "binary" else "cannot be read") in error


@pytest.mark.parametrize("content", ["", "  \n"])
def test_empty_key_file_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "key").write_text(content)
    assert "is empty" in error_about(entry(stream_key_file="key"), folder=tmp_path)


def test_file_without_a_certificate_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("")
    (tmp_path / "key").write_text("-----BEGIN CERTIFICATE-----\nno\n-----END CERTIFICATE-----\n")
    for name in ("missing.pem", ".", "a\x00b", "\ud800", "empty", "key"):
        assert "destinations[0] ('one'): ca_file" in error_about(entry(ca_file=name), folder=tmp_path)


# -- files ---------------------------------------------------------------------------------------------------


def test_file_that_cannot_be_read_is_refused_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b'{"destinations": ["\xff"]}')
    (tmp_path / "huge").write_bytes(b" " * (1024 * 1024 + 1))
    (tmp_path / "bad").write_text("{")
    for name, words in (
        ("missing", "cannot be read: No such file"),
        (".", "cannot be read: Is a directory"),
        ("binary", "is not UTF-8 text"),
        ("huge", "is larger than 1048576"),
        ("bad", "is not valid JSON"),
        ("a\x00b", "cannot be read"),
    ):
        path = str(tmp_path / name)
        with pytest.raises(ConfigError) as caught:
            read_relay_config(path)
        assert words in str(caught.value)
        assert repr(path)[1:-1] in str(caught.value)


def test_file_of_the_largest_size_is_read(tmp_path: Path) -> None:
    path = tmp_path / "relay.json"
    path.write_text('{"destinations": []}'.ljust(1024 * 1024))
    assert read_relay_config(str(path)) == []


def test_endless_file_is_refused() -> None:
    with pytest.raises(ConfigError, match="larger"):
        read_relay_config("/dev/zero")


# -- secrets -------------------------------------------------------------------------------------------------

MARK = "QzXmArK"
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(MARK),
    lambda children: (
        st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=5), children, max_size=3)
    ),
    max_leaves=5,
)
fields = st.sampled_from(
    [
        "name",
        "stream_key_file",
        "backup",
        "enabled",
        "max_retries",
        "linger",
        "match",
        "verify",
        "odd",
        "metadata",
    ]
)


@given(
    st.dictionaries(fields, json_values, max_size=4),
    st.sampled_from(
        [
            {"url": "rtmp://host/app", "stream_key": MARK},
            {"url": "http://host/app", "stream_key": MARK},
            {"url": f"rtmp://host/app/{MARK}"},
            {"url": f"rtmp:///app/{MARK}"},
            {"url": f"rtmp://host:x/app/{MARK}"},
            {"url": f"rtmp://user:{MARK}@host/app"},
            {"url": f"rtmp://user:{MARK}/@host/app"},
            {"url": "rtmp://host", "stream_key": "${MARKED}"},
            {"url": "rtmp://host/app/${MARKED}"},
            {"url": 1, "stream_key": MARK},
            {"url": "rtmp://host/app", "stream_key": [MARK]},
            {"url": "rtmp://host/app", "backup": [f"rtmp://host:/app/{MARK}"]},
        ]
    ),
)
def test_no_message_shows_a_key(more: dict[str, object], secret: dict[str, object]) -> None:
    # Fields that hold no secret may be shown.
    more = {name: value for name, value in more.items() if MARK not in json.dumps(value)}
    document = {"destinations": [{"name": "one", **more, **secret}, {"name": "one", **secret}]}
    try:
        settings = parse_relay_config(json.dumps(document), {"MARKED": MARK})
    except ConfigError as error:
        text, quiet = str(error), error.__context__ is None or error.__suppress_context__
    else:
        text, quiet = repr(settings), True
    assert MARK not in text
    assert quiet, "a traceback would show the key"


@given(st.text() | json_values.map(json.dumps))
def test_any_text_has_destinations_with_names_of_their_own_or_is_a_config_error(text: str) -> None:
    with contextlib.suppress(ConfigError):
        names = [settings.name for settings in parse_relay_config(text, {})]
        assert len(set(names)) == len(names)
