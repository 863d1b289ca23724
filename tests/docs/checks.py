"""What is done with each kind of block, in tables. A block that no table knows is an error."""

from __future__ import annotations

import configparser
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import attrs
import jwt
import pytest
import yaml

from rtmprelay.access.authorizers.http_authorizer import request_body
from rtmprelay.access.authorizers.jwt_authorizer import make_jwt_authorizer
from rtmprelay.access.authorizers.keys_rules import parse_keys
from rtmprelay.access.request import AccessRequest, Action, Credentials
from rtmprelay.config.limits import with_limits
from rtmprelay.config.options import Options
from rtmprelay.config.relay import RelayConfig
from rtmprelay.config.settings_file import read_settings_file
from rtmprelay.destinations.config_file import parse_relay_config
from rtmprelay.events import event_types
from rtmprelay.events.lines import COMMON_FIELDS
from rtmprelay.pulls.config_file import parse_pulls
from rtmprelay.secret import Secret
from tests.access.helpers import access_request
from tests.docs import parsers
from tests.docs.pages import DOCS, ROOT, Block, Command, commands_in, shell_lines

#: Programs, and who reads their words. "run" means that a test of this folder runs the command for real.
PROGRAMS: dict[str, parsers.Reader] = {
    "rtmprelay": parsers.read_rtmprelay,
    "twistd": parsers.read_twistd,
    "python": parsers.read_python,
    "python3": parsers.read_python,
    "pip": parsers.read_pip,
    "docker": parsers.read_docker,
    "spark-submit": parsers.read_spark_submit,
    "systemctl": parsers.read_systemctl,
    "cp": parsers.read_copy,
    "install": parsers.read_copy,
    "apt-get": parsers.read_apt,
    "pipx": parsers.read_pip,
    "uv": lambda words: parsers.read_pip(words[1:]),
    # Run by test_server_commands.py.
    **dict.fromkeys(("printf", "cat"), parsers.fine),
    **dict.fromkeys((".ci/run", ".ci/lock", ".ci/audit", ".ci/build"), parsers.read_script),
    **dict.fromkeys(parsers.DEVELOPER_TOOLS, parsers.read_developer_tool),
    # Run by test_media_commands.py, or in the tutorials by test_tutorials.py.
    "ffmpeg": parsers.fine,
    "ffplay": parsers.fine,
    "curl": parsers.fine,
    # Of the system, with nothing of ours in them.
    **dict.fromkeys(
        (".", "ls", "mkdir", "export", "openssl", "chmod", "logger", "useradd", "journalctl"), parsers.fine
    ),
}

#: Files that pages include, and the test that runs them, or reads them with the program that they are for.
INCLUDED_FILES = {
    "embed.py": "tests/service/test_embedding.py",
    "test_in_memory.py": "tests/service/test_documents.py",
    "door.py": "tests/service/test_auth_documents.py",
    "door_plugin.py": "tests/service/test_auth_documents.py",
    "rtmprelay.service": "tests/service/test_deployment.py",
    "rtmprelay.socket": "tests/service/test_deployment.py",
    "statsd_plugin.py": "tests/docs/test_examples.py",
    "statsd_sink.py": "tests/docs/test_examples.py",
    "haproxy.cfg": "tests/docs/test_examples.py",
    "haproxy-nodes.cfg": "tests/cluster/test_howto.py",
    "rtmprelay@.service": "tests/service/test_deployment.py",
    "rtmprelay@.socket": "tests/service/test_deployment.py",
    "nginx-http.conf": "tests/docs/test_examples.py",
    "hls-nginx.conf": "tests/service/test_cdn.py",
    "hls-varnish.vcl": "tests/service/test_cdn.py",
    "hls-haproxy.cfg": "tests/service/test_cdn.py",
    "prometheus.yml": "tests/docs/test_examples.py",
    "rtmprelay-alerts.yml": "tests/docs/test_examples.py",
    "Dockerfile": "tests/docs/test_examples.py",
}

