"""The real ffmpeg, and relays that record."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from rtmprelay.config.relay import RelayConfig
from rtmprelay.recording.settings import RecordingSettings
from rtmprelay.service import RelayService
from tests.helpers import real_reactor_fixture
from tests.service.conftest import ffmpeg
from tests.service.interop import Relay

__all__ = ["ffmpeg"]

StartRelay = Callable[..., Relay]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where recordings go."""
    return tmp_path / "recordings"


@real_reactor_fixture
async def recording_relay(folder: Path) -> AsyncIterator[StartRelay]:
    """Start relays that record everything; they are stopped behind the test."""
    started: list[RelayService] = []

    def start(**settings: Any) -> Relay:
        recording = RecordingSettings(**{"record_all": True, "folder": folder, **settings})
        service = RelayService(RelayConfig(listen=("tcp:0:interface=127.0.0.1",), recording=recording))
        started.append(service)
        relay = Relay(service)
        service.startService()
        return relay

    yield start
    for service in started:
        await service.stopService()
