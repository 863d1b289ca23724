"""A terminal in which the commands of a tutorial are typed, as they stand on the page.

Programs are those of this environment. Ports are others: a server is told to take any, and what the page says
afterwards (`rtmp://127.0.0.1/live/test`) is led to the one that it took. Long streams are ended when everything has been seen.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from tests.helpers import DEADLINE, wait_for

#: What the programs of the pages are here. ffplay is one without a window.
_PROGRAMS = {
    "python": f'exec "{sys.executable}" "$@"',
    "rtmprelay": f'exec "{sys.executable}" -m rtmprelay "$@"',
    "twistd": f'exec "{sys.executable}" -c "import sys; sys.argv[0] = \'twistd\';'
    ' from twisted.scripts.twistd import run; run()" "$@"',
    "ffmpeg": 'exec "{ffmpeg}" -nostdin "$@"',
    "ffplay": 'exec "{ffmpeg}" -nostdin -v error -i "$1" -t 0.5 -f null -',
}

#: Seconds that a stream of a tutorial lasts here.
STREAM_SECONDS = 60

_LISTENING = re.compile(r"Listening on 127\.0\.0\.1:(\d+) for (RTMP|HTTP)")


class Terminal:
    """Types commands. What goes on for long is started, and ended with the terminal."""

    def __init__(self, folder: Path, ffmpeg: str, environment: dict[str, str]) -> None:
        self.folder = folder
        programs = folder.parent / "programs"
        programs.mkdir()
        for name, line in _PROGRAMS.items():
            file = programs / name
            file.write_text("#!/bin/sh\n" + line.replace("{ffmpeg}", ffmpeg) + "\n")
            file.chmod(0o755)
        # An answer that tells of an error is an error, and nothing but the answer is written.
        (programs / ".curlrc").write_text("fail\nsilent\n")
        self._environment = environment | {
            "PATH": f"{programs}:{environment['PATH']}",
            "CURL_HOME": str(programs),
        }
        self._running: list[subprocess.Popen[bytes]] = []
        #: The ports here, by what the pages call them.
        self.ports: dict[str, int] = {}

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        for process in reversed(self._running):
            self.end(process)

    def export(self, line: str) -> None:
        """`export NAME=VALUE`."""
        name, _, value = line.removeprefix("export ").partition("=")
        self._environment[name] = value

    def run(self, line: str, status: int = 0) -> str:
        """Type a command, and wait for its end; what it wrote."""
        done = subprocess.run(
            ["sh", "-c", self.here(line)],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=3 * DEADLINE,
            check=False,
        )
        assert done.returncode == status, f"{line}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def start(self, line: str) -> subprocess.Popen[bytes]:
        """Type a command that goes on."""
        # A shell that becomes the command, so that a signal reaches it. Tests that run in the background of a shell have
        # inherited from it that Ctrl-C is ignored.
        command = ["env", "--default-signal=INT", "sh", "-c", f"exec {self.here(line)}"]
        log = self.folder.parent / f"{len(self._running)}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                command, cwd=self.folder, env=self._environment, stdout=out, stderr=subprocess.STDOUT
            )
        self._running.append(process)
        return process

    def start_server(self, line: str, again: bool = False) -> subprocess.Popen[bytes]:
        """Type `rtmprelay serve ...`, and wait until it listens; its ports are then what the pages say.

        Args:
            again: On the port that it had before.
        """
        rtmp = re.search(r"--listen 127\.0\.0\.1:(\d+)", line)
        http = re.search(r"--http-(?:status|media) (?:127\.0\.0\.1)?:(\d+)", line)
        assert {"serve", "-n"} & set(line.split()), "it would go on in the background"
        line = line if rtmp else f"{line} --listen 127.0.0.1:1935"
        port = self.ports[rtmp[1]] if again and rtmp else 0
        line = re.sub(r"--listen 127\.0\.0\.1:\d+", f"--listen 127.0.0.1:{port}", line)
        line = re.sub(r"(--http-(?:status|media) (?:127\.0\.0\.1)?):\d+", r"\1:0", line)
        process = self.start(line)
        log = self.log_of(process)

        def listening() -> bool:
            assert process.poll() is None, log.read_text()
            return len(_LISTENING.findall(log.read_text())) == (2 if http else 1)

        wait_for(listening, f"{line} listening")
        for port, kind in _LISTENING.findall(log.read_text()):
            named = (rtmp[1] if rtmp else "1935") if kind == "RTMP" else (http[1] if http else "")
            self.ports[named] = int(port)
        return process

    def log_of(self, process: subprocess.Popen[bytes]) -> Path:
        """What a command that goes on has written so far."""
        return self.folder.parent / f"{self._running.index(process)}.log"

    def end(self, process: subprocess.Popen[bytes], number: int = signal.SIGINT) -> None:
        """Ctrl-C, or another signal."""
        if process.poll() is None:
            process.send_signal(number)
        try:
            process.wait(DEADLINE)
        finally:
            process.kill()
            process.wait()

    def here(self, line: str) -> str:
        """A command, or a file, with the addresses that these things have here."""
        line = re.sub(r"(rtmp://127\.0\.0\.1)/", r"\1:1935/", line)
        line = re.sub(r"(?<=//127\.0\.0\.1:)(\d+)", lambda port: str(self.ports.get(port[1], port[1])), line)
        return re.sub(r"-t \d{2,}\b", f"-t {STREAM_SECONDS}", line)
