"""The page to watch: where it is, and what it may load. `tests/service/test_watch_page_browser.py` plays with it."""

from __future__ import annotations

import re

import pytest

from rtmprelay.outputs.hls.settings import HlsSettings
from tests.web.helpers import Web
from tests.web.hls import HlsWeb


@pytest.mark.parametrize("on_media_port", [True, False])
@pytest.mark.parametrize("path", ["/live/film/", "/live/film/?token=x", "/live/a/b/", "/film/"])
def test_page_is_there_before_the_stream_is(path: str, on_media_port: bool) -> None:
    web = HlsWeb(on_media_port=on_media_port)
    response = web.get(path)
    assert response.status == 200
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    policy = response.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    up = "../" * (path.partition("?")[0].count("/") - 1)
    links = re.findall(r'(?:href|src)="((?:\.\./)*)assets/([^"]+)"', response.body.decode())
    assert {way for way, _ in links} == {up}
    for _, name in links:
        assert web.get(f"/assets/{name}").status == 200


def test_everything_that_the_page_imports_is_on_the_media_port() -> None:
    web = HlsWeb(on_media_port=True)
    seen: set[str] = set()
    waiting = ["watch.js"]
    while waiting:
        name = waiting.pop()
        seen.add(name)
        response = web.get(f"/assets/{name}")
        assert response.status == 200
        waiting += [
            one for one in re.findall(r'from "\./([^"]+)"', response.body.decode()) if one not in seen
        ]
    assert len(seen) > 5


@pytest.mark.parametrize("name", ["dashboard.js", "index.html", "watch.html", "nothing.js"])
def test_dashboard_is_not_on_the_media_port(name: str) -> None:
    assert HlsWeb(on_media_port=True).get(f"/assets/{name}").status == 404


@pytest.mark.parametrize("path", ["/health/", "/metrics/", "/recordings/", "/streams/", "/assets/"])
def test_paths_of_the_api_with_a_slash_are_no_page(path: str) -> None:
    assert HlsWeb().get(path).status == 404


@pytest.mark.parametrize("path", ["//", "/live//", "/live/film//", "/live//film/"])
def test_no_page_without_a_name(path: str) -> None:
    assert HlsWeb().get(path).status == 404


def test_no_page_for_streams_that_are_not_sent_as_hls() -> None:
    web = HlsWeb(HlsSettings(match=("live/*",)))
    assert web.get("/live/film/").status == 200
    assert web.get("/secret/film/").status == 404
    assert Web().get("/live/film/").status == 404


def test_page_is_not_sent_again_while_it_is_the_same() -> None:
    web = HlsWeb()
    tag = web.get("/live/film/").headers["etag"]
    assert web.get("/live/film/", If_None_Match=tag).status == 304
    assert web.get("/live/a/b/", If_None_Match=tag).status == 200