#: Programs in the pages themselves, and the test that runs all of that language on that page.
RUN_ELSEWHERE = {
    ("README.md", "python"): "tests/docs/test_readme.py",
    ("docs/catalogue.rst", "python"): "tests/docs/test_spark_pages.py",
    ("docs/catalogue.rst", "sql"): "tests/spark/test_documented_sql.py",
    ("docs/tutorials/ask_in_a_notebook.rst", "python"): "tests/docs/test_notebook.py",
    ("docs/tutorials/ask_in_a_notebook.rst", "text"): "tests/docs/test_notebook.py",
    ("docs/tutorials/first_stream.rst", "output"): "tests/docs/test_tutorials.py",
    ("docs/tutorials/relay_to_a_platform.rst", "output"): "tests/docs/test_tutorials.py",
    ("docs/tutorials/watch_in_a_browser.rst", "output"): "tests/docs/test_tutorials.py",
    ("docs/howto/nodes.rst", "sh"): "tests/cluster/test_howto.py",
    ("docs/howto/plugins.rst", "sh"): "tests/docs/test_examples.py",
    ("docs/audience.rst", "sql"): "tests/spark/test_documented_sql.py",
}

#: Blocks that are no commands, by page and how they begin.
NO_COMMANDS = {
    ("docs/explanation/cluster.rst", "viewers "): "tests/cluster/test_model.py",
    ("docs/reference/command_line.rst", "rtmprelay serve [options]"): "a sketch",
    ("docs/howto/settings_file.rst", "rtmprelay: relay.toml, line 3"): "tests/config/test_settings_file.py",
}

#: Words that stand for something else: a command with one of them is a sketch, of which options are checked.
SKETCHED = re.compile(
    r"(?:^|\s)\[|\.\.\.|…|\b(APP/NAME|TIME|DIR|FILE|FILE\.json|RECORDINGS|CATALOGUE|SECONDS|OPTIONS|INGEST|KIND)\b"
)


def check(block: Block, folder: Path) -> None:
    """Fail if a block does not work, or if there is no check for its kind.

    Args:
        folder: A place with the files that the pages speak of; tests work in it.
    """
    if block.file is not None:
        _check_included(block.file)
    elif (block.page, block.language) in RUN_ELSEWHERE:
        _names(RUN_ELSEWHERE[block.page, block.language], Path(block.page).stem)
    else:
        reader = LANGUAGES.get(block.language)
        assert reader is not None, f"{block}: nobody checks {block.language!r}"
        reader(block, folder)


def _check_included(file: Path) -> None:
    assert file.parent == DOCS / "examples", f"{file} is no example"
    assert file.name in INCLUDED_FILES, f"no test runs {file.name}"
    _names(INCLUDED_FILES[file.name], file.name)


def _names(test: str, what: str) -> None:
    assert what in (ROOT / test).read_text(), f"{test} has nothing to do with {what}"


# -- commands ------------------------------------------------------------------------------------------------


def check_shell(block: Block, folder: Path) -> None:
    """Each command is read by the program that it is for."""
    if block.text.startswith("#!"):
        _check_hook_program(block)
        return
    _check_plain_shell(block)
    for command in commands_in(block.text):
        check_command(command, folder)


def _check_plain_shell(block: Block) -> None:
    """Any shell understands it: no words of bash alone."""
    done = subprocess.run(["sh", "-n"], input=block.text, capture_output=True, text=True, check=False)
    unquoted = re.sub(r"'[^']*'|\"[^\"]*\"", "", block.text)
    assert done.returncode == 0, f"{block}: {done.stderr}"
    assert not re.search(r"(?<!\$)\{[^}\s]*,|<\(|\[\[|\$'", unquoted), f"{block}: only bash understands this"


def check_command(command: Command, folder: Path) -> None:
    """One command."""
    program = command.program
    assert program in PROGRAMS, f"nobody checks {program!r}: {command.line}"
    words = [moved(word, folder) for word in command.words]
    words[0] = program
    if SKETCHED.search(command.line) and program != "spark-submit":
        parsers.check_option_names(words)
    else:
        PROGRAMS[program](words)


