"""Fixtures for tests with real sockets, the real ffmpeg and a real browser."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import imageio_ffmpeg
import pytest

from tests.helpers import real_reactor_fixture
from tests.service.browser import Browser
from tests.service.command import Server
from tests.service.fake_relay_http import FakeRelay
from tests.service.harness import Harness, Relay
from tests.service.interop import FFmpeg


@pytest.fixture(scope="session")
def ffmpeg(tmp_path_factory: pytest.TempPathFactory) -> FFmpeg:
    """The real ffmpeg, with a folder for the media that it makes."""
    folder: Path = tmp_path_factory.mktemp("media")
    return FFmpeg(imageio_ffmpeg.get_ffmpeg_exe(), folder)


@real_reactor_fixture
async def harness() -> AsyncIterator[Harness]:
    """Starts relays, clients and other servers in this process, and stops them after the test."""
    harness = Harness()
    yield harness
    await harness.stop()


@pytest.fixture
def relay(harness: Harness) -> Relay:
    """A relay without any options."""
    return harness.start_relay()


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Starts `twistd rtmprelay` in processes of their own, and stops them after the test."""
    started: list[Server] = []

    def start(*options: str, **more: Any) -> Server:
        started.append(Server(tmp_path, *options, log=f"out{len(started) or ''}.log", **more))
        return started[-1]

    yield start
    for server in started:
        server.close()


@pytest.fixture
def fake_relay() -> Iterator[FakeRelay]:
    """A server that answers the dashboard with what the test says."""
    relay = FakeRelay()
    yield relay
    relay.stop()


@pytest.fixture(scope="package")
def open_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all tests of pages: it takes seconds to start."""
    browser = Browser(tmp_path_factory.mktemp("browser"))
    # Without animations, so that a click hits its target.
    browser.emulate_media({"prefers-reduced-motion": "reduce"})
    yield browser
    browser.quit()


@pytest.fixture
def browser(open_browser: Browser) -> Iterator[Browser]:
    """The browser. Its console must be empty at the end of the test."""
    open_browser.resize(1280, 900)
    yield open_browser
    assert open_browser.complaints() == []
    open_browser.open("about:blank")
