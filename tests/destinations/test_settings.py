"""The settings of a destination, and those that `--relay-to URL` makes."""

from __future__ import annotations

import pytest

from rtmprelay.destinations.settings import DestinationSettings, destination_from_url
from rtmprelay.errors import ConfigError
from rtmprelay.wire.url import RtmpUrl

URL = "rtmp://host/app"


def test_url_alone_makes_a_destination_named_after_its_address() -> None:
    one = destination_from_url("rtmp://host/app/key", set())
    assert one == DestinationSettings(name="host:1935/app", url=RtmpUrl.parse("rtmp://host/app/key"))


def test_taken_name_gets_a_number() -> None:
    taken: set[str] = set()
    for expected in ("host:1935/app", "host:1935/app-2", "host:1935/app-3"):
        name = destination_from_url("rtmp://host/app/key", taken).name
        assert name == expected
        taken.add(name)


def test_wrong_url_alone_is_refused() -> None:
    with pytest.raises(ConfigError, match="scheme"):
        destination_from_url("ftp://host/app", set())


@pytest.mark.parametrize(
    ("match", "wanted", "unwanted"),
    [
        ("*", ["live/cam", "cam", "a/b/c"], []),
        ("live/*", ["live/cam", "live/a/b"], ["alive/cam", "Live/cam"]),
        ("live/cam?", ["live/cam1"], ["live/cam", "live/cam12"]),
        ("*/[ab]", ["live/a", "x/b"], ["live/c"]),
        ("live/cam", ["live/cam"], ["live/camera"]),
        ("", [], ["live/cam"]),
    ],
)
def test_match_is_a_glob_on_app_and_name(match: str, wanted: list[str], unwanted: list[str]) -> None:
    settings = DestinationSettings(name="one", url=RtmpUrl.parse(URL), match=match)
    assert all(settings.wants(key) for key in wanted)
    assert not any(settings.wants(key) for key in unwanted)
