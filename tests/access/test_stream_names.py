"""An authorizer sees one app and one name for a stream, whatever the client speaks and wherever it puts the slash."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

import pytest
from twisted.trial.unittest import SynchronousTestCase

from rtmprelay.access.request import AccessRequest
from rtmprelay.testing import MemoryServer
from tests.access.helpers import Answering, access_request
from tests.web.test_media_gate import GatedWeb


@pytest.mark.parametrize(
    ("stream", "app", "name"),
    [
        ("live/film", "live", "film"),
        ("live/a/b", "live", "a/b"),
        ("live/a/b/c", "live", "a/b/c"),
        ("film", "", "film"),
    ],
)
def test_first_slash_of_the_stream_key_ends_the_app(stream: str, app: str, name: str) -> None:
    request = access_request(stream=stream)
    assert (request.stream, request.app, request.name) == (stream, app, name)


class OneNameForOneStreamTests(SynchronousTestCase):
    def requested_over_rtmp(self, app: str, name: str) -> AccessRequest:
        authorizer = Answering()
        MemoryServer(authorizers=[authorizer]).connect(app).play(name)
        (request,) = authorizer.asked
        return request

    def requested_over_http(self, path: str) -> AccessRequest:
        authorizer = Answering()
        GatedWeb(authorizer).watch(path)
        (request,) = authorizer.asked
        return request

    def test_slash_in_an_rtmp_name_belongs_to_the_name(self) -> None:
        request = self.requested_over_rtmp("live", "a/b")
        assert (request.stream, request.app, request.name) == ("live/a/b", "live", "a/b")

    def test_slash_in_an_rtmp_app_begins_the_name(self) -> None:
        request = self.requested_over_rtmp("live/a", "b")
        assert (request.stream, request.app, request.name) == ("live/a/b", "live", "a/b")

    def test_http_viewer_is_authorized_under_the_same_names(self) -> None:
        request = self.requested_over_http("/live/a/b.flv")
        assert (request.stream, request.app, request.name) == ("live/a/b", "live", "a/b")
