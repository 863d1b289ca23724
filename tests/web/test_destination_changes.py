"""Destinations that are changed and tried out over HTTP: what may be changed, where a key may go, what a check costs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rtmprelay.destinations.preflight import LONGEST_CHECK, MAX_ADDRESSES, MAX_CHECKS
from rtmprelay.destinations.settings import DestinationSettings
from rtmprelay.secret import Secret
from rtmprelay.wire.url import RtmpUrl
from tests.destinations.stub_server import StubServer
from tests.destinations.test_preflight import Names
from tests.web.helpers import TOKEN, Client, Response, Web, destination, parse_response

pytestmark = pytest.mark.filterwarnings("ignore:Passing HostnameEndpoint a reactor")

KEY = "KEY-that-nobody-may-see"


def far(**more: Any) -> DestinationSettings:
    return destination("far", f"rtmp://user:pass@192.0.2.1/app/{KEY}", **more)


def settings_of(web: Web, name: str = "far") -> DestinationSettings:
    return next(one.settings for one in web.service.destinations if one.name == name)


# -- changes ---------------------------------------------------------------------------------------------------------


def test_settings_are_shown_without_key_and_password() -> None:
    web = Web(destinations=[far(enabled=False, linger=3.0)])
    got = web.get("/destinations/far/settings")
    assert KEY not in got.body.decode()
    assert b"pass" not in got.body
    assert got.json["url"] == "rtmp://192.0.2.1/app"
    assert (got.json["has_key"], got.json["linger"], got.json["match"]) == (True, 3.0, "*")
    assert web.get("/destinations/near/settings").error == (404, "not_found")


def test_changed_fields_are_used_and_the_others_stay() -> None:
    web = Web(destinations=[far(enabled=False)])
    got = web.change(
        "PATCH", "/destinations/far", {"match": "live/*", "linger": 2, "max_retries": 5, "verify": False}
    )
    assert (got.status, got.json["match"]) == (200, "live/*")
    settings = settings_of(web)
    assert (settings.linger, settings.max_retries, settings.verify, settings.enabled) == (
        2.0,
        5,
        False,
        False,
    )
    assert settings.url == far().url
    assert web.change("PATCH", "/destinations/far", {"enabled": True, "linger": 4}).json["enabled"] is True


def test_address_on_the_same_server_keeps_key_and_user() -> None:
    web = Web(destinations=[far(enabled=False)])
    assert web.change("PATCH", "/destinations/far", {"url": "rtmp://192.0.2.1/other/deep"}).status == 200
    url = settings_of(web).url
    assert (url.app, url.key, url.user, url.password) == ("other/deep", Secret(KEY), "user", Secret("pass"))


@pytest.mark.parametrize(
    "fields",
    [
        {"url": "rtmp://192.0.2.66/app"},
        {"url": "rtmps://192.0.2.1/app"},
        {"url": "rtmp://192.0.2.1:1936/app"},
        {"backup": ["rtmp://192.0.2.66/app"]},
    ],
)
def test_key_is_sent_to_no_server_that_it_was_not_given_for(fields: dict[str, object]) -> None:
    """With it the token would be a way to read the key."""
    web = Web(destinations=[far(enabled=False)])
    got = web.change("PATCH", "/destinations/far", fields)
    assert got.error == (400, "bad_request")
    assert b"stream_key" in got.body
    assert settings_of(web) == far(enabled=False)
    assert web.change("PATCH", "/destinations/far", {**fields, "stream_key": "new"}).status == 200
    assert settings_of(web).url.key == Secret("new")


def test_key_alone_is_replaced_or_removed() -> None:
    web = Web(destinations=[far(enabled=False, backup=(RtmpUrl.parse(f"rtmp://192.0.2.2/app/{KEY}"),))])
    assert web.change("PATCH", "/destinations/far", {"stream_key": "new"}).status == 200
    assert {url.key for url in settings_of(web).addresses} == {Secret("new")}
    assert settings_of(web).url.user == "user"
    assert web.change("PATCH", "/destinations/far", {"stream_key": None}).status == 200
    assert not settings_of(web).url.key


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "nothing is to be changed"),
        ({"name": "near"}, "'name' cannot be changed"),
        ({"stream_key_file": "/etc/passwd"}, "'stream_key_file' cannot be changed"),
        ({"ca_file": "/etc/passwd"}, "'ca_file' cannot be changed"),
        ({"stream_key": "${HOME}"}, "environment"),
        ({"url": 3}, "text is expected"),
        ({"backup": "rtmp://x/y"}, "a list is expected"),
        ({"url": "http://192.0.2.1/app"}, "rtmp or rtmps"),
        ({"url": "rtmp://192.0.2.1/app/..."}, "give all of it"),
        ({"linger": -1}, "must not be negative"),
        ({"max_retries": "3"}, "a whole number"),
        ({"enabled": "no"}, "true or false"),
    ],
)
def test_wrong_change_is_refused_with_the_reason(fields: dict[str, object], words: str) -> None:
    web = Web(destinations=[far(enabled=False)])
    got = web.change("PATCH", "/destinations/far", fields)
    assert got.error == (400, "bad_request")
    assert words in got.json["error"]["message"]
    assert KEY not in got.body.decode()
    assert settings_of(web) == far(enabled=False)


def test_change_into_another_destination_is_a_conflict() -> None:
    near = destination("near", "rtmp://192.0.2.1/other/key", enabled=False)
    web = Web(destinations=[far(enabled=False), near])
    same = {"url": "rtmp://192.0.2.1/other", "stream_key": "key"}
    assert web.change("PATCH", "/destinations/far", same).error == (409, "conflict")
    assert web.change("PATCH", "/destinations/gone", {"linger": 1}).error == (404, "not_found")


def entry_in(file: Path) -> dict[str, Any]:
    return dict(json.loads(file.read_text())["destinations"][0])


@pytest.fixture
def web_with_file(tmp_path: Path) -> tuple[Web, Path]:
    """A relay whose file has a destination with the key in a field of its own."""
    file = tmp_path / "relay.json"
    entry = {"name": "far", "url": "rtmp://192.0.2.1/app", "stream_key": KEY, "enabled": False, "linger": 7}
    file.write_text(json.dumps({"destinations": [entry]}))
    url = RtmpUrl.parse("rtmp://192.0.2.1/app", Secret(KEY))
    settings = DestinationSettings(name="far", url=url, enabled=False, linger=7.0)
    return Web(destinations=[settings], relay_config=str(file)), file


def test_lasting_change_is_written_to_the_file(web_with_file: tuple[Web, Path]) -> None:
    web, file = web_with_file
    change = {"match": "live/*", "url": "rtmp://192.0.2.1/two", "lasting": True}
    assert web.change("PATCH", "/destinations/far", change).status == 200
    assert entry_in(file) == {
        "name": "far",
        "url": "rtmp://192.0.2.1/two",
        "stream_key": KEY,
        "enabled": False,
        "linger": 7,
        "match": "live/*",
    }
    assert web.change("PATCH", "/destinations/far", {"linger": 1}).status == 200
    assert entry_in(file)["linger"] == 7


def test_lasting_change_keeps_no_key_in_the_address(tmp_path: Path) -> None:
    """A new address would lose it, and a new key would stand beside the old one."""
    file = tmp_path / "relay.json"
    file.write_text(json.dumps({"destinations": [{"name": "far", "url": f"rtmp://192.0.2.1/app/{KEY}"}]}))
    web = Web(destinations=[far(enabled=False)], relay_config=str(file))
    for fields in ({"url": "rtmp://192.0.2.1/two"}, {"stream_key": "new"}):
        got = web.change("PATCH", "/destinations/far", {**fields, "lasting": True})
        assert got.error == (400, "bad_request")
        assert "url and stream_key both" in got.json["error"]["message"]
    both = {"url": "rtmp://192.0.2.1/two", "stream_key": "new", "lasting": True}
    assert web.change("PATCH", "/destinations/far", both).status == 200
    assert entry_in(file) == {"name": "far", "url": "rtmp://192.0.2.1/two", "stream_key": "new"}


# -- checks ----------------------------------------------------------------------------------------------------------


class Trial:
    """A relay whose destinations are all the same stub."""

    def __init__(self, server: StubServer, *destinations: DestinationSettings) -> None:
        self.server = server
        self.web = Web(destinations=destinations)
        self.web.clock.nameResolver = Names()  # type: ignore[attr-defined]

    def begin(self, path: str, body: object = None) -> Client:
        client = Client(self.web)
        data = b"" if body is None else json.dumps(body).encode()
        lines = [f"POST {path} HTTP/1.1", "Host: relay", f"Authorization: Bearer {TOKEN}"]
        lines += ["Content-Type: application/json", f"Content-Length: {len(data)}", "", ""]
        client.send("\r\n".join(lines).encode() + data)
        return client

    def pump(self, seconds: float) -> None:
        for _ in range(round(seconds / 0.5)):
            while self.server.pump():
                pass
            self.web.clock.advance(0.5)

    def run(self, path: str, body: object = None, seconds: float = 5) -> Response:
        client = self.begin(path, body)
        self.pump(seconds)
        response, _ = parse_response(client.transport.value())
        assert KEY not in response.body.decode()
        return response


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> StubServer:
    server = StubServer()
    monkeypatch.setattr("rtmprelay.destinations.preflight.transport_endpoint", lambda *_: server)
    return server


def test_check_of_a_destination_shows_each_step(server: StubServer) -> None:
    trial = Trial(server, far(enabled=False))
    got = trial.run("/destinations/far/check")
    assert (got.status, got.json["succeeded"]) == (200, True)
    (address,) = got.json["addresses"]
    assert address["address"] == "rtmp://192.0.2.1:1935/app/***"
    assert [step["name"] for step in address["steps"]] == [
        "dns",
        "tcp",
        "handshake",
        "connect",
        "publish",
        "stays",
    ]
    assert {step["problem"] for step in address["steps"]} == {None}
    assert trial.web.change("POST", "/destinations/gone/check").error == (404, "not_found")


def test_check_of_an_entry_needs_no_destination(server: StubServer) -> None:
    trial = Trial(server)
    got = trial.run("/check", {"url": "rtmp://new.example/app", "stream_key": KEY})
    assert got.json["succeeded"] is True
    assert trial.web.get("/destinations").json["destinations"] == {}
    assert trial.run("/check", {"url": "nonsense"}).error == (400, "bad_request")
    assert trial.run("/check", {"url": "rtmp://h/app", "ca_file": "/etc/passwd"}).error == (
        400,
        "bad_request",
    )


def test_check_of_a_server_that_says_nothing_ends_and_names_the_step(server: StubServer) -> None:
    server.deaf = True
    trial = Trial(server, far(enabled=False))
    got = trial.run("/destinations/far/check", seconds=LONGEST_CHECK + 1)
    assert got.json["succeeded"] is False
    last = got.json["addresses"][0]["steps"][-1]
    assert last["name"] == "handshake"
    assert last["problem"]


def test_checks_are_bounded_in_number_time_and_addresses(server: StubServer) -> None:
    server.deaf = True
    backup = tuple(RtmpUrl.parse(f"rtmp://192.0.2.{number}/app/k") for number in range(20, 30))
    trial = Trial(server, far(enabled=False, backup=backup))
    clients = [trial.begin("/destinations/far/check") for _ in range(MAX_CHECKS)]
    assert trial.web.change("POST", "/destinations/far/check").error == (503, "too_many_clients")
    trial.pump(LONGEST_CHECK + 1)
    for client in clients:
        response, _ = parse_response(client.transport.value())
        assert len(response.json["addresses"]) <= MAX_ADDRESSES
    server.deaf = False
    assert trial.run("/destinations/far/check").json["succeeded"] is True


def test_destination_that_is_sending_is_not_tried(
    server: StubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second publish with its key would end the broadcast on most servers."""
    monkeypatch.setattr("rtmprelay.wiring.transport_endpoint", lambda *_: server)
    trial = Trial(server, far())
    trial.web.publish()
    trial.pump(2)
    assert trial.web.get("/destinations/far").json["status"] == "connected"
    for path, body in (
        ("/destinations/far/check", None),
        ("/check", {"url": "rtmp://192.0.2.1/app", "stream_key": KEY}),
        ("/check", {"url": "rtmp://new/app", "stream_key": KEY, "backup": ["rtmp://192.0.2.1/app"]}),
    ):
        got = trial.run(path, body)
        assert got.error == (409, "conflict")
        assert "end the broadcast" in got.json["error"]["message"]
