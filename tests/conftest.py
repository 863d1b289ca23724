"""Settings for all tests."""

from __future__ import annotations

from hypothesis import settings

# How long an example takes depends on what else the machine does; that is no failure.
settings.register_profile("rtmprelay", deadline=None)
settings.load_profile("rtmprelay")
