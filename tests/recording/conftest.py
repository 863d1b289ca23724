"""The real ffmpeg, and relays that record."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from rtmprelay.recording.settings import RecordingSettings
from tests.helpers import real_reactor_fixture
from tests.service.conftest import ffmpeg
from tests.service.harness import Harness, Relay

__all__ = ["ffmpeg"]

StartRelay = Callable[..., Relay]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where recordings go."""
    return tmp_path / "recordings"


@real_reactor_fixture
async def recording_relay(folder: Path) -> AsyncIterator[StartRelay]:
    """Starts relays that record everything."""
    harness = Harness()

    def start(**settings: Any) -> Relay:
        return harness.start_relay(
            recording=RecordingSettings(**{"record_all": True, "folder": folder, **settings})
        )

    yield start
    await harness.stop()
