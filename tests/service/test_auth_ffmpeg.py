"""The real ffmpeg publishes and plays with the right key or password, and gives up with a wrong one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rtmprelay.access.authorizers.keys_file import make_keys_file
from rtmprelay.client import publish
from rtmprelay.events import ConnectionClosed, ConnectRefused, PlayRefused, PublishRefused, PublishStarted
from rtmprelay.session.adobe import AuthenticationRefusedError
from rtmprelay.web.settings import HttpSettings
from tests.helpers import LOOPBACK, real_reactor_test, the_reactor, until
from tests.service.auth_helpers import (
    HASHED,
    MARK,
    PASSWORD,
    PLAIN,
    WATCH,
    film,
    try_to_play,
    try_to_publish,
    write_keys,
)
from tests.service.harness import Harness, Relay
from tests.service.http_client import fetch
from tests.service.interop import FFmpeg, in_background


@pytest.fixture
def guarded(harness: Harness, tmp_path: Path) -> Iterator[Relay]:
    """A relay with a keys file. None of its events may contain a secret."""
    authorizer = make_keys_file(str(write_keys(tmp_path)), the_reactor())
    relay = harness.start_relay(http=HttpSettings(listen=LOOPBACK), authorizers=(authorizer,))
    yield relay
    assert MARK not in repr(relay.events)


def user_url(relay: Relay, key: str, password: str = PASSWORD) -> str:
    return relay.url(key).replace("rtmp://", f"rtmp://anna:{password}@")


@pytest.mark.parametrize("key", [PLAIN, HASHED])
@real_reactor_test
async def test_ffmpeg_publishes_with_a_key(guarded: Relay, ffmpeg: FFmpeg, key: str) -> None:
    ended = await try_to_publish(ffmpeg, guarded.url(f"live/film?key={key}"))
    assert ended.code == 0, ended.errors
    assert len(guarded.of(PublishStarted)) == 1


@real_reactor_test
async def test_key_after_the_application_allows_publishing(guarded: Relay, harness: Harness) -> None:
    """OBS sends it there when it is written in the server's address."""
    client = await harness.connect(guarded, f"live?key={PLAIN}")
    await client.publish("film")
    assert len(guarded.of(PublishStarted)) == 1


@pytest.mark.parametrize(
    ("query", "reason"),
    [("", "a key is needed"), ("?key=wrong", "the key is wrong"), (f"?key={WATCH}", "the key is wrong")],
)
@real_reactor_test
async def test_ffmpeg_shows_why_its_key_is_refused(
    guarded: Relay, ffmpeg: FFmpeg, query: str, reason: str
) -> None:
    ended = await try_to_publish(ffmpeg, guarded.url(f"live/film{query}"))
    assert ended.code != 0
    assert f"Server error: {reason}" in ended.errors
    assert not guarded.of(PublishStarted)
    assert len(guarded.of(PublishRefused)) == 1
    await until(lambda: guarded.of(ConnectionClosed), "the end of the connection")


@real_reactor_test
async def test_ffmpeg_plays_over_rtmp_and_http_with_the_right_key_only(
    guarded: Relay, ffmpeg: FFmpeg
) -> None:
    film(ffmpeg, 20)
    publishing = in_background(try_to_publish(ffmpeg, guarded.url(f"live/film?key={PLAIN}"), 20))
    await guarded.until_live("live/film")
    for query, reason in (("", "a key is needed"), (f"?key={PLAIN}", "the key is wrong")):
        ended = await try_to_play(ffmpeg, guarded.url(f"live/film{query}"))
        assert ended.code != 0
        assert f"Server error: {reason}" in ended.errors
    assert len(guarded.of(PlayRefused)) == 2
    ended = await try_to_play(ffmpeg, guarded.url(f"live/film?key={WATCH}"))
    assert ended.code == 0, ended.errors
    http = f"http://127.0.0.1:{guarded.http_port}/live/film.flv"
    for query, code in ((f"?key={WATCH}", 0), ("?key=wrong", 1), ("", 1)):
        ended = await try_to_play(ffmpeg, f"{http}{query}")
        assert bool(ended.code) == bool(code), ended.errors
    response = await fetch(guarded.http_port, "GET", f"/live/film.flv?key={MARK}")
    assert response.status == 403
    assert MARK.encode() not in response.body
    publishing.cancel()
    publishing.addErrback(lambda _: None)


@pytest.mark.parametrize("query", ["", "?x=1"])
@real_reactor_test
async def test_ffmpeg_publishes_with_user_and_password(guarded: Relay, ffmpeg: FFmpeg, query: str) -> None:
    ended = await try_to_publish(ffmpeg, user_url(guarded, f"studio/film{query}"))
    assert ended.code == 0, ended.errors
    assert len(guarded.of(PublishStarted)) == 1


@real_reactor_test
async def test_ffmpeg_plays_with_user_and_password(guarded: Relay, ffmpeg: FFmpeg) -> None:
    film(ffmpeg, 20)
    publishing = in_background(try_to_publish(ffmpeg, user_url(guarded, "studio/film"), 20))
    await guarded.until_live("studio/film")
    ended = await try_to_play(ffmpeg, user_url(guarded, "studio/film"))
    assert ended.code == 0, ended.errors
    publishing.cancel()
    publishing.addErrback(lambda _: None)


@real_reactor_test
async def test_ffmpeg_reports_a_wrong_password(guarded: Relay, ffmpeg: FFmpeg) -> None:
    ended = await try_to_publish(ffmpeg, user_url(guarded, "studio/film", f"{MARK}-wrong"))
    assert ended.code != 0
    assert "Incorrect username/password" in ended.errors
    assert len(guarded.of(ConnectRefused)) == 1
    assert not guarded.of(PublishStarted)


@real_reactor_test
async def test_ffmpeg_reports_that_it_needs_a_user(guarded: Relay, ffmpeg: FFmpeg) -> None:
    ended = await try_to_publish(ffmpeg, guarded.url("studio/film"))
    assert ended.code != 0
    assert "No credentials set" in ended.errors


@real_reactor_test
async def test_rtmprelay_client_logs_in_with_the_right_password_only(guarded: Relay) -> None:
    publisher = await publish(the_reactor(), user_url(guarded, "studio/film"))
    assert len(guarded.of(PublishStarted)) == 1
    publisher.end()
    with pytest.raises(AuthenticationRefusedError):
        await publish(the_reactor(), user_url(guarded, "studio/other", "wrong"))