def moved(word: str, folder: Path) -> str:
    """A word of a command, with the files of an administrator in a folder."""
    for place, here in parsers.file_names(folder).items():
        word = re.sub(rf"(^|[:=]){re.escape(place)}", rf"\1{here}", word)
    return word


def _check_hook_program(block: Block) -> None:
    """A program for `--hook exec:`; what it takes from its environment are fields of events."""
    fields = {"EVENT", "TIME"} | {
        field.name.upper() for kind in event_types() for field in attrs.fields(kind)
    }
    used = set(re.findall(r"\$\{?RTMPRELAY_([A-Z_]+)", block.text))
    assert used
    assert used <= fields


def check_text(block: Block, folder: Path) -> None:
    """A block of text: options, queries to Prometheus, files of logrotate, or what the table names."""
    first = block.text.split()[0] if block.text.split() else ""
    if any(block.page == page and block.text.startswith(begin) for page, begin in NO_COMMANDS):
        return
    if first.startswith("--"):
        for line in shell_lines(block.text):
            options = [word for command in commands_in(line) for word in command.words]
            parsers.read_options([moved(word, folder) for word in options])
    elif block.text.rstrip().endswith("}") and first.startswith("/"):
        check_logrotate(block.text)
    elif first.startswith(("rtmprelay_", "increase(")):
        for line in block.text.splitlines():
            check_promql(line)
    else:
        check_shell(block, folder)


def check_logrotate(text: str) -> None:
    """Structural, as there may be no logrotate: one file, known words, and nothing left open."""
    known = {"daily", "rotate", "missingok", "notifempty", "nocreate", "compress", "delaycompress"}
    head, _, body = text.partition("{")
    assert head.strip().startswith("/")
    before, _, script = body.rpartition("}")[0].partition("postrotate")
    assert {line.split()[0] for line in before.splitlines() if line.strip()} <= known
    assert not script or script.strip().endswith("endscript")


#: The metrics that the page about HTTP lists; tests/web/test_metrics.py compares that with the server.
_METRICS = set(re.findall(r"^(rtmprelay_\w+) ", (DOCS / "http.rst").read_text(), re.MULTILINE))


def check_promql(expression: str) -> None:
    """Structural, as there may be no promtool: the metrics exist, and brackets are closed."""
    for metric in re.findall(r"\brtmprelay_\w+", expression):
        assert metric.removesuffix("_bucket") in _METRICS, metric
    for opened, closed in ("()", "[]", "{}"):
        assert expression.count(opened) == expression.count(closed)


# -- files ---------------------------------------------------------------------------------------------------


