"""Changes over HTTP: who may make them, what they do, and what is wrong with bad ones."""

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


def world(**more: Any) -> Web:
    """A relay with one destination and one stream."""
    web = Web(destinations=[destination("far", enabled=False)], **more)
    web.publish()
    return web


def names(web: Web) -> list[str]:
    return list(web.get("/destinations").json["destinations"])


# -- who may ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "path"), CHANGES)
def test_without_a_configured_token_nothing_can_be_changed(method: str, path: str) -> None:
    """And the answer says how to enable it."""
    web = world(token=None)
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
def test_without_the_token_nothing_can_be_changed(method: str, path: str, header: str | None) -> None:
    """Neither without one, nor with a wrong one, nor with the right one in the wrong way."""
    web = world()
    got = web.request(method, path, headers={} if header is None else {"Authorization": header})
    assert got.error == (401, "unauthorized")
    assert got.headers["www-authenticate"].startswith("Bearer")
    assert names(web) == ["far"]
    assert web.registry.get("live/test").publisher.ended == []


def test_a_page_can_ask_whether_its_token_is_right() -> None:
    """Without changing anything."""
    web = world()
    assert web.get("/control").json["authorized"] is False
    assert web.get("/control", Authorization="Bearer wrong").json["authorized"] is False
    assert web.get("/control", Authorization=f"bearer {TOKEN}").json == {
        "api_version": 1,
        "changes_allowed": True,
        "authorized": True,
    }


def test_wrong_tokens_are_told_once_a_second() -> None:
    """With a count, so that they cannot fill the log; a right one is told as what it did."""
    web = world()
    told = EventList()
    web.service.events.add_sink(told)
    for _ in range(20):
        web.change("POST", "/destinations", NEW, token="wrong-wrong")
    web.clock.advance(1.5)
    web.change("POST", "/destinations", NEW, token="wrong-wrong")
    assert [event.others for event in told.of(events.ControlRefused)] == [0, 19]
    web.change("POST", "/destinations", NEW)
    (applied,) = told.of(events.ControlApplied)
    assert (applied.action, applied.target, applied.peer) == ("destination added", "new", "192.0.2.9:40000")


# -- destinations ----------------------------------------------------------------------------------------------------


def test_adding_a_destination() -> None:
    """It is there at once, masked, and the answer says where."""
    web = world()
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
def test_destinations_that_cannot_be_added(entry: object, status: int) -> None:
    """Each says why, and shows no key; nothing has changed."""
    web = world()
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
def test_what_is_wrong_is_told_in_words(wrong: dict[str, object], message: str) -> None:
    """The field is named as people know it: it is shown beside the form."""
    got = world().change("POST", "/destinations", {**NEW, **wrong})
    assert got.json["error"]["message"] == message


def test_the_token_is_no_way_to_read_files(tmp_path: Path) -> None:
    """Not even files that would do: somebody could have their content sent to a server of his own."""
    web = world()
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
def test_bodies_that_are_no_good(body: bytes) -> None:
    """A clear 400, whatever it is."""
    web = world()
    got = web.change("POST", "/destinations", body)
    assert got.error == (400, "bad_request")


def test_a_body_must_be_called_json() -> None:
    """A form of a strange page cannot send that."""
    web = world()
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "text/plain"}
    got = web.request("POST", "/destinations", json.dumps(NEW).encode(), headers)
    assert got.error == (415, "unsupported_media_type")
    headers["Content-Type"] = "Application/JSON; charset=utf-8"
    assert web.request("POST", "/destinations", json.dumps(NEW).encode(), headers).status == 201


def test_enabling_and_disabling() -> None:
    """By PATCH or by POST."""
    web = world()
    assert web.change("PATCH", "/destinations/far", {"enabled": True}).json["enabled"] is True
    assert web.change("POST", "/destinations/far/disable").json["status"] == "disabled"
    assert web.change("POST", "/destinations/far/enable").json["enabled"] is True
    assert web.change("POST", "/destinations/far/reconnect").status == 202
    for bad in ({}, {"enabled": 1}, {"enabled": None}, {"url": "rtmp://x/y"}, {"enabled": True, "more": 1}):
        got = web.change("PATCH", "/destinations/far", bad)
        assert got.error == (400, "bad_request")
    assert b"'more'" in web.change("PATCH", "/destinations/far", {"enabled": True, "more": 1}).body


