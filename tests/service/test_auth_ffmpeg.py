"""The real ffmpeg is let in with the right key or password, and gives up soon with a wrong one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rtmprelay.access.authorizers.keys_file import make_keys_file
from rtmprelay.client import publish
from rtmprelay.config.relay import RelayConfig
from rtmprelay.events import ConnectionClosed, ConnectRefused, PlayRefused, PublishRefused, PublishStarted
from rtmprelay.service import RelayService
from rtmprelay.session.adobe import AuthenticationRefusedError
from rtmprelay.web.settings import HttpSettings
from tests.helpers import connect_client, real_reactor_fixture, real_reactor_test, the_reactor, until
from tests.service.auth_world import (
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
from tests.service.http_client import fetch
from tests.service.interop import FFmpeg, Relay, in_background

LOOPBACK = "tcp:0:interface=127.0.0.1"


@real_reactor_fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Relay]:
    """A relay with a keys file."""
    authorizer = make_keys_file(str(write_keys(tmp_path)), the_reactor())
    config = RelayConfig(listen=(LOOPBACK,), http=HttpSettings(listen=LOOPBACK), authorizers=(authorizer,))
    service = RelayService(config)
    relay = Relay(service)
    service.startService()
    yield relay
    assert MARK not in repr(relay.events)
    await service.stopService()


def of(relay: Relay, kind: type[object]) -> list[object]:
    return [event for event in relay.events if isinstance(event, kind)]


def user_url(relay: Relay, key: str, password: str = PASSWORD) -> str:
    return relay.url(key).replace("rtmp://", f"rtmp://anna:{password}@")


@pytest.mark.parametrize("key", [PLAIN, HASHED])
@real_reactor_test
async def test_publishing_with_a_key(guarded: Relay, ffmpeg: FFmpeg, key: str) -> None:
    ended = await try_to_publish(ffmpeg, guarded.url(f"live/film?key={key}"))
    assert ended.code == 0, ended.said
    assert len(of(guarded, PublishStarted)) == 1


@real_reactor_test
async def test_the_key_may_stand_behind_the_application(guarded: Relay, ffmpeg: FFmpeg) -> None:
    """As OBS sends it when it is written in the server's address."""
    client = await connect_client(
        f"tcp:127.0.0.1:{getattr(guarded.service.addresses[0], 'port', 0)}", f"live?key={PLAIN}"
    )
    await client.publish("film")
    await client.close()


@pytest.mark.parametrize(
    ("query", "reason"),
    [("", "a key is needed"), ("?key=wrong", "the key is wrong"), (f"?key={WATCH}", "the key is wrong")],
)
@real_reactor_test
async def test_publishing_with_a_wrong_key(guarded: Relay, ffmpeg: FFmpeg, query: str, reason: str) -> None:
    film(ffmpeg)
    began = the_reactor().seconds()
    ended = await try_to_publish(ffmpeg, guarded.url(f"live/film{query}"))
    assert ended.code != 0
    assert f"Server error: {reason}" in ended.said
    assert the_reactor().seconds() - began < 5
    assert not of(guarded, PublishStarted)
    assert len(of(guarded, PublishRefused)) == 1
    await until(lambda: of(guarded, ConnectionClosed), "the end of the connection")


@real_reactor_test
async def test_playing(guarded: Relay, ffmpeg: FFmpeg) -> None:
    film(ffmpeg, 20)
    publishing = in_background(try_to_publish(ffmpeg, guarded.url(f"live/film?key={PLAIN}"), 20))
    await guarded.until_live("live/film")
    for query, reason in (("", "a key is needed"), (f"?key={PLAIN}", "the key is wrong")):
        began = the_reactor().seconds()
        ended = await try_to_play(ffmpeg, guarded.url(f"live/film{query}"))
        assert ended.code != 0
        assert f"Server error: {reason}" in ended.said
        assert the_reactor().seconds() - began < 5
    assert len(of(guarded, PlayRefused)) == 2
    ended = await try_to_play(ffmpeg, guarded.url(f"live/film?key={WATCH}"))
    assert ended.code == 0, ended.said
    address = guarded.service.http_address
    http = f"http://127.0.0.1:{getattr(address, 'port', 0)}/live/film.flv"
    for query, code in ((f"?key={WATCH}", 0), ("?key=wrong", 1), ("", 1)):
        ended = await try_to_play(ffmpeg, f"{http}{query}")
        assert bool(ended.code) == bool(code), ended.said
    response = await fetch(getattr(address, "port", 0), "GET", f"/live/film.flv?key={MARK}")
    assert response.status == 403
    assert MARK.encode() not in response.body
    publishing.cancel()
    publishing.addErrback(lambda _: None)


@real_reactor_test
async def test_a_user_with_the_right_password(guarded: Relay, ffmpeg: FFmpeg) -> None:
    ended = await try_to_publish(ffmpeg, user_url(guarded, "studio/film"))
    assert ended.code == 0, ended.said
    assert len(of(guarded, PublishStarted)) == 1


@real_reactor_test
async def test_a_user_may_have_a_query_too(guarded: Relay, ffmpeg: FFmpeg) -> None:
    ended = await try_to_publish(ffmpeg, user_url(guarded, "studio/film?x=1"))
    assert ended.code == 0, ended.said


@real_reactor_test
async def test_a_user_that_plays(guarded: Relay, ffmpeg: FFmpeg) -> None:
    film(ffmpeg, 20)
    publishing = in_background(try_to_publish(ffmpeg, user_url(guarded, "studio/film"), 20))
    await guarded.until_live("studio/film")
    ended = await try_to_play(ffmpeg, user_url(guarded, "studio/film"))
    assert ended.code == 0, ended.said
    publishing.cancel()
    publishing.addErrback(lambda _: None)


@real_reactor_test
async def test_a_wrong_password(guarded: Relay, ffmpeg: FFmpeg) -> None:
    film(ffmpeg)
    began = the_reactor().seconds()
    ended = await try_to_publish(ffmpeg, user_url(guarded, "studio/film", f"{MARK}-wrong"))
    assert ended.code != 0
    assert "Incorrect username/password" in ended.said
    assert the_reactor().seconds() - began < 5
    assert len(of(guarded, ConnectRefused)) == 1
    assert not of(guarded, PublishStarted)


@real_reactor_test
async def test_no_user_where_one_is_wanted(guarded: Relay, ffmpeg: FFmpeg) -> None:
    ended = await try_to_publish(ffmpeg, guarded.url("studio/film"))
    assert ended.code != 0
    assert "No credentials set" in ended.said


@real_reactor_test
async def test_our_own_client(guarded: Relay) -> None:
    publisher = await publish(the_reactor(), user_url(guarded, "studio/film"))
    assert len(of(guarded, PublishStarted)) == 1
    publisher.end()
    with pytest.raises(AuthenticationRefusedError):
        await publish(the_reactor(), user_url(guarded, "studio/other", "wrong"))
