"""Connections do not take the files that a running recording needs."""

from __future__ import annotations

import socket
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.helpers import group, wait_for
from tests.hostile.process import AttackedServer

#: Open files of the server, as by `ulimit -n 60`.
FILES = 60

#: Those that HTTP leaves to recordings and destinations.
KEPT = 6


def refused_connections(server: AttackedServer) -> float:
    """How many were refused for that; 0 while the server is busy with refusing them."""
    try:
        return server.figure('rtmprelay_limits_exceeded_total{limit="open_files"}')
    except OSError:
        return 0.0


@pytest.mark.full
@pytest.mark.parametrize("protocol", ["RTMP", "HTTP"])
def test_recording_goes_on_and_begins_new_files_while_strangers_take_all_connections(
    protocol: str, tmp_path: Path
) -> None:
    """Over HTTP they come to the port for viewers, which is the second one."""
    server = AttackedServer(
        tmp_path,
        *("--http-media", "127.0.0.1:0"),
        *("--record-all", "--record-dir", str(tmp_path / "recordings"), "--segment-duration", "1s"),
        files=FILES,
    )
    strangers = []
    try:
        encoder = server.publish("recorded")
        port = server.port if protocol == "RTMP" else server.ports("HTTP", 2)[1]
        for _ in range(FILES):
            with suppress(OSError):
                strangers.append(socket.create_connection(("127.0.0.1", port), 20))
        if protocol == "RTMP":
            wait_for(lambda: refused_connections(server) > 0, "a refusal")
        else:
            wait_for(lambda: server.files() >= FILES - KEPT - 1, "what strangers can take")
        # Before silent ones are closed for that.
        wait_for(lambda: server.files() <= FILES - KEPT, "the files that are kept", 8.0)
        for number in range(1, 60):
            encoder.send(*group(400 * number))
        encoder.socket.close()
        wait_for(
            lambda: any(line.get("event") == "recording_finished" for line in server.lines()),
            "a finished recording",
        )
        failed = [line for line in server.lines() if line.get("event") == "recording_failed"]
        finished = [line for line in server.lines() if line.get("event") == "recording_finished"]
        refused = refused_connections(server)
        sys.stdout.write(
            f"\nulimit -n {FILES}, {protocol}: {refused:.0f} of {FILES} connections refused, {len(finished)} recordings finished,"
            f" {len(failed)} failed\n"
        )
        assert not failed
        assert not any(line["dropped_by_reason"] for line in finished)
    finally:
        for stranger in strangers:
            stranger.close()
        server.stop()
