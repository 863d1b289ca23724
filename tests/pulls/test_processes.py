"""Relays that fetch from each other, as processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from rtmprelay.media import MediaFrame
from rtmprelay.session.reports import MediaReceived, StatusReceived
from tests.helpers import free_port, group, start_frames, wait_for
from tests.service.command import BlockingClient, Server


@pytest.fixture
def ring(tmp_path: Path) -> Iterator[list[Server]]:
    """A fetches from B, B from C, and C from A."""
    names = ("a", "b", "c")
    ports = [free_port() for _ in names]
    with ExitStack() as stack:
        servers = []
        for index, name in enumerate(names):
            origin = f"rtmp://127.0.0.1:{ports[(index + 1) % 3]}/{{app}}/{{name}}"
            server = Server(
                tmp_path,
                *("--node-name", name, "--pull", f"live/*={origin}", "--log-format", "json"),
                listen=f"tcp:{ports[index]}:interface=127.0.0.1",
                log=f"{name}.log",
            )
            servers.append(stack.enter_context(server))
        for server in servers:
            server.port()
        yield servers


def answers(player: BlockingClient) -> list[str]:
    return [event.code for event in player.events if isinstance(event, StatusReceived)]


def test_chain_of_pulls_that_comes_back_is_refused_with_a_line_that_names_the_node(
    ring: list[Server],
) -> None:
    first = ring[0]
    player = first.connect()
    player.session.play("cam")
    while "NetStream.Play.StreamNotFound" not in answers(player):
        assert player.receive(), "the player is told, and not cut off"
    # The node that it came back to refuses it, and the one that asked says so.
    refused = wait_for(lambda: first.lines("connect_refused"), "the refusal")
    assert {line["reason"] for line in refused} == {"a loop: a -> b -> c -> a"}
    failed = wait_for(lambda: ring[2].lines("pull_failed"), "the failure")
    assert "a loop: a -> b -> c -> a" in failed[0]["reason"]
    assert not any("Traceback" in server.text() for server in ring)


def test_stream_goes_round_the_ring_up_to_the_node_that_has_it(ring: list[Server]) -> None:
    encoder = ring[2].connect()
    assert encoder.publish("cam") == "accepted"
    encoder.send(*start_frames(), *group(0))
    player = ring[0].connect()
    player.session.play("cam")
    wait_for(lambda: player.receive() and len(_frames(player)) >= len(start_frames()) + 10, "the frames")
    assert _frames(player)[-10:] == group(0)
    assert [len(server.lines("pull_connected")) for server in ring] == [1, 1, 0]


def _frames(player: BlockingClient) -> list[MediaFrame]:
    return [frame for event in player.events if isinstance(event, MediaReceived) for frame in event.frames]
