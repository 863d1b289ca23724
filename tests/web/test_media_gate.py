"""Viewers over HTTP go through the same gate, and learn nothing before it has let them through."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from rtmprelay.access.gate import Gate
from rtmprelay.access.request import ALLOWED, Action, refused
from rtmprelay.events import PlayRefused, PlayStarted
from rtmprelay.web.http_service import HttpPart
from tests.access.helpers import Answering, Hesitating
from tests.web.helpers import STARTED_AT, parse_response
from tests.web.live_media import MediaWeb, Watcher

NO = refused("not you")


class GatedWeb(MediaWeb):
    """A relay in memory that asks before it shows its stream."""

    def __init__(self, *authorizers: Any) -> None:
        super().__init__()
        self.http = HttpPart(
            self.service.control,
            self.settings,
            self.clock,
            wall_clock=lambda: STARTED_AT + self.clock.seconds(),
            gate=Gate(authorizers, self.clock),
        )


class MediaGateTests(SynchronousTestCase):
    def test_authorizer_is_asked_with_the_stream_and_the_query(self) -> None:
        answering = Answering()
        web = GatedWeb(answering)
        watcher = web.watch("/live/test.flv?key=k+1&x=%20")
        assert watcher.response.status == 200
        assert watcher.flv
        (request,) = answering.asked
        assert (request.action, request.stream, request.protocol) == (Action.PLAY, "live/test", "http")
        assert (request.app, request.name, request.host) == ("live", "test", "192.0.2.9")
        found = {name: value.reveal() for name, value in request.credentials.parameters().items()}
        assert found == {"key": "k+1", "x": " "}
        # The log calls it the same, from the first question to the last byte.
        (started,) = web.told.of(PlayStarted)
        assert started.connection == request.connection == "h000001"

    def test_a_token_in_the_header(self) -> None:
        answering = Answering()
        web = GatedWeb(answering)
        client = Watcher(web)
        client.send(b"GET /live/test.flv HTTP/1.1\r\nHost: r\r\nAuthorization: Bearer a/b+c==\r\n\r\n")
        token = answering.asked[-1].credentials.parameter("token")
        assert token is not None
        assert token.reveal() == "a/b+c=="

    def test_refused_viewer_gets_403_without_the_key(self) -> None:
        web = GatedWeb(Answering(NO))
        response = web.watch("/live/test.flv?key=MARKED").response
        assert response.error == (403, "forbidden")
        assert response.json["error"]["message"] == "not you"
        assert b"MARKED" not in response.body
        (told,) = web.told.of(PlayRefused)
        assert (told.connection, told.stream, told.reason) == ("h000001", "live/test", "not you")
        assert "MARKED" not in repr(web.told.events)

    def test_refusal_without_credentials_is_401(self) -> None:
        response = GatedWeb(Answering(NO)).watch().response
        assert response.error == (401, "unauthorized")
        assert response.headers["www-authenticate"] == 'Bearer realm="rtmprelay"'

    def test_refused_viewer_does_not_learn_whether_the_stream_is_live(self) -> None:
        web = GatedWeb(Answering(NO))
        bodies = set()
        for path in ("/live/test.flv?key=x", "/live/nothing.flv?key=x", "/live/test.mp4?key=x"):
            bodies.add(web.watch(path).response.body)
        assert len(bodies) == 1

    def test_allowed_viewer_of_a_missing_stream_gets_404(self) -> None:
        assert GatedWeb(Answering()).watch("/live/nothing.flv?key=x").response.error == (404, "not_found")

    def test_head_request_is_authorized_too(self) -> None:
        for verdict, status in ((ALLOWED, 200), (NO, 403)):
            web = GatedWeb(Answering(verdict))
            client = Watcher(web)
            client.send(b"HEAD /live/test.flv?key=x HTTP/1.1\r\nHost: r\r\n\r\n")
            assert parse_response(client.received, head=True)[0].status == status

    def test_an_answer_that_comes_later(self) -> None:
        hesitating = Hesitating()
        web = GatedWeb(hesitating)
        watcher = web.watch()
        assert watcher.received == b""
        hesitating.say(ALLOWED)
        assert watcher.response.status == 200
        assert watcher.flv

    def test_question_is_cancelled_when_the_viewer_goes(self) -> None:
        hesitating = Hesitating()
        web = GatedWeb(hesitating)
        watcher = web.watch()
        watcher.lose()
        assert hesitating.cancelled == 1
        assert not web.told.of(PlayRefused) + web.told.of(PlayStarted)

    def test_an_authorizer_that_does_not_answer(self) -> None:
        web = GatedWeb(Hesitating())
        watcher = web.watch("/live/test.flv?key=x")
        web.clock.advance(9)
        assert watcher.response.error == (403, "forbidden")

    def test_media_is_open_without_authorizers(self) -> None:
        web = GatedWeb()
        assert web.watch().flv

    def test_everything_else_is_as_it_was(self) -> None:
        answering = Answering(NO)
        web = GatedWeb(answering)
        for path in ("/health", "/streams", "/metrics"):
            assert web.watch(path).response.status == 200
        assert answering.asked == []
