"""Which events a hook is told of."""

from __future__ import annotations

import pytest

from rtmprelay.errors import ConfigError
from rtmprelay.hooks.event_choice import chosen_events, event_names


def test_all_of_them() -> None:
    assert chosen_events([]) == set(event_names())
    assert {"publish_started", "server_stopped", "connect_refused"} <= chosen_events([])


def test_some_of_them() -> None:
    assert chosen_events(["publish_*"]) == {"publish_started", "publish_refused", "publish_stopped"}
    assert chosen_events(["play_started", "server_*"]) >= {"play_started", "server_started"}


def test_none_of_them() -> None:
    with pytest.raises(
        ConfigError, match=r"there is no event 'publish_begun': .*publish_started.* are known"
    ):
        chosen_events(["play_*", "publish_begun"])
