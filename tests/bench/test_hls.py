"""The measurement of HLS viewers: what they ask for next, what is told, and one short run."""

from __future__ import annotations

import pytest

from rtmprelay.bench.hls import (
    CachedFigures,
    HlsFigures,
    _next_part,
    measure_cached,
    measure_hls,
    varnish_is_there,
)

HEAD = "#EXTM3U\n#EXT-X-MEDIA-SEQUENCE:7\n"
PART = '#EXT-X-PART:DURATION=0.333,URI="p-{}.m4s"\n'
SEGMENT = "#EXTINF:2.000,\ns-7.m4s\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (HEAD + PART + PART, (7, 2)),
        (HEAD + PART + PART + SEGMENT, (8, 0)),
        (HEAD + PART + SEGMENT + PART, (8, 1)),
        (HEAD + "#EXT-X-SKIP:SKIPPED-SEGMENTS=5\n" + SEGMENT + PART + PART, (13, 2)),
    ],
)
def test_viewer_asks_for_the_part_after_the_last_one(text: str, expected: tuple[int, int]) -> None:
    assert _next_part(text) == expected


def test_figures_are_printed_per_second() -> None:
    figures = HlsFigures(100, 10.0, 0.083, 6330, 2.56, 0, [10.0] * 99 + [50.0], [340.0] * 100)
    text = "\n".join(figures.lines())
    assert "633 requests a second, 0.256 Gbit/s, 8.3% of a core, 0 requests failed" in text
    assert "median 10.0 ms, p99 50.0 ms" in text


@pytest.mark.full
def test_viewers_get_every_part_while_it_is_new() -> None:
    figures = measure_hls(viewers=3, seconds=3.0, part="333ms")
    assert figures.failed == 0
    # A playlist and a part, three times a second for each viewer.
    assert figures.requests > 3 * 3 * 3
    assert len(figures.newest_ms) > 3 * 3 * 2
    compared, same = figures.joined
    assert compared == same > 0


def test_requests_that_a_cache_lets_through_are_told_for_each_address() -> None:
    (line,) = CachedFigures(200, 10_000, 50, 52, 0).lines()
    assert "10000 requests for 50 addresses, 52 reached the relay: 1.04 for each" in line


@pytest.mark.full
@pytest.mark.skipif(not varnish_is_there(), reason="there is no varnishd: apt-get install varnish")
def test_cache_lets_few_requests_through() -> None:
    figures = measure_cached(viewers=20, seconds=3.0)
    assert figures.failed == 0
    assert figures.asked > 10 * figures.distinct
    # Playlists without a number are asked for anew each second.
    assert figures.reached <= 1.2 * figures.distinct
