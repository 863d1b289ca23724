"""The mistakes that somebody makes who uses the relay for the first time, and what each is answered.

Forty-nine were noted in a walk through the documents. A row says what is typed or done and what the answer must have
in it; those of other parts have their tests there, and `ELSEWHERE` names them. Time is on a clock in memory.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from twisted.logger import globalLogPublisher

from rtmprelay.before_start import check_pid_file, why_not_listening
from rtmprelay.cli import main as cli
from rtmprelay.errors import ConfigError
from rtmprelay.event_bus import LogSink
from rtmprelay.logs import make_observer
from rtmprelay.testing import MemoryServer
from tests.helpers import LOOPBACK, wait_for
from tests.service.command import FOREGROUND, TWISTD, run
from tests.web.helpers import Client, Web

ROOT = Path(__file__).parents[2]

#: Number of the mistake, options of `rtmprelay serve`, and what the line must say.
TYPED = [
    (1, "--lisen 1936", "option --lisen not recognized; did you mean --listen?"),
    (2, "--port 1936", "option --port not recognized; did you mean --listen?"),
    (3, "--listen 99999", "--listen: 99999 is not a port: a number from 0 to 65535 is expected"),
    (4, "--listen localhost", "write a port, HOST:PORT, or"),
    (4, "--listen localhost", "did you mean localhost:1935?"),
    (5, "--listen 192.0.2.77:1935", "192.0.2.77 is not an address of this machine"),
    (6, "--listen {taken}", "--listen: port {taken} is in use"),
    (6, "--listen {taken}", "choose another port, or end the program that has it (ss -ltnp"),
    (
        12,
        "--record-all --record-dir {file}/x",
        "--record-dir: '{file}/x' cannot be used: '{file}' is not a folder",
    ),
    (12, "--record-all --record-dir /proc/foo", "--record-dir: the folder '/proc/foo' cannot be made"),
    (13, "--record-dir X", "--record-dir has no effect: nothing is recorded; add --record-all"),
    (13, "--keep-recordings 7d", "--keep-recordings has no effect: nothing is recorded"),
    (13, "--record live", "'live' matches no stream: streams are called APP/NAME; write 'live/*'"),
    (14, "--relay-to youtube.com/live/KEY", "rtmp://host/app/key or rtmps://host/app/key is expected"),
    (15, "--relay-to http://h/a/b", "its scheme is 'http': rtmp or rtmps is expected"),
    (16, "--relay-to rtmp://127.0.0.1", "it has no application: rtmp://127.0.0.1/app/key is expected"),
    (20, "--relay-config nofile.json", "'nofile.json' cannot be read: No such file or directory"),
    (21, "--relay-config comma.json", "it is not valid JSON: "),
    (
        22,
        "--relay-config adress.json",
        "the field 'url' is missing @ $.destinations[0].url; unknown field 'adress'",
    ),
    (23, "--relay-config variable.json", "('YouTube'): stream_key: the environment has no NO_SUCH_KEY"),
    (24, "--relay-config keyfile.json", "stream_key_file '/nowhere/twitch.key' cannot be read"),
    (25, "--record-all --segment-duration 30", "'30' is not a duration such as 90s, 30m, 12h or 7d"),
    (26, "--auth keyfile:x", "unknown plugin 'keyfile'; did you mean 'keys-file'?"),
    (27, "--hook https://example.org/x", "write http:https://example.org/x"),
    (28, "--limit max_conections=5", "unknown limit 'max_conections'; did you mean 'max_connections'?"),
    (29, "--http-status :0 --http-token short", "a token needs at least"),
    (30, "-n", "there are no short options, and it runs in the foreground anyway"),
]

#: Those whose tests are beside the part that answers: their folder, and the words that they ask for.
ELSEWHERE = {
    17: ("destinations", "that is this relay, or leads back to it"),
    18: ("destinations", "rtmp://me/live/cam"),
    19: ("destinations", "rtmp://me/{app}-{name}/x"),
    36: ("access/authorizers", "the key is wrong, or not for this stream"),
    41: ("cli", "server.process.send_signal(signal.SIGTERM)"),
    42: ("flv", "unfinished, nothing lost"),
    43: ("spark", "pip install 'rtmprelay[spark]'"),
    44: ("spark", "is no time: write 2026-01-01T12:34:56"),
    45: ("spark", "No recording shows live/film at"),
    46: ("spark", "There is no catalogue in"),
    47: ("docs", '["python_requires"] == f">=3.{oldest}"'),
}

#: Those with a test of their own below.
BELOW = {7, 8, 9, 10, 11, 31, 32, 33, 34, 35, 37, 38, 39, 40, 48, 49}

FILES = {
    "comma.json": '{"destinations": [{"name": "a",}]}',
    "adress.json": '{"destinations": [{"name": "a", "adress": "x"}]}',
    "variable.json": '{"destinations": [{"name": "YouTube", "url": "rtmp://h/app", "stream_key": "${NO_SUCH_KEY}"}]}',
    "keyfile.json": '{"destinations": [{"name": "T", "url": "rtmp://h/app", "stream_key_file": "/nowhere/twitch.key"}]}',
}


def test_every_mistake_of_the_walk_has_its_test() -> None:
    assert {number for number, *_ in TYPED} | {*ELSEWHERE} | BELOW == {*range(1, 50)}


@pytest.mark.parametrize(("folder", "text"), ELSEWHERE.values())
def test_answers_of_other_parts_are_asked_for_there(folder: str, text: str) -> None:
    assert any(text in path.read_text() for path in (ROOT / "tests" / folder).glob("test_*.py"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "file").write_text("no folder")
    return tmp_path


@pytest.mark.parametrize(("number", "typed", "said"), TYPED)
def test_typed_mistake_is_one_line_with_its_cure(number: int, typed: str, said: str, folder: Path) -> None:
    with socket.create_server(("", 0)) as taken:
        words = {"taken": taken.getsockname()[1], "file": folder / "file"}
        with pytest.raises(SystemExit) as ended:
            cli.main(["serve", *shlex.split(typed.format(**words))])
    message = ended.value.code
    # A text as the exit status is printed, and the status is 1.
    assert isinstance(message, str)
    assert message.startswith("rtmprelay: ")
    assert "\n" not in message
    assert (said.format(**words) if "{" in said and "$" not in said else said) in message


def test_all_mistakes_of_a_command_are_told_at_once(folder: Path) -> None:
    typed = "--lisen 1 --port=2 --listen localhost --listen :0 --chunk-size 3 --relay-to x --relay-to y --limit a=b"
    with pytest.raises(SystemExit) as ended:
        cli.main(["serve", *shlex.split(typed)])
    lines = str(ended.value.code).splitlines()
    found = [re.search(r"--[a-z-]+", line) for line in lines]
    assert [match[0] for match in found if match] == [
        "--lisen",
        "--port",
        "--listen",
        "--chunk-size",
        "--relay-to",
        "--relay-to",
        "--limit",
    ]
    assert [line for line in lines if "(see rtmprelay serve --help)" in line] == lines[-1:]


def test_what_is_missing_only_because_it_was_wrong_is_not_told(folder: Path) -> None:
    typed = "--cluster http://x --cluster-secret x --node-url rtmp://a:1 --record live --record-dir x"
    with pytest.raises(SystemExit) as ended:
        cli.main(["serve", *shlex.split(typed)])
    first, second = sorted(str(ended.value.code).splitlines())
    assert first.startswith("rtmprelay: --cluster: it is not the address of a directory")
    assert second.startswith("rtmprelay: --record: 'live' matches no stream")


def test_wrong_values_of_one_option_have_their_own_numbers(folder: Path) -> None:
    typed = "--relay-to x --relay-to rtmp://a/b/c --relay-to y"
    with pytest.raises(SystemExit) as ended:
        cli.main(["serve", *shlex.split(typed)])
    assert re.findall(r"\(number (\d)\)", str(ended.value.code)) == ["1", "3"]


@pytest.mark.parametrize(
    "typed",
    [
        "--http-status :99999 --http-token a-token-of-24-characters",
        "--hls live --hls-part 500ms --http-media :0",
        "--cluster http://x --node-url rtmp://127.0.0.1:1 --cluster-secret file:nothing",
    ],
)
def test_what_follows_from_a_mistake_is_not_told_as_another(typed: str, folder: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["serve", *shlex.split(typed)])
    (line,) = str(ended.value.code).splitlines()
    assert line.startswith(f"rtmprelay: {typed.split()[0]}: ")


@pytest.mark.parametrize(
    "typed",
    ["extra", "--listen", "--record-all=yes", "--listen tcp:", '--listen ""', '--config ""', "--hls ''"],
)
def test_whatever_is_typed_there_is_a_line_and_no_traceback(typed: str, folder: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["serve", *shlex.split(typed)])
    assert str(ended.value.code).startswith("rtmprelay: ")
    assert "invalid literal" not in str(ended.value.code)


# -- the start -------------------------------------------------------------------------------------------------


def test_port_for_root_says_the_cure() -> None:  # 8
    said = why_not_listening("", 443, PermissionError(13, "Permission denied"))
    assert "ports below 1024, such as 443, are for root: choose a higher one" in said
    assert "CAP_NET_BIND_SERVICE" in said


def test_busy_port_in_the_background_is_one_line(tmp_path: Path) -> None:  # 7
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        done = run([*TWISTD, "rtmprelay", "--listen", listen], tmp_path)
    assert done.returncode == 1
    assert re.fullmatch(r"rtmprelay: --listen: port \d+ is in use, .*\n", done.stderr)
    assert "Traceback" not in done.stdout


def test_pid_file_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:  # 10
    with pytest.raises(ConfigError) as refused:
        check_pid_file(tmp_path / "missing" / "twistd.pid")
    assert "--pidfile=" in str(refused.value)
    assert "rtmprelay serve" in str(refused.value)
    check_pid_file(tmp_path / "twistd.pid")
    # In the background and in the foreground.
    for more in ([], ["-n"]):
        done = run([*TWISTD, *more, "--pidfile=missing/x.pid", "rtmprelay", "--listen", LOOPBACK], tmp_path)
        assert done.returncode == 1
        assert done.stdout == ""
    assert re.fullmatch(r"rtmprelay: the pid file '.*missing/x\.pid' cannot be written: .*\n", done.stderr)


def test_folder_of_recordings_that_is_not_writable_stops_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # 11
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(SystemExit, match=r"--record-dir: '.*' cannot be used: '.*' is not writable"):
        cli.main(["serve", "--record-all", "--record-dir", str(tmp_path / "recordings")])


def test_start_in_the_background_says_so_and_how_to_stop_it(tmp_path: Path) -> None:  # 9, 31
    done = run([*TWISTD, "--pidfile=relay.pid", "rtmprelay", "--listen", LOOPBACK], tmp_path)
    pid_file = tmp_path / "relay.pid"
    wait_for(pid_file.exists, "the pid file")
    try:
        assert done.returncode == 0
        assert "rtmprelay starts in the background; its log is twistd.log." in done.stderr
        assert "It stops with: kill $(cat relay.pid)" in done.stderr
        assert "rtmprelay serve, or twistd -n rtmprelay" in done.stderr
    finally:
        os.kill(int(pid_file.read_text()), 15)
        wait_for(lambda: not pid_file.exists(), "the end of the daemon")


def test_two_of_them_in_one_folder_need_no_pid_file(tmp_path: Path) -> None:  # 9
    help_text = run([sys.executable, "-m", "rtmprelay", "serve", "--help"], tmp_path).stdout
    assert "pid" not in help_text.replace("rapid", "")


def test_wrong_word_after_the_command_names_the_right_one(capsys: pytest.CaptureFixture[str]) -> None:  # 32
    assert cli.main(["server"]) == 2
    assert "there is no command 'server'; did you mean serve?" in capsys.readouterr().err


def test_command_alone_says_what_there_is(tmp_path: Path) -> None:  # 33
    done = run([sys.executable, "-m", "rtmprelay"], tmp_path)
    assert done.returncode == 0
    assert "serve     run the server and relay here, until Ctrl-C" in done.stdout


def test_python_without_twisted_is_named_in_one_line() -> None:  # 48
    command = [sys.executable, "-S", "-m", "rtmprelay", "serve"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=40, check=False)
    assert done.returncode == 1
    assert re.fullmatch(r"rtmprelay: this Python \(.*\) has no \w+: use the one that .*\n", done.stderr)


def test_file_of_another_kind_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:  # 49
    path = tmp_path / "film.mp4"
    path.write_bytes(b"\0\0\0\x18ftypmp42" + bytes(100))
    assert cli.main(["recordings", "check", str(path)]) == 1
    assert "This is not an FLV file, and no FLV tags are in it." in capsys.readouterr().err


# -- clients ---------------------------------------------------------------------------------------------------


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """What an operator sees."""
    written = io.StringIO()
    observer = make_observer(written, "info", "text")
    globalLogPublisher.addObserver(observer)
    yield written
    globalLogPublisher.removeObserver(observer)


@pytest.fixture
def server() -> MemoryServer:
    server = MemoryServer()
    server.factory.events.add_sink(LogSink())
    return server


def test_play_of_what_is_not_there_says_so_to_the_client(server: MemoryServer) -> None:  # 34
    player = server.connect()
    player.play("nothing")
    server.pump()
    assert "live/nothing is not published" in [getattr(one, "description", "") for one in player.events]


def test_second_publisher_is_told_who_has_the_stream(server: MemoryServer, log: io.StringIO) -> None:  # 35
    for _ in range(2):
        encoder = server.connect()
        encoder.publish("x")
        server.pump()
    refused = "live/x has a publisher already (c000001)"
    assert refused in [getattr(one, "description", "") for one in encoder.events]
    assert refused in log.getvalue()


def test_publish_without_a_name_is_logged(server: MemoryServer, log: io.StringIO) -> None:  # 37
    encoder = server.connect(app="")
    encoder.publish("")
    server.pump()
    assert "publish of / by c000001 from 192.0.2.1:50000 refused: the stream has no name" in log.getvalue()


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (
            b"GET / HTTP/1.1\r\nHost: relay\r\n\r\n",
            "it is a letter, so this may be HTTP on an RTMP port",
        ),  # 38
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "this is a TLS hello on a plain RTMP port"),  # 39
    ],
)
def test_other_protocol_on_the_rtmp_port_is_told_at_once(
    sent: bytes, said: str, server: MemoryServer, log: io.StringIO
) -> None:
    connection = server.open()
    assert connection is not None
    connection.protocol.dataReceived(sent)
    assert connection.transport.closed
    connection.lose()
    assert said in log.getvalue()


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (
            b"\x03" + bytes(1536),
            "this is RTMP on a port for HTTP: publish to and play from the port of --listen",
        ),
        (
            b"\x16\x03\x01\x02\x00",
            "this is TLS on a port for HTTP without TLS: write http:// in place of https://",
        ),
    ],
)
def test_other_protocol_on_the_http_port_is_told_at_once(
    sent: bytes, said: str, log: io.StringIO
) -> None:  # 40
    web = Web()
    try:
        clients = [Client(web) for _ in range(50)]
        for client in clients:
            client.send(sent)
            assert said.encode() in client.transport.read_all()
        web.advance(1.5)
        for client in clients:
            # The server has closed the connection.
            client.lose_if_closed()
            assert client.lost
        # Two connections are refused in one line each second, however many there are.
        assert log.getvalue().count(said) == 2
        assert "48 more since the last report" in log.getvalue()
    finally:
        web.stop()


def test_help_of_twistd_has_the_same_groups(tmp_path: Path) -> None:
    done = run([*TWISTD, *FOREGROUND, "rtmprelay", "--help"], tmp_path)
    assert "\nrecord:\n" in done.stdout
    assert "twistd -n rtmprelay" in done.stdout or "twistd rtmprelay --relay-to" in done.stdout
