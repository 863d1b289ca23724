"""The files of docs/examples that pages include: run, or read by the program that they are for."""

from __future__ import annotations

import json
import re
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs.checks import check_promql
from tests.docs.pages import DOCS, ROOT, blocks, commands_in
from tests.docs.parsers import EXAMPLES, setup_cfg
from tests.helpers import DEADLINE, wait_for
from tests.service.command import TWISTD, BlockingClient, Server, run


def text_of(name: str) -> str:
    """An example."""
    return (EXAMPLES / name).read_text()


def commands_on(page: str) -> list[tuple[str, ...]]:
    """What is typed on a page, word by word."""
    return [
        command.words
        for block in blocks()
        if block.page == page and block.language == "sh"
        for command in commands_in(block.text)
    ]


# -- statsd_plugin.py, statsd_sink.py --------------------------------------------------------------------------


def test_statsd_plugin_is_listed_and_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both files in their places are all that it takes: with the commands of howto/plugins.rst it is listed, and counts."""
    (tmp_path / "rtmprelay_plugins").mkdir()
    shutil.copy(EXAMPLES / "statsd_plugin.py", tmp_path / "rtmprelay_plugins")
    shutil.copy(EXAMPLES / "statsd_sink.py", tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    listing, using = commands_on("docs/howto/plugins.rst")
    assert (
        "  statsd:HOST:PORT\n      Counts events in statsd.\n"
        in run([*TWISTD, *listing[1:]], tmp_path).stdout
    )
    assert using[:4] == ("twistd", "-n", "rtmprelay", "--hook")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as statsd:
        statsd.bind(("127.0.0.1", 0))
        statsd.settimeout(DEADLINE)
        here = using[4].replace("8125", str(statsd.getsockname()[1]))
        server = Server(tmp_path, "--hook", here)
        try:
            assert statsd.recv(1000) == b"rtmprelay.server_started:1|c"
        finally:
            assert server.stop()
    wrong = run([*TWISTD, "-n", "rtmprelay", "--hook", "statsd:nowhere"], tmp_path)
    assert "--hook: statsd: write statsd:HOST:PORT" in wrong.stderr


# -- haproxy.cfg -----------------------------------------------------------------------------------------------


def test_haproxy_understands_its_file(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    """By haproxy itself where it is installed; everywhere, that its parts fit together and to the page."""
    text = text_of("haproxy.cfg")
    sections = dict(re.findall(r"^(?:frontend|backend) (\w+)\n((?: +.*\n)+)", text, re.MULTILINE))
    assert set(sections) == {"rtmp", "rtmps", "relay"}
    assert "default_backend relay" in sections["rtmp"]
    assert "default_backend relay" in sections["rtmps"]
    port = re.search(r"127\.0\.0\.1:(\d+) send-proxy-v2", sections["relay"])
    assert port is not None
    listen = f"--listen haproxy:tcp:{port[1]}:interface=127.0.0.1"
    assert listen in text
    assert listen in (DOCS / "howto" / "proxy.rst").read_text()
    if shutil.which("haproxy"):
        pem = tmp_path / "relay.pem"
        pem.write_bytes(b"".join(part.read_bytes() for part in certificate))
        file = tmp_path / "haproxy.cfg"
        file.write_text(text.replace("/etc/haproxy/relay.pem", str(pem)))
        subprocess.run(["haproxy", "-c", "-f", str(file)], check=True, timeout=DEADLINE)


class ProxiedClient(BlockingClient):
    """A client as haproxy passes it on: after a header of the PROXY protocol, version 2."""

    def __init__(self, port: int, host: str) -> None:
        self._host = host
        super().__init__(port)

    def wait(self, *kinds: type[object]) -> None:
        """Say first who the client is."""
        if self._host:
            addresses = (
                socket.inet_aton(self._host) + socket.inet_aton("127.0.0.1") + struct.pack("!HH", 4000, 1935)
            )
            header = (
                b"\r\n\r\n\x00\r\nQUIT\n"
                + bytes([0x21, 0x11])
                + struct.pack("!H", len(addresses))
                + addresses
            )
            self.socket.sendall(header)
            self._host = ""
        super().wait(*kinds)


def test_behind_haproxy_clients_have_their_own_addresses(tmp_path: Path) -> None:
    """With the command of the page, and what `send-proxy-v2` sends."""
    (command,) = commands_on("docs/howto/proxy.rst")
    options = list(command[command.index("rtmprelay") + 1 :])
    options[options.index("--listen") + 1] = "haproxy:tcp:0:interface=127.0.0.1"
    log = tmp_path / "out.log"
    with log.open("w") as out:
        server = subprocess.Popen(
            [
                *TWISTD,
                "-n",
                "--pidfile=",
                "rtmprelay",
                *options,
                "--log-format",
                "json",
                "--log-level",
                "debug",
            ],
            cwd=tmp_path,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_for(lambda: "Listening on" in log.read_text(), "listening")
        port = re.search(r"Listening on \D*127\.0\.0\.1\D+(\d+)", log.read_text())
        assert port is not None, log.read_text()
        ProxiedClient(int(port[1]), "192.0.2.7").socket.close()
        wait_for(lambda: "connection_closed" in log.read_text(), "the end of the connection")
    finally:
        server.terminate()
        server.wait(DEADLINE)
    closed = next(
        line
        for line in map(json.loads, log.read_text().splitlines())
        if line.get("event") == "connection_closed"
    )
    assert "192.0.2.7" in closed["peer"]


# -- nginx-http.conf -------------------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("nginx") is None, reason="there is no nginx here")
def test_nginx_understands_its_file(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    key, signed = certificate
    server = text_of("nginx-http.conf")
    server = server.replace("/etc/nginx/relay.pem", str(signed)).replace("/etc/nginx/relay.key", str(key))
    whole = tmp_path / "nginx.conf"
    whole.write_text(
        f"pid {tmp_path}/pid; error_log stderr;\nevents {{}}\nhttp {{\naccess_log off;\n{server}\n}}\n"
    )
    tested = subprocess.run(
        ["nginx", "-t", "-p", str(tmp_path), "-c", str(whole)],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert "syntax is ok" in tested.stderr, tested.stderr
    assert "[warn]" not in tested.stderr


# -- prometheus.yml, rtmprelay-alerts.yml ----------------------------------------------------------------------


def labels_of_metrics() -> dict[str, set[str]]:
    """The labels of each metric, as the page about HTTP lists them."""
    page = (DOCS / "http.rst").read_text()
    rows = re.findall(r"^(rtmprelay_\w+) +(?:gauge|counter|histogram)(.{26})", page, re.MULTILINE)
    return {name: set(re.findall(r"\w+", labels)) for name, labels in rows}


def test_prometheus_finds_its_rules_and_the_metrics() -> None:
    """By promtool where it is installed; everywhere, that metrics and labels are those of the server."""
    config = yaml.safe_load(text_of("prometheus.yml"))
    assert config["scrape_configs"][0]["job_name"] == "rtmprelay"
    (rules,) = config["rule_files"]
    (group,) = yaml.safe_load(text_of(rules))["groups"]
    for rule in group["rules"]:
        check_promql(rule["expr"])
        for metric in re.findall(r"rtmprelay_\w+", rule["expr"]):
            used = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
            used |= set(re.findall(r"[{,](\w+)=", rule["expr"]))
            assert used - {"instance", "job"} <= labels_of_metrics()[metric], rule["alert"]
    if shutil.which("promtool"):
        for kind, name in (("config", "prometheus.yml"), ("rules", rules)):
            subprocess.run(["promtool", "check", kind, str(EXAMPLES / name)], check=True, timeout=DEADLINE)


# -- Dockerfile ------------------------------------------------------------------------------------------------


@pytest.fixture
def dockerfile() -> dict[str, list[str]]:
    """The instructions of the last stage, by name."""
    joined = text_of("Dockerfile").replace("\\\n", " ").rpartition("\nFROM ")[2]
    found: dict[str, list[str]] = {}
    for line in f"FROM {joined}".splitlines():
        name, _, rest = line.partition(" ")
        found.setdefault(name, []).append(rest)
    return found


@pytest.fixture
def contained(
    tmp_path: Path, dockerfile: dict[str, list[str]]
) -> Iterator[tuple[Path, subprocess.Popen[bytes]]]:
    """The server as the container starts it, on other ports; where it logs."""
    entry = json.loads(dockerfile["ENTRYPOINT"][0]) + json.loads(dockerfile["CMD"][0])
    assert entry[0].endswith("/bin/twistd")
    words = [
        word.replace("0.0.0.0:8080", "127.0.0.1:0").replace("/data", str(tmp_path)) for word in entry[1:]
    ]
    (tmp_path / "keys.json").write_text(
        '{"streams": [{"match": "*", "publish": {"keys": ["k"]}, "play": "anyone"}]}'
    )
    log = tmp_path / "out.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*TWISTD, *words, "--listen", "tcp:0:interface=127.0.0.1"], cwd=tmp_path, stdout=out, stderr=out
        )
    yield log, process
    process.kill()
    process.wait()


def test_container_starts_is_healthy_and_ends_on_docker_stop(
    contained: tuple[Path, subprocess.Popen[bytes]], dockerfile: dict[str, list[str]]
) -> None:
    """The server starts, is healthy, and ends on what `docker stop` sends. Building an image is not tried here."""
    log, process = contained
    listening = re.compile(r"Listening on 127\.0\.0\.1:(\d+) for HTTP")
    wait_for(lambda: listening.search(log.read_text()), "listening")
    found = listening.search(log.read_text())
    assert found is not None
    program, *words = json.loads(dockerfile["HEALTHCHECK"][0].removeprefix("CMD "))
    assert program.endswith("/bin/python")
    health = [sys.executable, *(word.replace(":8080/", f":{found[1]}/") for word in words)]
    subprocess.run(health, check=True, timeout=DEADLINE)
    process.terminate()
    process.wait(DEADLINE)
    assert subprocess.run(health, capture_output=True, timeout=DEADLINE, check=False).returncode != 0


def test_the_image_is_made_of_what_there_is(dockerfile: dict[str, Any]) -> None:
    """A Python that the package supports, all that the package is built of, its two ports, and not root."""
    supported = re.findall(r"Python :: (3\.\d+)", setup_cfg()["metadata"]["classifiers"])
    assert (
        re.findall(r"^FROM python:(3\.\d+)-slim", text_of("Dockerfile"), re.MULTILINE) == [supported[-1]] * 2
    )
    assert dockerfile["EXPOSE"] == ["1935 8080"]
    assert dockerfile["USER"] == ["rtmprelay"]
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", text_of("Dockerfile"), re.MULTILINE)
    names = {name for line in copied for name in line.split()}
    assert all((ROOT / name).exists() for name in names)
    packages = re.findall(r"^\w+", setup_cfg()["options.packages.find"]["include"], re.MULTILINE)
    assert {*packages, "setup.cfg", "pyproject.toml", "README.md", "LICENSE"} <= names
    (cache,) = re.findall(r'bin/python -c "(.*)"', text_of("Dockerfile"))
    subprocess.run([sys.executable, "-c", cache], check=True, timeout=DEADLINE)
