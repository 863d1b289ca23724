"""The servers that are compared. They are started on 127.0.0.1 and ended by process id."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from urllib.parse import urlsplit

import attrs

from rtmprelay.bench.connections import APP, HOST
from rtmprelay.bench.workers import BenchError

NGINX_MODULE = Path("/usr/lib/nginx/modules/ngx_rtmp_module.so")

_START_WITHIN = 20.0
_STOP_WITHIN = 5.0
_ATTEMPTS = 3


def twistd_program() -> list[str]:
    """`twistd` of the environment that runs the benchmark, whatever is first in the PATH."""
    return [sys.executable, str(Path(sys.executable).with_name("twistd"))]


@attrs.frozen
class Extras:
    """What a server does in addition to serving players."""

    #: URLs that each stream is relayed to.
    destinations: tuple[str, ...] = ()
    record: bool = False
    tls: bool = False


@attrs.frozen
class Contestant:
    """A server that takes part: ours, with or without further options, nginx-rtmp, or SRS."""

    name: str
    options: tuple[str, ...] = ()
    is_nginx: bool = False
    is_srs: bool = False

    def command(self, folder: Path, port: int, extras: Extras) -> list[str]:
        recordings = folder / "recordings"
        recordings.mkdir(exist_ok=True)
        if self.is_nginx:
            configuration = folder / "nginx.conf"
            configuration.write_text(nginx_configuration(folder, port, extras))
            # nginx's worker may run as another user.
            recordings.chmod(0o777)
            errors = folder / "error.log"
            return [nginx_program(), "-c", str(configuration), "-p", str(folder), "-e", str(errors)]
        if self.is_srs:
            configuration = folder / "srs.conf"
            configuration.write_text(srs_configuration(folder, port, extras))
            return [os.environ[SRS_PROGRAM], "-c", str(configuration)]
        command = [
            *twistd_program(),
            "-n",
            "--pidfile=",
            "rtmprelay",
            "--listen",
            _tls_listener(folder, port) if extras.tls else f"{HOST}:{port}",
            *self.options,
        ]
        for url in extras.destinations:
            command += ["--relay-to", url]
        if extras.record:
            command += ["--record-all", "--record-dir", str(recordings)]
        return command


OURS = Contestant("rtmprelay")
NGINX = Contestant("nginx-rtmp", is_nginx=True)
SRS = Contestant("SRS", is_srs=True)

#: The environment variable that says where the program of SRS is.
SRS_PROGRAM = "SRS_BIN"


def ours_with_window(window: str) -> Contestant:
    return Contestant(f"rtmprelay, window {window}", ("--merge-window", window))


def _tls_listener(folder: Path, port: int) -> str:
    """The listener of a server with a certificate that vouches for itself."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -noenc -days 1 -subj /CN=localhost"
    subprocess.run(
        [*make.split(), "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True
    )
    return f"ssl:{port}:interface={HOST}:privateKey={key}:certKey={certificate}"


def srs_is_there() -> bool:
    """Whether SRS_BIN names a program."""
    return Path(os.environ.get(SRS_PROGRAM, "")).is_file()


def srs_configuration(folder: Path, port: int, extras: Extras) -> str:
    """SRS' defaults, without what else it would do."""
    servers = " ".join(urlsplit(url).netloc for url in extras.destinations)
    forward = f"forward {{ enabled on; destination {servers}; }}" if servers else ""
    recorder = f"dvr {{ enabled on; dvr_path {folder}/recordings/[app]_[stream].flv; dvr_plan session; }}"
    return (
        f"listen {HOST}:{port}; max_connections 16000; daemon off; pid {folder}/srs.pid;\n"
        f"srs_log_tank file; srs_log_file {folder}/srs.log; srs_log_level error; ff_log_dir {folder};\n"
        f"work_dir {folder}; query_latest_version off; stats {{ network 0; }} heartbeat {{ enabled off; }}\n"
        "http_api { enabled off; } http_server { enabled off; }\n"
        f"vhost __defaultVhost__ {{ {forward} {recorder if extras.record else ''} }}\n"
    )


def nginx_program() -> str:
    return shutil.which("nginx") or "/usr/sbin/nginx"


def nginx_is_there() -> bool:
    """Whether nginx-rtmp can be started (Debian: nginx and libnginx-mod-rtmp)."""
    return Path(nginx_program()).exists() and NGINX_MODULE.exists()


def nginx_configuration(folder: Path, port: int, extras: Extras) -> str:
    """One worker, since ours is one process; no access log; nginx-rtmp's defaults for everything else."""
    push = "".join(f"push {url}; " for url in extras.destinations)
    record = f"record all; record_path {folder / 'recordings'}; " if extras.record else ""
    user = "user root; " if os.geteuid() == 0 else ""
    return (
        f"load_module {NGINX_MODULE};\n"
        f"daemon off; worker_processes 1; worker_rlimit_nofile 32768; {user}\n"
        f"pid {folder}/nginx.pid; error_log {folder}/error.log error;\n"
        "events { worker_connections 16384; }\n"
        "rtmp { access_log off; chunk_size 4096;\n"
        f"  server {{ listen {HOST}:{port};\n"
        f"    application {APP} {{ live on; {push}{record}}}\n"
        "  }\n}\n"
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


class RunningServer:
    """A server for one measurement; a `with` block ends it and removes its files."""

    def __init__(self, contestant: Contestant, extras: Extras) -> None:
        self._contestant = contestant
        self._extras = extras
        self.folder = Path(tempfile.mkdtemp(prefix="rtmprelay-bench-"))
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def recordings(self) -> list[Path]:
        return sorted((self.folder / "recordings").iterdir())

    def __enter__(self) -> RunningServer:
        try:
            self._start()
        except BaseException:
            self._clean_up()
            raise
        return self

    def _start(self) -> None:
        for _ in range(_ATTEMPTS):
            # Another process may take the port before the server does: then try the next one.
            self.port = free_port()
            command = self._contestant.command(self.folder, self.port, self._extras)
            with (self.folder / "output.log").open("wb") as output:
                self._process = subprocess.Popen(
                    command,
                    cwd=self.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
            if self._accepts_soon():
                return
            self.stop()
        log = (self.folder / "output.log").read_text(errors="replace")[-300:]
        raise BenchError(f"{self._contestant.name} did not start: {log.strip()}")

    def _accepts_soon(self) -> bool:
        deadline = time.monotonic() + _START_WITHIN
        while time.monotonic() < deadline and not self.has_ended:
            with socket.socket() as probe:
                if probe.connect_ex((HOST, self.port)) == 0:
                    return True
            time.sleep(0.02)
        return False

    def stop(self) -> None:
        """End the server with SIGTERM; if that does not help, kill its process group."""
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_STOP_WITHIN)
            except subprocess.TimeoutExpired:
                # It was started as the leader of a process group.
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(_STOP_WITHIN)
        self._process = None

    def _clean_up(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clean_up()
