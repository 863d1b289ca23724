"""Hooks on a real relay: they get all events, slow nothing down, and stop with it."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from twisted.application.service import Service
from twisted.internet.defer import Deferred
from typing_extensions import override
from zope.interface import implementer

from rtmprelay.events import PlayStarted, PublishStarted
from rtmprelay.hooks.exec_hook import make_exec_hook
from rtmprelay.hooks.jsonl import make_jsonl
from rtmprelay.hooks.webhook import make_webhook
from rtmprelay.interfaces import IEventSink
from rtmprelay.media import MediaFrame
from rtmprelay.service import RelayService
from tests.access.log_keeping import kept_log
from tests.helpers import (
    connect_client,
    group,
    real_reactor_fixture,
    real_reactor_test,
    start_frames,
    the_reactor,
    until,
)
from tests.http_client.helpers import RawHttpServer
from tests.service.harness import Harness

Start = Callable[..., RelayService]


@real_reactor_fixture
async def receiver() -> AsyncIterator[RawHttpServer]:
    """A server that receives events."""
    server = RawHttpServer().listen()
    yield server
    await server.stop()


@pytest.fixture
def start(harness: Harness) -> Start:
    """Starts relays with hooks."""
    return lambda *hooks: harness.start_relay(hooks=hooks).service


def endpoint(service: RelayService) -> str:
    return f"tcp:127.0.0.1:{getattr(service.addresses[0], 'port', 0)}"


async def stop_in_time(service: RelayService, within: float = 15.0) -> None:
    """Stop a relay. A busy machine keeps the bound; a relay that waits for a hook that hangs does not."""
    stopping = service.stopService()
    stopping.addTimeout(within, the_reactor())
    await stopping


@real_reactor_test
async def test_a_webhook_gets_all_events_in_order(start: Start, receiver: RawHttpServer) -> None:
    service = start(make_webhook(receiver.url("/events"), the_reactor()))
    client = await connect_client(endpoint(service))
    await client.publish("film")
    await stop_in_time(service)
    lines = [json.loads(body) for _, body in receiver.requests]
    names = [one["event"] for one in lines]
    assert names[0] == "server_started"
    assert names[-1] == "server_stopped"
    assert names.index("publish_started") < names.index("publish_stopped") < names.index("connection_closed")
    assert [one["number"] for one in lines] == list(range(1, len(lines) + 1))
    assert len({one["instance"] for one in lines}) == 1


@real_reactor_test
async def test_a_webhook_posts_again_until_the_server_takes_the_event(
    start: Start, receiver: RawHttpServer
) -> None:
    receiver.answers = [b"close", b"HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n"]
    service = start(make_webhook(receiver.url("/events#events=publish_started"), the_reactor()))
    service.events.publish(PublishStarted(connection="c1", stream="live/a"))
    await until(lambda: len(receiver.requests) == 3, "the third attempt")
    assert len({body for _, body in receiver.requests}) == 1
    await stop_in_time(service)


def busy_program(folder: Path) -> Path:
    program = folder / "program"
    program.write_text("#!/bin/sh\nsleep 60\n")
    program.chmod(0o755)
    return program


async def longest_delay(service: RelayService) -> float:
    """The longest time in seconds that frames of a live stream needed to reach a player."""
    encoder, player = await connect_client(endpoint(service)), await connect_client(endpoint(service))
    await encoder.publish("film")
    encoder.send(*start_frames(), *group(0))
    await player.play("film")
    longest = 0.0
    for number in range(1, 20):
        frames: list[MediaFrame] = group(number * 200)
        began = the_reactor().seconds()
        encoder.send(*frames)
        await until(lambda: player.frames and player.frames[-1].payload == frames[-1].payload, "the frames")  # noqa: B023
        longest = max(longest, the_reactor().seconds() - began)
    await encoder.close()
    await player.close()
    return longest


@pytest.mark.parametrize("kind", ["webhook", "exec", "jsonl"])
@real_reactor_test
async def test_a_hook_that_hangs_delays_neither_frames_nor_the_stop(
    start: Start, receiver: RawHttpServer, tmp_path: Path, kind: str
) -> None:
    """The live stream does not notice, and the relay stops in time."""
    receiver.otherwise = None
    hook: Any
    if kind == "webhook":
        hook = make_webhook(receiver.url("/events"), the_reactor())
    elif kind == "exec":
        hook = make_exec_hook(f"play_started={busy_program(tmp_path)}", the_reactor())
    else:
        # A pipe that nobody reads takes 64 KiB, and then hangs.
        os.mkfifo(tmp_path / "pipe")
        hook = make_jsonl(str(tmp_path / "pipe"), the_reactor())
    service = start(hook)
    for number in range(10_000):
        service.events.publish(PlayStarted(connection=f"c{number}", stream="live/x"))
    # A busy machine keeps this bound. A relay that waits for the hook does not: the first timeout comes after 5 s.
    assert await longest_delay(service) < 4.0
    await stop_in_time(service)


@real_reactor_test
async def test_programs_do_not_outlive_the_relay(start: Start, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text(
        "#!/bin/sh\ntrap '' TERM\n"
        f"echo $$ > {tmp_path}/$RTMPRELAY_CONNECTION.tmp; mv {tmp_path}/$RTMPRELAY_CONNECTION.tmp {tmp_path}/$RTMPRELAY_CONNECTION.pid\n"
        "while :; do sleep 0.1; done\n"
    )
    program.chmod(0o755)
    service = start(make_exec_hook(f"publish_started={program}#at-once=2", the_reactor()))
    for number in range(3):
        service.events.publish(PublishStarted(connection=f"c{number}", stream="live/a"))
    await until(lambda: len(list(tmp_path.glob("*.pid"))) == 2, "two programs")
    pids = [int(path.read_text()) for path in tmp_path.glob("*.pid")]
    await stop_in_time(service)
    await until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "the end of the programs")
    assert len(list(tmp_path.glob("*.pid"))) == 2


@real_reactor_test
async def test_a_program_gets_stream_names_as_plain_text(start: Start, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text(
        f'#!/bin/sh\necho "$RTMPRELAY_EVENT $RTMPRELAY_STREAM $RTMPRELAY_CONNECTION" >> {tmp_path}/out\n'
    )
    program.chmod(0o755)
    service = start(make_exec_hook(f"publish_*={program}#at-once=1", the_reactor()))
    client = await connect_client(endpoint(service))
    await client.publish("film of $(touch never); `touch never`")
    await client.close()
    await stop_in_time(service)
    stream = "live/film of $(touch never); `touch never`"
    assert (tmp_path / "out").read_text().splitlines() == [
        f"publish_started {stream} c000001",
        f"publish_stopped {stream} c000001",
    ]
    assert not list(tmp_path.glob("**/never"))


@real_reactor_test
async def test_a_file_gets_all_events_as_lines(start: Start, tmp_path: Path) -> None:
    service = start(make_jsonl(str(tmp_path / "events.jsonl"), the_reactor()))
    client = await connect_client(endpoint(service))
    await client.publish("film")
    await stop_in_time(service)
    lines = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert lines[0]["event"] == "server_started"
    assert lines[-1]["event"] == "server_stopped"
    assert [line["number"] for line in lines] == list(range(1, len(lines) + 1))


@implementer(IEventSink)
class Stubborn(Service):
    """A hook of somebody else that fails at each event, and never stops."""

    def event_happened(self, time: float, event: object) -> None:
        """Fail."""
        raise RuntimeError("it fails at each event")

    @override
    def stopService(self) -> Deferred[None]:
        return Deferred()


@real_reactor_test
async def test_a_hook_that_never_stops_does_not_hold_up_the_relay(start: Start) -> None:
    service = start(Stubborn())
    client = await connect_client(endpoint(service))
    await client.publish("film")
    with kept_log() as log:
        await stop_in_time(service)
    assert "A hook did not stop within 3 s" in log.lines
