"""docs/reference/openapi.json describes the running server."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from jsonschema import Draft202012Validator, ValidationError
from openapi_spec_validator import validate

from rtmprelay.recording.settings import RecordingSettings
from rtmprelay.secret import Secret
from rtmprelay.web.api.routes import DESTINATION_ACTIONS
from rtmprelay.web.media_routes import MEDIA_KINDS, STILL
from rtmprelay.web.settings import HttpSettings
from tests.helpers import (
    LOOPBACK,
    free_port,
    group,
    real_reactor_fixture,
    real_reactor_test,
    start_frames,
    until,
)
from tests.service.harness import Harness, Relay, Sink, destination
from tests.service.http_client import TOKEN, connect, fetch
from tests.web.helpers import Response, Web
from tests.web.hls import HlsWeb

FILE = Path(__file__).parents[2] / "docs" / "reference" / "openapi.json"
DOCUMENT: dict[str, Any] = json.loads(FILE.read_text())


def strict(schema: Any) -> Any:
    """The same schema, but without fields that it does not name: every field must be documented."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    stricter = {name: strict(part) for name, part in schema.items()}
    if isinstance(schema.get("properties"), dict) and "additionalProperties" not in schema:
        stricter["additionalProperties"] = False
    return stricter


STRICT = strict(DOCUMENT)


def check(name: str, content: Any) -> None:
    """Check content against a schema."""
    schema = {"$ref": f"#/components/schemas/{name}", "components": STRICT["components"]}
    Draft202012Validator(schema).validate(content)


def template_of(path: str) -> str:
    """The documented path that matches a request."""
    path = path.partition("?")[0]
    path = re.sub(r"^/streams/live/test", "/streams/{app}/{name}", path)
    return re.sub(r"^/(destinations|pulls)/[^/]+", r"/\1/{name}", path)


def check_response(method: str, path: str, response: Response) -> None:
    """Check a response against those that are documented for its request."""
    operation = DOCUMENT["paths"][template_of(path)][method.lower()]
    known = operation["responses"]
    assert str(response.status) in known, (method, path, response)
    described = known[str(response.status)]
    if "$ref" in described:
        described = DOCUMENT["components"]["responses"][described["$ref"].rpartition("/")[2]]
    content = described.get("content")
    if content is None:
        assert response.body == b""
        return
    ((media_type, media),) = content.items()
    assert response.headers["content-type"].partition(";")[0] == media_type
    if media_type == "application/json":
        check(media["schema"]["$ref"].rpartition("/")[2], response.json)


@attrs.define
class Running:
    """A relay and the port of its HTTP."""

    relay: Relay
    port: int

    async def request(self, method: str, path: str, document: object = None) -> Response:
        """Make a request and check the response against the document."""
        response = await fetch(self.port, method, path, document)
        check_response(method, path, response)
        return response


@real_reactor_fixture
async def running(harness: Harness, tmp_path: Path) -> AsyncIterator[Running]:
    """A stream with a player and a recording, one good and one dead destination."""
    sink = harness.start_sink(Sink())
    relay = harness.start_relay(
        destinations=(destination("good", sink.port), destination("dead", free_port())),
        recording=RecordingSettings(record_all=True, folder=tmp_path),
        http=HttpSettings(listen=LOOPBACK, token=Secret(TOKEN)),
    )
    publisher = await harness.publish()
    await harness.play()
    for frame in [*start_frames(), *group(0), *group(200)]:
        publisher.send(frame)
    await until(lambda: harness.status("good").messages_sent > 5 and harness.status("dead").last_error)
    await until(lambda: any(status.path for status in relay.service.recordings.statuses()))
    yield Running(relay, relay.http_port)


def test_document_is_valid_openapi_3_1() -> None:
    validate(DOCUMENT)
    assert DOCUMENT["openapi"].startswith("3.1")


@real_reactor_test
async def test_readable_paths_answer_as_documented(running: Running) -> None:
    """With a live stream, a player, a recording, a destination that works and one that does not."""
    health = (await running.request("GET", "/health")).json
    assert (health["streams"], health["players"], health["connected_destinations"]) == (1, 1, 1)
    streams = (await running.request("GET", "/streams")).json["streams"]
    assert streams["live/test"]["recording"]["state"] == "recording"
    assert streams["live/test"]["destinations"] == ["good", "dead"]
    assert streams["live/test"]["messages_out"] > 0
    destinations = (await running.request("GET", "/destinations")).json["destinations"]
    assert destinations["good"]["status"] == "connected"
    assert destinations["dead"]["status"] == "error"
    assert destinations["dead"]["next_attempt_in"] > 0
    assert (await running.request("GET", "/recordings")).json["recordings"][0]["messages_written"] > 0
    for path in (
        "/streams/live/test",
        "/destinations/good",
        "/destinations/gone",
        "/control",
        "/cluster",
        "/health/live",
        "/health/ready",
        "/metrics",
        "/",
    ):
        await running.request("GET", path)


