"""Runs the real ffmpeg against a relay in this process."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Coroutine, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

import attrs
from twisted.internet import defer
from twisted.internet.interfaces import IReactorProcess, IReactorTime
from twisted.internet.protocol import ProcessProtocol
from twisted.internet.utils import getProcessOutputAndValue
from twisted.python.failure import Failure
from typing_extensions import override

from rtmprelay.flv.container import read_tags
from tests.helpers import DEADLINE, the_reactor

_T = TypeVar("_T")

H264_AAC = "-c:v libx264 -preset veryfast -bf 3 -g 25 -pix_fmt yuv420p -c:a aac"


@attrs.frozen
class Packet:
    """One line of ffmpeg's framehash output: a packet, its time and the hash of its bytes."""

    media: str
    dts: int
    pts: int
    size: int
    digest: str


@attrs.frozen
class Capture:
    """What ffmpeg read: packets in order, and the decoder configuration of audio and video."""

    packets: list[Packet]
    extradata: dict[str, str]
    #: How long a tick of audio and of video is, in seconds.
    ticks: dict[str, Fraction] = attrs.field(factory=dict)

    def of(self, media: str) -> list[Packet]:
        """The packets of audio or of video."""
        return [packet for packet in self.packets if packet.media == media]


def parse_framehash(text: str) -> Capture:
    """Read ffmpeg's framehash format."""
    lines = text.splitlines()
    media = {}
    for line in lines:
        if line.startswith("#media_type"):
            number, _, name = line.removeprefix("#media_type ").partition(": ")
            media[number] = name
    packets = []
    extradata = {}
    ticks = {}
    for line in lines:
        if line.startswith("#tb"):
            number, _, tick = line.removeprefix("#tb ").partition(": ")
            ticks[media[number]] = Fraction(tick)
        parts = [part.strip() for part in line.removeprefix("#extradata").split(",")]
        if line.startswith("#extradata"):
            extradata[media[parts[0]]] = parts[2]
        elif line and not line.startswith("#"):
            stream, dts, pts, _duration, size, digest = parts[:6]
            packets.append(Packet(media[stream], int(dts), int(pts), int(size), digest))
    return Capture(packets, extradata, ticks)


class FFmpeg:
    """Runs ffmpeg: now for making media, or beside the reactor for streaming."""

    def __init__(self, program: str, folder: Path, trusted: Path | None = None) -> None:
        """An ffmpeg that keeps its media in a folder.

        Args:
            trusted: The certificates that it is to trust, instead of the system's.
        """
        self.program = program
        self._folder = folder
        # What OpenSSL looks at where a program names no file.
        self._environment = None if trusted is None else {**os.environ, "SSL_CERT_FILE": str(trusted)}

    def trusting(self, certificate: Path) -> FFmpeg:
        """The same, for a server whose certificate only we know: recent versions check it."""
        return FFmpeg(self.program, self._folder, certificate)

    def make(self, name: str, arguments: str) -> Path:
        """Make a media file, once for all tests."""
        path = self._folder / name
        if not path.exists():
            command = [self.program, "-v", "error", "-y", *arguments.split(), str(path)]
            subprocess.run(command, check=True, timeout=DEADLINE)
        return path

    def hash_of(self, path: Path) -> Capture:
        """The packets of a file."""
        command = [self.program, "-v", "error", "-i", str(path), "-c", "copy", "-f", "framehash", "-"]
        result = subprocess.run(command, check=True, capture_output=True, text=True, timeout=DEADLINE)
        return parse_framehash(result.stdout)

    async def run(self, *arguments: str) -> str:
        """Run to the end beside the reactor; what it printed on standard output."""
        return (await self.run_for_both(*arguments))[0]

    async def run_for_both(self, *arguments: str) -> tuple[str, str]:
        """Run to the end beside the reactor; what it printed on standard output and standard error."""
        from twisted.internet import reactor

        running = getProcessOutputAndValue(
            self.program,
            ["-hide_banner", "-nostdin", *arguments],
            env=self._environment,
            reactor=IReactorProcess(reactor),
        )
        out, err, code = await running.addTimeout(DEADLINE, IReactorTime(reactor))
        assert code == 0, err.decode(errors="replace")
        return out.decode(), err.decode(errors="replace")

    async def publish(self, path: Path, url: str, speed: float = 2.0) -> None:
        """Publish a file, so many times faster than real time."""
        rate = ("-readrate", str(speed))
        await self.run("-v", "error", *rate, "-i", str(path), "-map", "0", "-c", "copy", "-f", "flv", url)

    def broadcast(self, path: Path, url: str, begin_ms: int = 2500) -> Broadcast:
        """Publish an FLV file: its beginning at once, and the rest when the test says so.

        Args:
            begin_ms: How long the beginning is.
        """
        # Without sound or pictures it would look for them in all that comes.
        command = [
            self.program,
            *["-hide_banner", "-v", "error", "-analyzeduration", "300k", "-f", "flv", "-i", "pipe:0"],
        ]
        command += ["-map", "0", "-c", "copy", "-f", "flv", url]
        return Broadcast(command, self._environment, *split_at(path, begin_ms))

    async def play(self, url: str, *options: str) -> Capture:
        """Play until the stream ends."""
        text = await self.run(
            "-v", "error", *options, "-i", url, "-map", "0", "-c", "copy", "-f", "framehash", "-"
        )
        return parse_framehash(text)


