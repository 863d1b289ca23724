"""Fixtures for tests with real sockets, the real ffmpeg and a real browser."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import imageio_ffmpeg
import pytest

from rtmprelay.config.relay import RelayConfig
from rtmprelay.service import RelayService
from tests.helpers import real_reactor_fixture
from tests.service.browser import Browser
from tests.service.interop import FFmpeg, Relay
from tests.service.relay_world import World


@pytest.fixture(scope="session")
def ffmpeg(tmp_path_factory: pytest.TempPathFactory) -> FFmpeg:
    """The real ffmpeg, and the media that it has made so far."""
    folder: Path = tmp_path_factory.mktemp("media")
    return FFmpeg(imageio_ffmpeg.get_ffmpeg_exe(), folder)


@real_reactor_fixture
async def relay() -> AsyncIterator[Relay]:
    """A relay on a port of its own."""
    service = RelayService(RelayConfig(listen=("tcp:0:interface=127.0.0.1",)))
    relay = Relay(service)
    service.startService()
    yield relay
    await service.stopService()


@real_reactor_fixture
async def world() -> AsyncIterator[World]:
    """Things to start; stopped afterwards."""
    world = World()
    yield world
    await world.stop()


@pytest.fixture(scope="module")
def open_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all tests: to start it takes seconds."""
    browser = Browser(tmp_path_factory.mktemp("browser"))
    # Nothing moves by itself: a click must find what it aims at.
    browser.emulate_media({"prefers-reduced-motion": "reduce"})
    yield browser
    browser.quit()


@pytest.fixture
def browser(open_browser: Browser) -> Iterator[Browser]:
    """The browser; afterwards its console must be empty."""
    open_browser.resize(1280, 900)
    yield open_browser
    assert open_browser.complaints() == []
    open_browser.open("about:blank")
