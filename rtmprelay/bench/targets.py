"""What is to be reached, as ratios to nginx-rtmp in the same run and as times that hold anywhere."""

from __future__ import annotations

import attrs

from rtmprelay.bench.results import Case


@attrs.frozen
class Target:
    """Upper bounds; None where there is none."""

    ratio: float | None = None
    p99_ms: float | None = None
    join_p99_ms: float | None = None
    kilobytes_per_player: float | None = None

    def __str__(self) -> str:
        parts = []
        if self.ratio is not None:
            parts.append(f"{self.ratio:g} x")
        if self.p99_ms is not None:
            parts.append(f"p99 {self.p99_ms:g} ms")
        if self.join_p99_ms is not None:
            parts.append(f"{self.join_p99_ms:g} ms")
        if self.kilobytes_per_player is not None:
            parts.append(f"{self.kilobytes_per_player:g} kB")
        return ", ".join(parts)

    def is_reached(self, **figures: float | None) -> bool | None:
        """Whether all bounds are kept; None if there are none, or if a figure is missing and none is broken."""
        bounds = {name: bound for name, bound in attrs.asdict(self).items() if bound is not None}
        measured = {name: figures[name] for name in bounds}
        if any(figure is not None and figure > bounds[name] for name, figure in measured.items()):
            return False
        return None if not bounds or None in measured.values() else True


def target_of(case: Case, window: str | None) -> Target:
    """The target of a case, for a server with this merge window, or with the default."""
    match case.workload:
        case "fanout":
            return _fanout_target(case.players, window)
        case "relay":
            ratio = 1.5 if case.destinations <= 10 else 1.0 if case.destinations >= 50 else None
            return Target(ratio=ratio, p99_ms=20.0)
        case "ingest":
            return Target(ratio=3.0 if case.chunk_size >= 4096 else 6.0)
        case "join":
            return Target(join_p99_ms=15.0)
        case _:
            return Target()


def _fanout_target(players: int, window: str | None) -> Target:
    # With few players, memory that is shared by all looks like theirs.
    memory = 60.0 if players >= 200 else None
    if window is not None:
        wide = window == "120ms" and players >= 200
        return Target(ratio=0.3 if wide else None, kilobytes_per_player=memory)
    if players <= 20:
        return Target(p99_ms=10.0)
    ratio = None if players < 200 else 0.6 if players < 1000 else 0.8
    return Target(ratio=ratio, p99_ms=60.0, kilobytes_per_player=memory)
