"""How many nodes, commands and bytes an audience takes: a model on paper, with measured constants.

python docs/explanation/cluster_model.py [docs/images/cluster-model.svg]
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import attrs

from rtmprelay.cluster.directory import RENEW_EVERY, NodeRecord, Ownership

#: Measured, docs/images/fan-out.json: 1,000 players of one stream take 0.30 of a core, 50 publishers 0.20. Under more
#: load frames share more reads and writes, so that a full core serves rather more.
PLAYERS_OF_A_CORE = 3300
PUBLISHERS_OF_A_CORE = 250

#: Measured with `tests/cluster/test_model.py`: the script of a renewal, and the commands in it.
COMMANDS_OF_A_RENEWAL = 7

#: Assumed.
MEGABITS_OF_A_STREAM = 2.5
STREAMS = 1000


def popularity(streams: int) -> list[float]:
    """The share of each stream in the audience: Zipf's law, as assumed."""
    weights = [1 / rank for rank in range(1, streams + 1)]
    whole = sum(weights)
    return [weight / whole for weight in weights]


def streams_on_an_edge(viewers: float, shares: list[float]) -> float:
    """How many different streams so many viewers watch, if a balancer sends everybody anywhere."""
    return sum(1 - (1 - share) ** viewers for share in shares)


@attrs.frozen
class Need:
    """What an audience takes."""

    #: Nodes of one core each.
    edges: int
    owners: int
    fetches: float
    commands: float
    directory_megabits: float

    @property
    def nodes(self) -> int:
        return self.edges + self.owners


def needed(viewers: int, streams_together: bool) -> Need:
    """The nodes for an audience.

    Args:
        streams_together: Whether the balancer sends the viewers of one stream to as few edges as can hold them.
    """
    shares = popularity(STREAMS)
    if streams_together:
        # Each edge is full of viewers of few streams: a stream is on as many edges as its viewers fill, and on one more.
        fetches = sum(viewers * share / PLAYERS_OF_A_CORE + 1 for share in shares)
        edges = viewers / PLAYERS_OF_A_CORE + fetches / PUBLISHERS_OF_A_CORE
    else:
        few, many = 1.0, float(PLAYERS_OF_A_CORE)
        for _ in range(40):
            each = (few + many) / 2
            load = each / PLAYERS_OF_A_CORE + streams_on_an_edge(each, shares) / PUBLISHERS_OF_A_CORE
            few, many = (each, many) if load < 1 else (few, each)
        edges = viewers / few
        fetches = math.ceil(edges) * streams_on_an_edge(min(few, viewers), shares)
    edges = math.ceil(edges)
    owners = math.ceil(STREAMS / PUBLISHERS_OF_A_CORE + fetches / PLAYERS_OF_A_CORE)
    nodes = edges + owners
    commands = nodes * COMMANDS_OF_A_RENEWAL / RENEW_EVERY
    snapshot = nodes * _record_bytes() + STREAMS * _owner_bytes()
    return Need(edges, owners, fetches, commands, nodes * snapshot * 8 / RENEW_EVERY / 1e6)


def _record_bytes() -> int:
    node = NodeRecord(
        "node-100.example:1935", "20260101-120000-abcdef", "rtmp://10.0.0.100:1935", players=4500
    )
    return len(json.dumps({**attrs.asdict(node), "renewed_at": 1_700_000_000_000})) + 8


def _owner_bytes() -> int:
    owner = Ownership("20260101-120000-abcdef", 100_000)
    return len("live/a-stream-of-somebody") + len(f"{owner.epoch} 0 {owner.instance}") + 16


def rows() -> list[tuple[int, Need, Need]]:
    """The need of growing audiences, spread at random and kept together."""
    return [
        (viewers, needed(viewers, False), needed(viewers, True))
        for viewers in (1_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
    ]


def plot(found: list[tuple[int, Need, Need]]) -> str:
    """Cores by viewers."""
    width, height, left, bottom = 640, 320, 60, 40
    most = max(need.nodes for _, need, _ in found)
    largest = found[-1][0]

    def line(values: list[tuple[int, float]], colour: str, name: str) -> str:
        points = [
            (left + x / largest * (width - left - 130), height - bottom - y / most * (height - bottom - 20))
            for x, y in values
        ]
        path = " ".join(f"{x:.0f},{y:.0f}" for x, y in points)
        x, y = points[-1]
        return (
            f'<polyline fill="none" stroke="{colour}" stroke-width="2.5" points="{path}"/>'
            f'<text x="{x + 8:.0f}" y="{y + 4:.0f}" fill="{colour}">{name}</text>'
        )

    spread = line([(x, need.nodes) for x, need, _ in found], "#c2410c", "spread at random")
    together = line([(x, need.nodes) for x, _, need in found], "#0b62c4", "kept together")
    axis = f"M{left},20V{height - bottom}H{width - 130}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif"'
        f' font-size="12"><path d="{axis}" fill="none" stroke="#888"/>{spread}{together}'
        f'<text x="{left}" y="14" fill="#888">cores, up to {most:.0f}</text>'
        f'<text x="{left}" y="{height - 12}" fill="#888">viewers, up to {largest:,}; {STREAMS:,} streams</text></svg>\n'
    )


def table(found: list[tuple[int, Need, Need]]) -> list[str]:
    """The figures as docs/explanation/cluster.rst has them."""
    lines = ["viewers    balancer    edges  owners  fetches  commands/s  directory Mbit/s"]
    for viewers, *needs in found:
        lines += [
            f"{viewers:9,}  {name:10}  {need.edges:5}  {need.owners:6}  {need.fetches:7.0f}"
            f"  {need.commands:10.0f}  {need.directory_megabits:16.1f}"
            for name, need in zip(("at random", "together"), needs, strict=True)
        ]
    return lines


def main() -> None:
    found = rows()
    sys.stdout.write("\n".join(table(found)) + "\n")
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(plot(found))


if __name__ == "__main__":
    main()
