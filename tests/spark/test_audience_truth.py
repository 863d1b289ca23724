"""How many watch, minute by minute, against a model that looks at every single second."""

from __future__ import annotations

import random
from collections import Counter
from datetime import timedelta

import pytest

from tests.spark.event_archive import ENGINES, Archive, Make, archives
from tests.spark.event_world import FakeServer, moment

Minute = tuple[int, float, int, int]


def truth(plays: list[tuple[int, int]]) -> dict[int, Minute]:
    """Peak, seconds watched, joins and leaves of each minute, from plays in whole seconds."""
    watching = Counter(second for came, went in plays for second in range(came, went))
    joins = Counter(came // 60 for came, _ in plays)
    leaves = Counter(went // 60 for _, went in plays)
    minutes = {second // 60 for second in watching} | set(joins) | set(leaves)
    return {
        minute: (
            max(watching[second] for second in range(60 * minute, 60 * minute + 60)),
            float(sum(watching[second] for second in range(60 * minute, 60 * minute + 60))),
            joins[minute],
            leaves[minute],
        )
        for minute in minutes
    }


def archive_of(archive: Archive, plays: list[tuple[int, int]]) -> Archive:
    server = FakeServer()
    server.start()
    happens = [(came, 1, f"c{number}") for number, (came, _) in enumerate(plays)]
    happens += [(went, 0, f"c{number}") for number, (_, went) in enumerate(plays)]
    # Whoever leaves at a moment leaves before the others join; a play of no length joins first.
    order = {f"c{number}": went == came for number, (came, went) in enumerate(plays)}
    for at, joins, name in sorted(happens, key=lambda one: (one[0], one[1] ^ order[one[2]], one[2])):
        server.at(at)
        (server.join if joins else server.leave)(name)
    server.at(max(went for _, went in plays) + 90).stop()
    server.write(archive.logs)
    archive.index(moment(100_000))
    return archive


def audience_of(archive: Archive) -> dict[int, Minute]:
    rows = archive.rows("audience", "minute", "peak", "watch_seconds", "joins", "leaves")
    return {
        (row["minute"] - moment(0)) // timedelta(minutes=1): (
            row["peak"],
            row["watch_seconds"],
            row["joins"],
            row["leaves"],
        )
        for row in rows
    }


@pytest.fixture(scope="module", params=ENGINES)
def make(request: pytest.FixtureRequest) -> Make:
    return archives(request)


def test_play_that_ends_on_the_minute_does_not_hide_the_next_viewer(make: Make) -> None:
    plays = [(30, 60), (75, 105)]
    found = audience_of(archive_of(make(), plays))
    assert found == {0: (1, 30.0, 1, 0), 1: (1, 30.0, 1, 2)}


@pytest.mark.parametrize("seed", [1, 2])
def test_audience_is_exact_to_the_viewer_and_second(make: Make, seed: int) -> None:
    rng = random.Random(seed)
    plays = []
    for _ in range(300):
        came = rng.choice((60 * rng.randrange(40), rng.randrange(2400)))
        went = came + rng.choice((0, 1, 30, 60, 120, rng.randrange(900)))
        plays.append((came, went - went % 60 if rng.random() < 0.4 and went - went % 60 >= came else went))
    assert audience_of(archive_of(make(), plays)) == truth(plays)
