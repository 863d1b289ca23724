"""Patterns of streams that are variants of one presentation."""

from __future__ import annotations

import pytest

from rtmprelay.errors import ConfigError
from rtmprelay.hls.variant_groups import VariantGroup, relative_path


@pytest.mark.parametrize(
    ("pattern", "key", "group"),
    [
        ("live/*_{low,mid,high}", "live/film_low", "live/film"),
        ("live/*_{low,mid,high}", "live/a_b_high", "live/a_b"),
        ("live/*_{low,mid,high}", "live/film", None),
        ("live/*_{low,mid,high}", "live/a/film_low", None),
        ("live/*_{low,mid,high}", "other/film_low", None),
        ("live/*/{1080p,720p}", "live/film/720p", "live/film"),
        ("live/film-{a,b}", "live/film-b", "live/film"),
        ("live/f+*.{a,b}", "live/f+x.a", "live/f+x"),
    ],
)
def test_stream_belongs_to_a_group(pattern: str, key: str, group: str | None) -> None:
    made = VariantGroup.read(pattern)
    assert made.name_of(key) == group
    if group is not None:
        assert key in made.members_of(group)
        assert len(made.members_of(group)) == len(made.names)


@pytest.mark.parametrize(
    "pattern", ["live/*", "live/*_{low}", "live/*_{a,a}", "live/*_{a,}", "*/*_{a,b}", "{a,b}", "x{a,b}{c,d}"]
)
def test_other_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(ConfigError, match="is not a group of variants"):
        VariantGroup.read(pattern)


def test_variants_are_named_relative_to_their_group() -> None:
    assert relative_path("live/film_low", "live/film") == "../film_low"
    assert relative_path("live/film/a b", "live/film") == "a%20b"