def split_at(path: Path, timestamp_ms: int) -> tuple[bytes, bytes]:
    """An FLV file, cut in two before the first tag that is so late."""
    with path.open("rb") as file:
        at = next(tag.offset for tag in read_tags(file) if tag.timestamp_ms >= timestamp_ms)
    data = path.read_bytes()
    return data[:at], data[at:]


class Broadcast(ProcessProtocol):
    """An ffmpeg that gets what it publishes in two parts, so that nobody waits for real time.

    A player that is slow to start still comes in time: the rest is sent when it is there. To be left with `async with`,
    which ends ffmpeg.
    """

    def __init__(
        self, command: Sequence[str], environment: dict[str, str] | None, beginning: bytes, rest: bytes
    ) -> None:
        self._command = command
        self._environment = environment
        self._beginning = beginning
        self._rest = rest
        self._errors = b""
        self._ended: defer.Deferred[int | None] = defer.Deferred()

    async def __aenter__(self) -> Broadcast:
        the_reactor().spawnProcess(self, self._command[0], self._command, env=self._environment)
        return self

    async def __aexit__(self, *_: object) -> None:
        if not self._ended.called:
            assert self.transport is not None
            self.transport.signalProcess("KILL")
            await self._ended

    @override
    def connectionMade(self) -> None:
        assert self.transport is not None
        self.transport.write(self._beginning)

    @override
    def errReceived(self, data: bytes) -> None:
        self._errors += data

    @override
    def processEnded(self, reason: Failure) -> None:
        self._ended.callback(getattr(reason.value, "exitCode", None))

    async def finish(self) -> None:
        """Send the rest, and wait until ffmpeg has published it."""
        assert self.transport is not None
        self.transport.write(self._rest)
        self.transport.closeStdin()
        code = await self._ended.addTimeout(DEADLINE, the_reactor())
        assert code == 0, self._errors.decode(errors="replace")


def in_background(coroutine: Coroutine[Any, Any, _T]) -> defer.Deferred[_T]:
    """Let something run while the test goes on; await the result to see how it ended."""
    return defer.Deferred.fromCoroutine(coroutine)


def assert_same_from_a_keyframe_on(played: Capture, published: Capture) -> None:
    """What was played is what was published, packet by packet, from where it began to the end."""
    assert played.extradata == published.extradata
    kinds = {packet.media for packet in published.packets}
    assert {packet.media for packet in played.packets} == kinds
    for kind in kinds:
        got = [(packet.size, packet.digest) for packet in played.of(kind)]
        sent = [(packet.size, packet.digest) for packet in published.of(kind)]
        assert got
        assert got == sent[len(sent) - len(got) :]
    # One offset for everything and for all time: nothing has moved against anything else.
    assert len(_offsets(played, published, kinds)) == 1


def _offsets(played: Capture, published: Capture, kinds: set[str]) -> set[int]:
    offsets = set()
    for kind in kinds:
        got, sent = played.of(kind), published.of(kind)
        for one, other in zip(got, sent[len(sent) - len(got) :], strict=True):
            offsets |= {other.dts - one.dts, other.pts - one.pts}
    return offsets