def check_nginx(block: Block, folder: Path) -> None:
    """Lines for the `http` block of nginx: nginx reads them, where it is installed."""
    nginx = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if nginx is None:
        assert all(line.endswith(";") for line in block.text.splitlines() if line.strip())
        return
    text = block.text.replace("/var/log/nginx", str(folder))
    settings = folder / "nginx.conf"
    settings.write_text(f"pid {folder}/nginx.pid; error_log stderr;\nevents {{}}\nhttp {{\n{text}\n}}\n")
    done = subprocess.run(
        [nginx, "-t", "-c", str(settings)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


def check_toml(block: Block, folder: Path) -> None:
    """A settings file: its names are options, its limits and destinations can be used."""
    settings = folder / "relay.toml"
    settings.write_text(block.text)
    with pytest.MonkeyPatch.context() as patch:
        for variable in variables(block.text):
            patch.setenv(variable, "a-key")
        read = read_settings_file(settings, Options().known_options())
    assert read.settings
    limits = [one.value for one in read.settings if one.option == "limit" and one.value is not None]
    with_limits(RelayConfig(), limits)


def check_json(block: Block, folder: Path) -> None:
    """A relay configuration, keys, an event, a question to an authorizer, or a token: each by the code that it is for."""
    document = json.loads(block.text)
    if "pulls" in document:
        assert parse_pulls(block.text, dict.fromkeys(variables(block.text), "a-key"), folder)
    elif "destinations" in document:
        text = block.text.replace('"/etc/', f'"{folder}/etc/')
        assert parse_relay_config(text, dict.fromkeys(variables(text), "a-key"), folder)
    elif "streams" in document:
        parse_keys(block.text).rule(Action.PUBLISH, "live/film")
    elif "event" in document:
        check_event(document)
    elif "exp" in document:
        check_token(document, folder)
    else:
        check_question(document)


def variables(text: str) -> set[str]:
    """What a configuration takes from the environment."""
    return set(re.findall(r"\$\{(\w+)\}", text))


def check_event(document: dict[str, object]) -> None:
    """There is such an event, and these are its fields."""
    kinds = {kind.name: kind for kind in event_types()}
    fields = {field.name for field in attrs.fields(kinds[str(document["event"])])} | set(COMMON_FIELDS)
    assert set(document) <= fields


def check_question(document: dict[str, Any]) -> None:
    """This is what an authorizer over HTTP is asked about such a request, field by field."""
    query = urlencode(document["parameters"])
    asked = AccessRequest(
        action=Action(document["action"]),
        credentials=Credentials(Secret(query), document["user"]),
        **{name: document[name] for name in ("stream", "host", "connection", "protocol")},
    )
    assert list(json.loads(request_body(asked)).items()) == list(document.items())


def check_token(claims: dict[str, Any], folder: Path) -> None:
    """A bearer of such a token, if it is signed and not too old, may do what it says."""
    key = "0123456789abcdef" * 4
    (folder / "token.key").write_text(key)
    token = jwt.encode({**claims, "exp": time.time() + 60}, key)
    authorizer = make_jwt_authorizer(str(folder / "token.key"))
    stream = claims["stream"].replace("*", "film")
    assert authorizer.authorize(access_request(stream=stream, query=f"token={token}")).allowed


def check_yaml(block: Block, folder: Path) -> None:
    """Structural: what Prometheus is to scrape is there."""
    document = yaml.safe_load(block.text)
    (job,) = document["scrape_configs"]
    assert job["static_configs"][0]["targets"] == ["127.0.0.1:8080"]


def check_ini(block: Block, folder: Path) -> None:
    """A part of a setup.cfg that finds packages."""
    config = configparser.ConfigParser()
    config.read_string(block.text)
    assert config["options"]["packages"] == setup_packages()


def setup_packages() -> str:
    """The packages in this project's own setup.cfg."""
    return parsers.setup_cfg()["options"]["packages"]


def check_html(block: Block, folder: Path) -> None:
    """It can be read, and asks for what the server has."""
    parser = HTMLParser()
    parser.feed(block.text)
    parser.close()
    assert re.search(r"http://127\.0\.0\.1:8080/live/\w+\.(mp4|flv)", block.text)


def check_python(block: Block, folder: Path) -> None:
    """A program in a page is (a part of) an example, which tests run."""
    compile(block.text, str(block), "exec")
    examples = {path.name: path.read_text() for path in (DOCS / "examples").glob("*.py")}
    sources = [name for name, text in examples.items() if block.text.strip() in text]
    assert sources, f"{block}: no example has this program in it"
    for name in sources:
        _check_included(DOCS / "examples" / name)


def check_diagram(block: Block, folder: Path) -> None:
    """A picture in words; nobody types it."""
    assert block.text.strip()


LANGUAGES: dict[str, Callable[[Block, Path], None]] = {
    "sh": check_shell,
    "text": check_text,
    "": check_text,
    "json": check_json,
    "nginx": check_nginx,
    "toml": check_toml,
    "yaml": check_yaml,
    "ini": check_ini,
    "html": check_html,
    "python": check_python,
    "mermaid": check_diagram,
}
