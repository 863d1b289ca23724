"""Two roles: a token for reading the status, and one for changes, which reads too. Media asks the authorizers instead."""

from __future__ import annotations

import base64

import pytest

from rtmprelay.events import ControlApplied, ControlRefused
from rtmprelay.secret import Secret
from rtmprelay.web.settings import HttpSettings
from tests.helpers import EventList
from tests.web.helpers import TOKEN, Client, Web

READ_TOKEN = "a-token-for-readers"
PAGES = (
    "/",
    "/health",
    "/streams",
    "/destinations",
    "/recordings",
    "/metrics",
    "/control",
    "/assets/dashboard.js",
)


def web_with_roles() -> Web:
    return Web(HttpSettings(read_token=Secret(READ_TOKEN)))


def basic(password: str) -> str:
    return "Basic " + base64.b64encode(f"anybody:{password}".encode()).decode()


@pytest.mark.parametrize("path", PAGES)
def test_status_needs_a_token_of_either_role(path: str) -> None:
    web = web_with_roles()
    refused = web.get(path)
    assert refused.status == 401
    assert "Basic" in str(refused.headers)
    for token in (READ_TOKEN, TOKEN):
        assert web.get(path, Authorization=f"Bearer {token}").status == 200
        assert web.get(path, Authorization=basic(token)).status == 200
    for wrong in (f"Bearer {READ_TOKEN}x", basic("wrong"), "Basic ???", "Digest x", basic("")):
        assert web.get(path, Authorization=wrong).status == 401


def test_token_for_reading_changes_nothing() -> None:
    web = web_with_roles()
    assert web.change("DELETE", "/destinations/x", token=READ_TOKEN).status == 401
    assert web.change("DELETE", "/destinations/x").status == 404
    assert web.request("DELETE", "/destinations/x", headers={"Authorization": basic(TOKEN)}).status == 401


def test_media_asks_no_token_of_operators() -> None:
    web = web_with_roles()
    web.publish("live/test")
    assert web.request("HEAD", "/live/test.flv").status == 200


def test_without_a_token_for_reading_everybody_reads() -> None:
    assert Web().get("/health").status == 200


def test_tokens_can_be_changed_while_the_server_runs() -> None:
    web = web_with_roles()
    web.http.access.set_tokens(Secret("another-token-for-all"), None)
    assert web.get("/health").status == 200
    assert web.change("DELETE", "/destinations/x").status == 401
    assert web.change("DELETE", "/destinations/x", token="another-token-for-all").status == 404


def test_wrong_token_for_reading_is_a_refusal() -> None:
    web = web_with_roles()
    told = EventList()
    web.service.events.add_sink(told)
    web.get("/health", Authorization="Bearer wrong-wrong-wrong")
    assert len(told.of(ControlRefused)) == 1


def test_operator_ends_a_viewer_over_http_by_its_connection() -> None:
    web = Web()
    web.service.control.player_enders.append(web.http.media.end)
    told = EventList()
    web.service.events.add_sink(told)
    web.publish("live/test")
    viewer = Client(web)
    viewer.send(b"GET /live/test.flv HTTP/1.1\r\nHost: relay\r\n\r\n")
    (watching,) = web.http.media.viewers
    assert web.request("DELETE", f"/players/{watching.connection_id}").status == 401
    assert web.change("DELETE", "/players/h999999").status == 404
    assert web.change("DELETE", f"/players/{watching.connection_id}").status == 204
    assert web.http.media.viewers == ()
    (applied,) = told.of(ControlApplied)
    assert (applied.action, applied.target) == ("player sent away", watching.connection_id)
