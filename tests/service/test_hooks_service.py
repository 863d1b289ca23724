"""Hooks on a real relay: they hear everything, slow nobody down, and stop with it."""

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
    """A server that is told of events."""
    server = RawHttpServer().listen()
    yield server
    await server.stop()


@pytest.fixture
def start(harness: Harness) -> Start:
    """Starts relays with hooks."""
    return lambda *hooks: harness.start_relay(hooks=hooks).service


def endpoint(service: RelayService) -> str:
    return f"tcp:127.0.0.1:{getattr(service.addresses[0], 'port', 0)}"


async def stop_in_time(service: RelayService, within: float = 5.0) -> float:
    """Stop a relay; how long it took."""
    began = the_reactor().seconds()
    await service.stopService()
    took: float = the_reactor().seconds() - began
    assert took < within
    return took


@real_reactor_test
async def test_a_webhook_hears_everything_in_order(start: Start, receiver: RawHttpServer) -> None:
    service = start(make_webhook(receiver.url("/events"), the_reactor()))
    client = await connect_client(endpoint(service))
    await client.publish("film")
    await stop_in_time(service)
    told = [json.loads(body) for _, body in receiver.requests]
    names = [one["event"] for one in told]
    assert names[0] == "server_started"
    assert names[-1] == "server_stopped"
    assert names.index("publish_started") < names.index("publish_stopped") < names.index("connection_closed")
    assert [one["number"] for one in told] == list(range(1, len(told) + 1))
    assert len({one["instance"] for one in told}) == 1


@real_reactor_test
async def test_a_webhook_that_comes_back(start: Start, receiver: RawHttpServer) -> None:
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


async def frames_come_at_once(service: RelayService) -> float:
    """The longest time that a frame of a live stream was on its way."""
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
async def test_ten_thousand_events_and_a_sink_that_hangs(
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
    began = the_reactor().seconds()
    for number in range(10_000):
        service.events.publish(PlayStarted(connection=f"c{number}", stream="live/x"))
    published = the_reactor().seconds() - began
    longest = await frames_come_at_once(service)
    # A bound that a busy machine keeps, and a relay that waits for the sink does not.
    assert longest < 1.0, f"{longest:.3f} s for frames, {published:.3f} s for 10,000 events"
    assert published < 10.0
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
async def test_a_program_is_told_what_happened(start: Start, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text(
        f'#!/bin/sh\necho "$RTMPRELAY_EVENT $RTMPRELAY_STREAM $RTMPRELAY_CONNECTION" >> {tmp_path}/told\n'
    )
    program.chmod(0o755)
    service = start(make_exec_hook(f"publish_*={program}#at-once=1", the_reactor()))
    client = await connect_client(endpoint(service))
    await client.publish("film of $(touch never); `touch never`")
    await client.close()
    await stop_in_time(service)
    stream = "live/film of $(touch never); `touch never`"
    assert (tmp_path / "told").read_text().splitlines() == [
        f"publish_started {stream} c000001",
        f"publish_stopped {stream} c000001",
    ]
    assert not list(tmp_path.glob("**/never"))


@real_reactor_test
async def test_lines_in_a_file(start: Start, tmp_path: Path) -> None:
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
async def test_a_hook_of_somebody_else_that_does_not_stop(start: Start) -> None:
    service = start(Stubborn())
    client = await connect_client(endpoint(service))
    await client.publish("film")
    await stop_in_time(service)