def test_removing() -> None:
    """Once; then it is not there."""
    web = world()
    assert web.change("DELETE", "/destinations/far").status == 204
    assert names(web) == []
    assert web.change("DELETE", "/destinations/far").error == (404, "not_found")
    for action in ("enable", "disable", "reconnect"):
        assert web.change("POST", f"/destinations/far/{action}").error == (404, "not_found")
    assert web.change("PATCH", "/destinations/far", {"enabled": True}).error == (404, "not_found")


@pytest.mark.parametrize(
    "query", ["?lasting=yes", "?lasting", "?last=true", "?lasting=true&x=1", "?%ff", "?a=1" + "&a=1" * 20]
)
def test_bad_queries(query: str) -> None:
    """Nobody guesses what was meant."""
    web = world()
    assert web.change("DELETE", f"/destinations/far{query}").error == (400, "bad_request")
    assert names(web) == ["far"]


def test_there_may_not_be_endless_destinations() -> None:
    """Each is a label in the metrics, and a connection for each stream."""
    web = Web(destinations=[destination(f"d{number}", enabled=False) for number in range(500)])
    assert web.change("POST", "/destinations", NEW).error == (409, "conflict")


# -- lasting ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def relay_file(tmp_path: Path) -> Path:
    """A configuration file with things in it that are not ours."""
    path = tmp_path / "relay.json"
    entry = {"name": "far", "url": "rtmp://192.0.2.1/live", "stream_key": "far-key", "enabled": False}
    path.write_text(json.dumps({"destinations": [entry]}))
    return path


def lasting_world(path: Path) -> Web:
    from rtmprelay.destinations.config_file import read_relay_config

    web = Web(destinations=read_relay_config(str(path)), relay_config=str(path))
    web.publish()
    return web


def reload(web: Web, path: Path) -> Any:
    from rtmprelay.destinations.config_file import read_relay_config

    return web.service.steering.reload(read_relay_config(str(path)))


def test_a_lasting_destination_is_in_the_file(relay_file: Path) -> None:
    """Reading it again changes nothing; removing it lastingly takes it out."""
    web = lasting_world(relay_file)
    assert web.get("/destinations/far").json["lasting"] is True
    got = web.change("POST", "/destinations", {**NEW, "lasting": True})
    assert (got.status, got.json["lasting"]) == (201, True)
    assert json.loads(relay_file.read_text())["destinations"][1] == NEW
    changes = reload(web, relay_file)
    assert (changes.added, changes.removed, changes.changed) == ((), (), ())
    assert web.change("DELETE", "/destinations/new?lasting=true").status == 204
    assert [entry["name"] for entry in json.loads(relay_file.read_text())["destinations"]] == ["far"]


def test_what_is_not_lasting_survives_a_new_reading(relay_file: Path) -> None:
    """An added one stays, a switched one stays switched, a removed one comes back: the file has it."""
    web = lasting_world(relay_file)
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


def test_the_file_has_the_last_word(relay_file: Path) -> None:
    """What it says anew about a switch counts; and its destination takes the place of an added one."""
    web = lasting_world(relay_file)
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


def test_a_lasting_switch(relay_file: Path) -> None:
    """It is in the file, and nothing else there has changed."""
    web = lasting_world(relay_file)
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


def test_a_file_that_cannot_be_changed_changes_nothing(relay_file: Path) -> None:
    """The answer says what is wrong with it, without its keys."""
    web = lasting_world(relay_file)
    relay_file.write_text(
        '{"destinations": [{"name": "far", "url": "rtmp://x/a", "stream_key": "k3y", "x": 1}]}'
    )
    got = web.change("POST", "/destinations", {**NEW, "lasting": True})
    assert got.error == (400, "bad_request")
    assert b"mended" in got.body
    assert b"k3y" not in got.body
    assert names(web) == ["far"]
    relay_file.unlink()
    assert web.change("POST", "/destinations", {**NEW, "lasting": True}).error == (400, "bad_request")


# -- publishers ------------------------------------------------------------------------------------------------------


def test_sending_a_publisher_away() -> None:
    """It is told why; nobody is there the second time."""
    web = world()
    publisher = web.registry.get("live/test").publisher
    assert web.change("DELETE", "/streams/live/test/publisher").status == 204
    assert publisher.ended == ["ended by the operator of this server"]
    assert web.change("DELETE", "/streams/live/other/publisher").error == (404, "not_found")
    assert web.change("GET", "/streams/live/test/publisher").error == (405, "method_not_allowed")
    web.publish("live/test/publisher")
    assert web.get("/streams/live/test/publisher").json["key"] == "live/test/publisher"
