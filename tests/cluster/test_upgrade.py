"""An upgrade on one machine: two instances share a socket, the old one is drained, and every frame is counted."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from tests.cluster.processes import Encoder, numbers, play
from tests.helpers import SocketClient, real_reactor_test, the_reactor, until
from tests.service.command import LIKE_SYSTEMD, TWISTD, Server

TOKEN = "a-token-for-tests"


async def upgrade(folder: Path, streams: int, seconds: float) -> None:
    """Drain an instance with so many streams, each with a player, while a second one has the same socket."""
    with socket.create_server(("127.0.0.1", 0), backlog=512) as shared:
        port = shared.getsockname()[1]

        def instance(name: str) -> Server:
            return Server(
                folder,
                *("--http-status", "127.0.0.1:0", "--http-token", TOKEN, "--drain-for", f"{seconds:g}s"),
                listen="systemd:domain=INET:index=0",
                command=[sys.executable, "-c", LIKE_SYSTEMD, str(shared.fileno()), *TWISTD],
                pass_fds=[shared.fileno()],
                log=f"{name}.log",
            )

        old = instance("old")
        await until(lambda: old.text().count("Listening on") == 2, "the old instance")
        encoders = [Encoder() for _ in range(streams)]
        players: list[SocketClient] = []
        for number, encoder in enumerate(encoders):
            await encoder.publish(port, f"s{number}")
            players.append(await play(port, f"s{number}"))
        new = instance("new")
        try:
            await until(lambda: new.text().count("Listening on") == 2, "the new instance")
            old.ask("POST", "/drain", {}, TOKEN)
            began = the_reactor().seconds()
            left: dict[int, float] = {}

            def look() -> bool:
                for index, player in enumerate(players):
                    if player.lost is not None:
                        left.setdefault(index, the_reactor().seconds() - began)
                return len(left) == streams

            # Those who come now are served by the new instance.
            newcomer = Encoder()
            assert await newcomer.publish(port, "new")
            assert new.ask("GET", "/health")["streams"] == 1
            await until(look, "the last player", seconds + 30)
            await until(lambda: old.process.poll() is not None, "the end of the old process")
            missing = sum(_missing(numbers(player.frames)) for player in players)
            received = sum(len(numbers(player.frames)) for player in players)
            sys.stdout.write(
                f"{streams} streams: {received} frames, {missing} interrupted; players left after"
                f" {min(left.values()):.1f} to {max(left.values()):.1f} s of {seconds:g} s\n"
            )
            assert missing == 0
            assert min(left.values()) >= 1.0
            # Nobody was cut before its turn: players and encoders leave evenly, players first.
            for turn, time in enumerate(sorted(left.values()), 1):
                assert time >= 1 + (seconds - 1) * turn / (2 * streams) - 0.3
            await _encoders_move(encoders, port)
            assert new.ask("GET", "/health")["streams"] == streams + 1
            await newcomer.stop()
        finally:
            for encoder in encoders:
                await encoder.stop()
            for player in players:
                await player.close()
            old.close()
            new.close()


def _missing(found: list[int]) -> int:
    """Frames that are missing between the first and the last one."""
    return found[-1] - found[0] + 1 - len(found)


async def _encoders_move(encoders: list[Encoder], port: int) -> None:
    for number, encoder in enumerate(encoders):
        await encoder.leave()
        assert await encoder.publish(port, f"s{number}")


@real_reactor_test
async def test_upgrade_interrupts_no_frame_until_a_client_leaves(tmp_path: Path) -> None:
    await upgrade(tmp_path, streams=4, seconds=3)


@pytest.mark.full
@real_reactor_test
async def test_upgrade_with_fifty_streams_cuts_nobody_before_the_time(tmp_path: Path) -> None:
    await upgrade(tmp_path, streams=50, seconds=20)
