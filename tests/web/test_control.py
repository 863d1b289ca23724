"""Changes over HTTP: who may make them, what they do, and how wrong ones are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rtmprelay import events
from rtmprelay.secret import Secret
from tests.certificates import self_signed
from tests.helpers import EventList
from tests.web.helpers import TOKEN, Web, destination

pytestmark = pytest.mark.filterwarnings("ignore:Passing HostnameEndpoint a reactor")

NEW = {"name": "new", "url": "rtmp://192.0.2.5/app", "stream_key": "the-secret-key", "enabled": False}

CHANGES = [
    ("POST", "/destinations"),
    ("PATCH", "/destinations/far"),
    ("DELETE", "/destinations/far"),
    ("POST", "/destinations/far/enable"),
    ("POST", "/destinations/far/disable"),
    ("POST", "/destinations/far/reconnect"),
    ("DELETE", "/streams/live/test/publisher"),
]


def web_with_destination(**more: Any) -> Web:
    """A relay with one destination and one stream."""
    web = Web(destinations=[destination("far", enabled=False)], **more)
    web.publish()
    return web


def names(web: Web) -> list[str]:
    return list(web.get("/destinations").json["destinations"])


# -- access ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "path"), CHANGES)
def test_changes_are_refused_when_the_server_has_no_token(method: str, path: str) -> None:
    """The answer says how to set one."""
    web = web_with_destination(token=None)
    got = web.change(method, path)
    assert got.error == (403, "forbidden")
    assert b"--http-token" in got.body
    assert web.get("/control").json == {"api_version": 1, "changes_allowed": False, "authorized": False}


@pytest.mark.parametrize(("method", "path"), CHANGES)
@pytest.mark.parametrize(
    "header",
    [
        None,
        "Bearer wrong",
        "Bearer ",
        f"Basic {TOKEN}",
        TOKEN,
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        "Bearer \xff",
    ],
)
def test_changes_are_refused_without_the_right_token(method: str, path: str, header: str | None) -> None:
    web = web_with_destination()
    got = web.request(method, path, headers={} if header is None else {"Authorization": header})
    assert got.error == (401, "unauthorized")
    assert got.headers["www-authenticate"].startswith("Bearer")
    assert names(web) == ["far"]
    assert web.registry.get("live/test").publisher.ended == []


def test_control_says_whether_the_token_is_right() -> None:
    web = web_with_destination()
    assert web.get("/control").json["authorized"] is False
    assert web.get("/control", Authorization="Bearer wrong").json["authorized"] is False
    assert web.get("/control", Authorization=f"bearer {TOKEN}").json == {
        "api_version": 1,
        "changes_allowed": True,
        "authorized": True,
    }


def test_wrong_tokens_are_reported_once_a_second_with_their_count() -> None:
    web = web_with_destination()
    reported = EventList()
    web.service.events.add_sink(reported)
    for _ in range(20):
        web.change("POST", "/destinations", NEW, token="wrong-wrong")
    web.clock.advance(1)
    assert [event.others for event in reported.of(events.ControlRefused)] == [0, 18]
    web.change("POST", "/destinations", NEW)
    (applied,) = reported.of(events.ControlApplied)
    assert (applied.action, applied.target, applied.peer) == ("destination added", "new", "192.0.2.9:40000")


# -- destinations ----------------------------------------------------------------------------------------------------


def test_added_destination_is_there_at_once_with_its_key_masked() -> None:
    web = web_with_destination()
    got = web.change(
        "POST", "/destinations", {**NEW, "name": "a/b c", "metadata": {"note": "x"}, "match": "live/*"}
    )
    assert got.status == 201
    assert got.headers["location"] == "/destinations/a%2Fb%20c"
    assert got.json["url"] == "rtmp://192.0.2.5:1935/app/***"
    assert (got.json["lasting"], got.json["match"], got.json["metadata"]) == (False, "live/*", {"note": "x"})
    assert web.get(got.headers["location"]).json["name"] == "a/b c"
    settings = next(one.settings for one in web.service.destinations if one.name == "a/b c")
    assert settings.url.key == Secret("the-secret-key")


@pytest.mark.parametrize(
    ("entry", "status"),
    [
        ({**NEW, "name": "far"}, 409),
        ({**NEW, "url": "rtmp://192.0.2.1/live/far-key", "stream_key": None}, 409),
        ({**NEW, "url": "http://192.0.2.5/app"}, 400),
        ({**NEW, "url": "rtmp://192.0.2.5"}, 400),
        ({**NEW, "name": ""}, 400),
        ({**NEW, "name": "a\nb"}, 400),
        ({**NEW, "name": "x" * 300}, 400),
        ({**NEW, "nmae": 1}, 400),
        ({**NEW, "enabled": "yes"}, 400),
        ({**NEW, "linger": -1}, 400),
        ({**NEW, "max_retries": 1.5}, 400),
        ({**NEW, "backup": "rtmp://x/y"}, 400),
        ({**NEW, "lasting": "yes"}, 400),
        ({**NEW, "lasting": True}, 400),
        ({**NEW, "stream_key_file": "/etc/passwd"}, 400),
        ({**NEW, "ca_file": "/etc/passwd"}, 400),
        ({**NEW, "stream_key": "${HOME}"}, 400),
        ({**NEW, "url": "rtmp://192.0.2.5/${HOME}"}, 400),
        ({**NEW, "stream_key": "a\ud800"}, 400),
        ({"url": "rtmp://192.0.2.5/app"}, 400),
        ({}, 400),
        ([], 400),
        ("text", 400),
        (None, 400),
    ],
)
def test_wrong_destination_is_refused_with_a_reason_and_without_its_key(entry: object, status: int) -> None:
    web = web_with_destination()
    body = json.dumps(entry).encode()
    got = web.change("POST", "/destinations", body)
    assert got.status == status, got.body
    assert b"the-secret-key" not in got.body
    assert len(got.json["error"]["message"]) > 10
    assert names(web) == ["far"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"nmae": 1}, "unknown field 'nmae'"),
        ({"stream_key": 5}, "text is expected (in stream_key)"),
        ({"enabled": "yes", "nmae": 1}, "true or false is expected (in enabled); unknown field 'nmae'"),
    ],
)
def test_error_names_the_field_in_the_words_of_the_form(wrong: dict[str, object], message: str) -> None:
    got = web_with_destination().change("POST", "/destinations", {**NEW, **wrong})
    assert got.json["error"]["message"] == message


def test_destination_may_not_name_files_of_the_server(tmp_path: Path) -> None:
    """A client with the token could otherwise have their content sent to a server of its own."""
    web = web_with_destination()
    (tmp_path / "key").write_text("a key")
    (tmp_path / "cert.pem").write_bytes(self_signed("host.example")[1])
    plain = {"name": "new", "url": "rtmps://192.0.2.5/app"}
    for field, file in (("stream_key_file", "key"), ("ca_file", "cert.pem")):
        got = web.change("POST", "/destinations", {**plain, field: str(tmp_path / file)})
        assert got.error == (400, "bad_request")
        assert f"{field} names a file on the server" in got.json["error"]["message"]
    assert names(web) == ["far"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[" * 60_000,
        b'{"a":' * 10_000,
        b'{"name": "x", "url": "rtmp://192.0.2.7/a/b", "metadata": '
        + b'{"a":' * 100
        + b"1"
        + b"}" * 100
        + b"}",
        b"\xff\xfe{}",
        b'{"name": NaN}',
        b'{"linger": Infinity}',
        b'{"linger": ' + b"9" * 5000 + b"}",
        b'{"name": "a", "name": "b"}',
        b"{} {}",
    ],
    ids=[
        "nothing",
        "open",
        "deep",
        "deep objects",
        "deep metadata",
        "utf-16",
        "nan",
        "infinity",
        "long number",
        "twice",
        "two",
    ],
)
def test_wrong_json_body_is_a_bad_request(body: bytes) -> None:
    web = web_with_destination()
    got = web.change("POST", "/destinations", body)
    assert got.error == (400, "bad_request")


def test_body_without_the_content_type_of_json_is_refused() -> None:
    """A form on a page of another origin cannot send that content type."""
    web = web_with_destination()
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "text/plain"}
    got = web.request("POST", "/destinations", json.dumps(NEW).encode(), headers)
    assert got.error == (415, "unsupported_media_type")
    headers["Content-Type"] = "Application/JSON; charset=utf-8"
    assert web.request("POST", "/destinations", json.dumps(NEW).encode(), headers).status == 201


def test_destination_is_enabled_and_disabled_by_patch_or_post() -> None:
    web = web_with_destination()
    assert web.change("PATCH", "/destinations/far", {"enabled": True}).json["enabled"] is True
    assert web.change("POST", "/destinations/far/disable").json["status"] == "disabled"
    assert web.change("POST", "/destinations/far/enable").json["enabled"] is True
    assert web.change("POST", "/destinations/far/reconnect").status == 202
    for bad in ({}, {"enabled": 1}, {"enabled": None}, {"url": "rtmp://x/y"}, {"enabled": True, "more": 1}):
        got = web.change("PATCH", "/destinations/far", bad)
        assert got.error == (400, "bad_request")
    assert b"'more'" in web.change("PATCH", "/destinations/far", {"enabled": True, "more": 1}).body


def test_removed_destination_is_not_found_any_more() -> None:
    web = web_with_destination()
    assert web.change("DELETE", "/destinations/far").status == 204
    assert names(web) == []
    assert web.change("DELETE", "/destinations/far").error == (404, "not_found")
    for action in ("enable", "disable", "reconnect"):
        assert web.change("POST", f"/destinations/far/{action}").error == (404, "not_found")
    assert web.change("PATCH", "/destinations/far", {"enabled": True}).error == (404, "not_found")


@pytest.mark.parametrize(
    "query", ["?lasting=yes", "?lasting", "?last=true", "?lasting=true&x=1", "?%ff", "?a=1" + "&a=1" * 20]
)
def test_wrong_query_changes_nothing(query: str) -> None:
    web = web_with_destination()
    assert web.change("DELETE", f"/destinations/far{query}").error == (400, "bad_request")
    assert names(web) == ["far"]


def test_number_of_destinations_is_bounded() -> None:
    """Each is a label in the metrics, and a connection for each of its streams."""
    web = Web(destinations=[destination(f"d{number}", enabled=False) for number in range(500)])
    assert web.change("POST", "/destinations", NEW).error == (409, "conflict")


# -- lasting changes ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def relay_file(tmp_path: Path) -> Path:
    """A configuration file with one destination."""
    path = tmp_path / "relay.json"
    entry = {"name": "far", "url": "rtmp://192.0.2.1/live", "stream_key": "far-key", "enabled": False}
    path.write_text(json.dumps({"destinations": [entry]}))
    return path


def web_with_file(path: Path) -> Web:
    from rtmprelay.destinations.config_file import read_relay_config

    web = Web(destinations=read_relay_config(str(path)), relay_config=str(path))
    web.publish()
    return web


def reload(web: Web, path: Path) -> Any:
    from rtmprelay.destinations.config_file import read_relay_config

    return web.service.control.reload(read_relay_config(str(path)))


def test_lasting_destination_is_written_to_the_file_and_removed_from_it(relay_file: Path) -> None:
    web = web_with_file(relay_file)
    assert web.get("/destinations/far").json["lasting"] is True
    got = web.change("POST", "/destinations", {**NEW, "lasting": True})
    assert (got.status, got.json["lasting"]) == (201, True)
    assert json.loads(relay_file.read_text())["destinations"][1] == NEW
    changes = reload(web, relay_file)
    assert (changes.added, changes.removed, changes.changed) == ((), (), ())
    assert web.change("DELETE", "/destinations/new?lasting=true").status == 204
    assert [entry["name"] for entry in json.loads(relay_file.read_text())["destinations"]] == ["far"]


def test_reload_keeps_destinations_that_were_added_or_switched_while_running(relay_file: Path) -> None:
    """A destination of the file that was removed while running comes back."""
    web = web_with_file(relay_file)
    web.change("POST", "/destinations", NEW)
    web.change("POST", "/destinations/far/enable")
    reload(web, relay_file)
    assert names(web) == ["far", "new"]
    assert web.get("/destinations/far").json["enabled"] is True
    assert web.get("/destinations/new").json["lasting"] is False
    web.change("DELETE", "/destinations/far")
    web.change("DELETE", "/destinations/new")
    reload(web, relay_file)
    assert names(web) == ["far"]
    assert web.get("/destinations/far").json["enabled"] is False


def test_reload_prefers_what_changed_in_the_file(relay_file: Path) -> None:
    web = web_with_file(relay_file)
    web.change("POST", "/destinations/far/enable")
    web.change("POST", "/destinations", NEW)
    document = json.loads(relay_file.read_text())
    document["destinations"][0]["enabled"] = True
    document["destinations"].append({**NEW, "name": "another name"})
    relay_file.write_text(json.dumps(document))
    reload(web, relay_file)
    assert names(web) == ["far", "another name"]
    document["destinations"][0]["enabled"] = False
    relay_file.write_text(json.dumps(document))
    reload(web, relay_file)
    assert web.get("/destinations/far").json["enabled"] is False


def test_lasting_switch_is_written_to_the_file_and_nothing_else(relay_file: Path) -> None:
    web = web_with_file(relay_file)
    got = web.change("PATCH", "/destinations/far", {"enabled": True, "lasting": True})
    assert got.json["enabled"] is True
    assert json.loads(relay_file.read_text())["destinations"][0]["enabled"] is True
    changes = reload(web, relay_file)
    assert changes.changed == ()
    web.change("POST", "/destinations", NEW)
    refused = web.change("PATCH", "/destinations/new", {"enabled": True, "lasting": True})
    assert refused.error == (400, "bad_request")
    assert web.change("DELETE", "/destinations/new?lasting=true").error == (400, "bad_request")
    assert names(web) == ["far", "new"]


def test_lasting_change_fails_when_the_file_cannot_be_changed(relay_file: Path) -> None:
    """The answer says what is wrong with the file, without its keys."""
    web = web_with_file(relay_file)
    relay_file.write_text(
        '{"destinations": [{"name": "far", "url": "rtmp://x/a", "stream_key": "k3y", "x": 1}]}'
    )
    got = web.change("POST", "/destinations", {**NEW, "lasting": True})
    assert got.error == (400, "bad_request")
    assert b"corrected" in got.body
    assert b"k3y" not in got.body
    assert names(web) == ["far"]
    relay_file.unlink()
    assert web.change("POST", "/destinations", {**NEW, "lasting": True}).error == (400, "bad_request")


# -- publishers ------------------------------------------------------------------------------------------------------


def test_publisher_is_disconnected_with_a_reason() -> None:
    web = web_with_destination()
    publisher = web.registry.get("live/test").publisher
    assert web.change("DELETE", "/streams/live/test/publisher").status == 204
    assert publisher.ended == ["ended by the operator of this server"]
    assert web.change("DELETE", "/streams/live/other/publisher").error == (404, "not_found")
    assert web.change("GET", "/streams/live/test/publisher").error == (405, "method_not_allowed")
    web.publish("live/test/publisher")
    assert web.get("/streams/live/test/publisher").json["key"] == "live/test/publisher"