@real_reactor_test
async def test_changes_and_their_errors_answer_as_documented(running: Running) -> None:
    new = {"name": "new", "url": "rtmp://127.0.0.1:1/app", "stream_key": "k", "match": "other/*"}
    check("NewDestination", new)
    assert (await running.request("POST", "/destinations", new)).status == 201
    assert (await running.request("POST", "/destinations", new)).status == 409
    assert (await running.request("POST", "/destinations", {"nmae": 1})).status == 400
    assert (await running.request("PATCH", "/destinations/new", {"enabled": False})).status == 200
    assert (await running.request("PATCH", "/destinations/new", {})).status == 400
    assert (await running.request("PATCH", "/destinations/new", {"linger": 3})).status == 200
    assert (await running.request("GET", "/destinations/new/settings")).json["linger"] == 3
    assert (await running.request("POST", "/destinations/new/check")).json["succeeded"] is False
    assert (await running.request("POST", "/check", {**new, "url": "rtmp://127.0.0.1:1/b"})).status == 200
    assert (await running.request("POST", "/check", {"url": "x"})).status == 400
    assert (await running.request("GET", "/players?stream=live/test")).json["total"] == 1
    for method, status in (("DELETE", 204), ("DELETE", 404), ("POST", 204)):
        assert (await running.request(method, "/streams/live/test/recording")).status == status
    for action, status in (("enable", 200), ("disable", 200), ("reconnect", 202)):
        assert (await running.request("POST", f"/destinations/new/{action}")).status == status
        assert (await running.request("POST", f"/destinations/gone/{action}")).status == 404
    assert (await running.request("DELETE", "/destinations/new?lasting=true")).status == 400
    assert (await running.request("DELETE", "/destinations/new")).status == 204
    assert (await running.request("DELETE", "/destinations/new")).status == 404
    pull = {"name": "elsewhere", "url": "rtmp://127.0.0.1:1/app/{name}?key=k", "match": "other/*"}
    check("NewPull", pull)
    assert (await running.request("POST", "/pulls", pull)).status == 201
    assert (await running.request("POST", "/pulls", pull)).status == 409
    assert (await running.request("POST", "/pulls", {**pull, "name": "a", "always": True})).status == 400
    assert (await running.request("GET", "/pulls")).json["pulls"]["elsewhere"]["status"] == "idle"
    assert (await running.request("GET", "/pulls/elsewhere")).status == 200
    assert (await running.request("DELETE", "/pulls/elsewhere")).status == 204
    assert (await running.request("DELETE", "/pulls/elsewhere")).status == 404
    assert (await running.request("DELETE", "/streams/live/test/publisher")).status == 204
    assert (await running.request("DELETE", "/streams/live/test/publisher")).status == 404
    assert (await running.request("POST", "/drain")).status == 202
    assert (await running.request("GET", "/health/ready")).status == 503


@real_reactor_test
async def test_messages_of_the_event_stream_are_as_documented(running: Running) -> None:
    connection = await connect(running.port)
    connection.send(b"GET /events HTTP/1.0\r\n\r\n")
    await running.request("POST", "/destinations/good/reconnect")
    await until(
        lambda: b"event: event" in connection.received and connection.received.count(b"event: status") > 1
    )
    assert connection.transport is not None
    connection.transport.loseConnection()
    text = (await connection.lost).partition(b"\r\n\r\n")[2].decode()
    kinds = set()
    for block in text.split("\n\n")[:-1]:
        lines = dict(line.split(": ", 1) for line in block.split("\n"))
        kinds.add(lines["event"])
        check(lines["event"].capitalize(), json.loads(lines["data"]))
    assert kinds == {"hello", "status", "event"}


def test_documented_paths_and_methods_are_those_of_the_server() -> None:
    web = Web(recordings=Path("recordings"))
    fixed = {"/" + "/".join(segments) for segments in web.http._routes._fixed}
    assert fixed == {path for path in DOCUMENT["paths"] if "{" not in path}
    for path, operations in DOCUMENT["paths"].items():
        answer = (HlsWeb() if path.startswith("/{app}/{name}/") else web).request(
            "OPTIONS", path.replace("{app}", "live").replace("{name}", "test").replace("{file}", "a.flv")
        )
        allowed = {method.lower() for method in answer.headers["allow"].split(", ")} - {"head", "options"}
        assert allowed == operations.keys() & {"get", "post", "put", "patch", "delete"}, path
    named = {path.replace("{app}/", "") for path in DOCUMENT["paths"] if "{name}" in path}
    assert named == {
        "/destinations/{name}",
        *(f"/destinations/{{name}}/{action}" for action in DESTINATION_ACTIONS),
        "/pulls/{name}",
        "/streams/{name}",
        "/destinations/{name}/settings",
        "/streams/{name}/publisher",
        "/streams/{name}/recording",
        *(f"/{{name}}.{kind}" for kind in (*MEDIA_KINDS, STILL)),
        "/{name}/",
        "/{name}/clip.mp4",
    }


@pytest.mark.parametrize("wrong", [{"api_version": 2}, {"more": 1}, {"uptime": -1}, {"last_updated": "now"}])
def test_check_refuses_what_the_document_does_not_allow(wrong: dict[str, object]) -> None:
    """A schema that allows everything would prove nothing."""
    good = {
        "api_version": 1,
        "status": "ok",
        "ready": True,
        "not_ready_because": None,
        "version": "1",
        "uptime": 1.0,
        "last_updated": "2026-01-01T12:00:00.000Z",
        "streams": 0,
        "players": 0,
        "total_destinations": 0,
        "connected_destinations": 0,
        "failed_destinations": 0,
        "refused_addresses": [],
        "warnings": [],
        "memory": {
            "budget": 1,
            "used": 0,
            "assembly": 0,
            "caches": 0,
            "queues": 0,
            "outputs": 0,
            "scarcity": "none",
        },
        "machine": {"cpu_percent": None, "cores": 2, "memory_bytes": 1, "memory_size": 2, "disks": []},
        "total_pulls": 0,
        "connected_pulls": 0,
        "failed_pulls": 0,
        "pulls": {},
        "total_messages_sent": 0,
        "total_messages_dropped": 0,
        "total_bytes_sent": 0,
        "destinations": {},
    }
    check("Health", good)
    with pytest.raises(ValidationError):
        check("Health", {**good, **wrong})
    with pytest.raises(ValidationError, match="required"):
        check("Health", {name: value for name, value in good.items() if name != "players"})
