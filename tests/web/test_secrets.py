"""Keys and tokens are in no response, event, metric or line of the log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from twisted.logger import ILogObserver, LogEvent, globalLogPublisher
from zope.interface import implementer

from rtmprelay import logs
from rtmprelay.destinations.config_file import read_relay_config
from rtmprelay.testing import MemoryServer
from tests.helpers import group, start_frames
from tests.web.helpers import TOKEN, Client, Web

pytestmark = pytest.mark.filterwarnings("ignore:Passing HostnameEndpoint a reactor")

#: What must not be shown, by where it is used.
SECRETS = {
    "key": "s3cr3t-key",
    "password": "s3cr3t-password",
    "query": "s3cr3t-query",
    "backup": "s3cr3t-backup",
    "added": "s3cr3t-added",
    "refused": "s3cr3t-refused",
    "publish": "s3cr3t-publish",
    "token": TOKEN,
    "guess": "s3cr3t-guess",
}

DESTINATIONS: list[dict[str, Any]] = [
    {"name": "one", "url": "rtmp://host.example/app", "stream_key": SECRETS["key"]},
    {"name": "two", "url": f"rtmp://user:{SECRETS['password']}@host.example/app/{SECRETS['key']}2"},
    {"name": "three", "url": f"rtmp://host.example/app?auth={SECRETS['query']}", "enabled": False},
    {
        "name": "four",
        "url": "rtmps://host.example/app/x",
        "backup": [f"rtmps://other.example/app/{SECRETS['backup']}"],
        "match": "none",
    },
]


@pytest.fixture
def lines() -> Iterator[list[str]]:
    """Everything that is logged, in both formats, including debug."""
    found: list[str] = []

    @implementer(ILogObserver)
    def observe(event: LogEvent) -> None:
        found.append(logs.format_json(event))
        found.append(str(logs.format_text(event)))
        found.append(repr(event))

    globalLogPublisher.addObserver(cast(ILogObserver, observe))
    yield found
    globalLogPublisher.removeObserver(cast(ILogObserver, observe))


def responses_to_every_request(web: Web) -> list[bytes]:
    """The bytes of every response, with its headers."""
    added = {"name": "added", "url": "rtmp://new.example/app", "stream_key": SECRETS["added"]}
    reader = Client(web)
    reader.send(b"GET /events HTTP/1.1\r\n\r\n")
    answers = []

    def ask(method: str, path: str, document: object = None, token: str = TOKEN) -> None:
        answers.append(repr(web.change(method, path, document, token)).encode())
        web.advance(0.3)

    ask("POST", "/destinations", added)
    ask("POST", "/destinations", {**added, "name": "lasting", "url": "rtmp://l.example/a", "lasting": True})
    refused = SECRETS["refused"]
    for bad in (
        added,
        {**added, "name": "again"},
        {**added, "url": f"http://{refused}@x/{refused}"},
        {**added, "name": "x", "url": f"rtmp://h:{refused}/a/b"},
        {**added, "name": "x", "url": f"rtmp://u:{refused}/more@h/a"},
        {**added, "name": "x", "stream_key": [refused]},
        {**added, "name": "x", "stream_key": {refused: refused}},
        {**added, "name": "x", "stream_key": refused, "stream_key_file": refused},
        {**added, "name": "x", "backup": [f"ftp://h/{refused}"]},
        {**added, "name": "x", "backup": {refused: 1}},
        {**added, "name": ["x"], "stream_key": refused},
        {**added, "name": "x", "lasting": refused},
        {**added, "name": "x", "enabled": refused},
        json.dumps({**added, "stream_key": refused}).encode()[:-3],
        b'{"stream_key": "' + refused.encode() + b'", "stream_key": "x"}',
        b'"' + refused.encode() + b'"',
        f"stream_key={refused}".encode(),
    ):
        ask("POST", "/destinations", bad)
    ask("PATCH", "/destinations/one", {"enabled": refused})
    ask("PATCH", "/destinations/lasting", {"enabled": False, "lasting": True})
    ask("POST", "/destinations", added, token=SECRETS["guess"])
    ask("DELETE", f"/destinations/gone?lasting={refused}")
    for path in (
        "/health",
        "/streams",
        "/streams/live/test",
        "/destinations",
        *(f"/destinations/{one['name']}" for one in DESTINATIONS),
        "/recordings",
        "/control",
        "/metrics",
        f"/live/gone.flv?token={refused}",
        f"/health?key={refused}",
        "/nothing",
    ):
        ask("GET", path)
        ask("HEAD", path)
    for action in ("disable", "enable", "reconnect"):
        ask("POST", f"/destinations/one/{action}")
    ask("DELETE", "/destinations/lasting?lasting=true")
    ask("DELETE", "/streams/live/test/publisher")
    web.advance(2)
    answers.append(reader.transport.value())
    return answers


def test_no_response_metric_event_log_line_or_repr_has_a_secret(lines: list[str], tmp_path: Path) -> None:
    file = tmp_path / "relay.json"
    file.write_text(json.dumps({"destinations": DESTINATIONS}))
    web = Web(destinations=read_relay_config(str(file)), relay_config=str(file))
    web.publish()
    web.advance(3)
    answers = responses_to_every_request(web)
    shown = [
        *answers,
        *(line.encode() for line in lines),
        repr(web.service.control).encode(),
        repr(web.service.config).encode(),
        repr(web.settings).encode(),
        repr([one.settings for one in web.service.destinations]).encode(),
    ]
    assert sum(b"status=20" in answer for answer in answers) > 20
    assert any(b"control_applied" in answer for answer in answers)
    for what, secret in SECRETS.items():
        for text in shown:
            assert secret.encode() not in text, (what, text[:2000])


def test_query_string_of_a_publisher_is_not_shown() -> None:
    server = MemoryServer()
    encoder = server.connect(app=f"live?token={SECRETS['publish']}")
    encoder.publish(f"test?key={SECRETS['publish']}")
    encoder.send(*start_frames(), *group(0))
    web = Web()
    web.http._status._relay.registry._streams.update(server.registry._streams)
    for path in ("/streams", "/metrics", "/streams/live/test"):
        got = web.get(path)
        assert got.status == 200
        assert SECRETS["publish"].encode() not in got.body
    assert "live/test" in web.get("/streams").json["streams"]
