"""The layers of the project: who may import whom, read from the sources themselves."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

#: Each layer, with the layers it may use besides itself. A layer is a package or a module of `rtmprelay`, or
#: a package beside it. Only what is written here is allowed, so a new layer needs a line, and so does a new use.
VALUES = {"errors", "secret", "media", "quantities", "memory", "allowance", "addresses", "machine"}
SANS_IO: dict[str, set[str]] = {
    "": set(),
    "errors": set(),
    "secret": set(),
    "media": set(),
    "quantities": {"errors"},
    "memory": set(),
    "machine": {"errors"},
    "allowance": set(),
    "addresses": {"errors"},
    "amf": {"errors"},
    "flv": VALUES | {"amf"},
    "wire": VALUES | {"amf"},
    "session": VALUES | {"", "amf", "wire"},
    "mp4": VALUES | {"amf", "flv"},
    "hls": VALUES | {"amf", "flv", "mp4"},
    "demo.test_card": VALUES | {"", "amf", "flv"},
    "files.disk": {"errors"},
}
BELOW_TWISTED = set(SANS_IO)
EVENTS = {"interfaces", "events", "event_bus"}
#: What every part of the server may use.
SHARED = {"clock", "throttle", "files"}
ON_TWISTED: dict[str, set[str]] = {
    "clock": set(),
    "drain": set(),
    "throttle": set(),
    "files": {"errors", "secret", "quantities", "files.disk"},
    "interfaces": BELOW_TWISTED,
    "events": BELOW_TWISTED,
    "event_bus": BELOW_TWISTED | EVENTS,
    "logs": {"errors", "secret"},
    "plugin_factories": {"errors", "interfaces"},
    "streams": (BELOW_TWISTED - {"session"}) | EVENTS,
    "access": {"errors", "secret", "addresses", "quantities"} | EVENTS,
    "rtmp": BELOW_TWISTED | EVENTS | SHARED | {"streams", "access"},
    # What failures mean and how long to wait after them: pulls have the same rules.
    "destinations.failures": {"errors", "streams"},
    "client": BELOW_TWISTED | {"rtmp"},
    "testing": BELOW_TWISTED | EVENTS | {"streams", "rtmp", "access"},
    "http_client": BELOW_TWISTED | SHARED | {"plugin_factories"},
    "access.authorizers": BELOW_TWISTED | EVENTS | SHARED | {"access", "http_client", "plugin_factories"},
    "outputs.base": BELOW_TWISTED | EVENTS | {"streams"},
    "web.settings": {"errors", "secret", "files", "addresses"},
    "web.server": {
        "quantities",
        "",
        "errors",
        "secret",
        "addresses",
        "machine",
        "events",
        "access",
        "rtmp",
        "web.settings",
    },
    "outputs": BELOW_TWISTED | EVENTS | SHARED | {"streams", "rtmp", "access", "outputs.base", "web.server"},
}
#: Siblings: each sees what is above, and not the others.
SIBLINGS = {"destinations", "pulls", "recording", "event_log", "hooks"}
ABOVE_SIBLINGS = (
    BELOW_TWISTED
    | EVENTS
    | SHARED
    | {"streams", "rtmp", "access", "plugin_factories", "http_client", "outputs.base"}
    | {"destinations.failures"}
)
#: Joins the nodes: it fetches streams as pulls do.
CLUSTER = {"cluster": ABOVE_SIBLINGS | {"", "pulls"}}
#: The parts of `web` above its server, and `web` itself, which joins them.
WEB: dict[str, set[str]] = {
    "web.api": {
        "",
        "access",
        "errors",
        "machine",
        "media",
        "amf",
        "flv",
        "events",
        "event_bus",
        "streams",
        "web.server",
    },
    "web.events": {"", "interfaces", "events", "web.settings", "web.server", "web.api"},
    "web.metrics": {"", "interfaces", "events", "streams", "web.server", "web.api"},
    "web.page": {"web.server"},
    "web.media_gate": {"access", "secret", "wire", "web.server"} | EVENTS,
    "web.recordings": {"errors", "media", "flv", "mp4", "hls", "web.server", "web.media_gate"},
    "web": EVENTS
    | {"errors", "media", "secret", "quantities", "wire", "mp4", "hls", "streams", "access", "outputs"}
    | {"web.settings", "web.server"}
    | {"web.api", "web.events", "web.metrics", "web.page", "web.recordings", "web.media_gate"},
}
#: Where everything meets.
JOINING: dict[str, set[str]] = {
    "listener": {"errors", "rtmp"},
    "node": ABOVE_SIBLINGS | SIBLINGS | {"cluster", "drain", "outputs", "config"},
    "config": ABOVE_SIBLINGS | SIBLINGS | {"cluster", "drain", "logs", "outputs", "web.settings"},
    "control": ABOVE_SIBLINGS | SIBLINGS | {"cluster", "web.api"},
    "service": ABOVE_SIBLINGS
    | SIBLINGS
    | {"cluster", "drain", "listener", "node", "wiring", "config", "logs", "control", "outputs", "web"}
    | {"stream_summaries"},
    "banner": {"config"},
    "before_start": {"errors", "config"},
    "stream_summaries": {"destinations", "events", "streams"},
    "wiring": ABOVE_SIBLINGS | SIBLINGS | {"config", "control", "outputs"},
    "tap": {
        "errors",
        "secret",
        "interfaces",
        "rtmp",
        "destinations",
        "pulls",
        "cluster",
        "logs",
        "config",
        "banner",
        "before_start",
        "service",
    },
    "screen": set(),
    "demo": ABOVE_SIBLINGS
    | SIBLINGS
    | {"demo.test_card", "client", "config", "screen", "service", "web.settings"},
    # It loads servers from outside, as processes of their own.
    "bench": BELOW_TWISTED | {"interfaces", "streams", "rtmp"},
    "cli": {"", "quantities", "flv", "config", "screen", "tap", "demo", "web.settings"},
    "__main__": {"cli"},
}
LAYERS = {
    **SANS_IO,
    **ON_TWISTED,
    **dict.fromkeys(SIBLINGS, ABOVE_SIBLINGS),
    **CLUSTER,
    **WEB,
    **JOINING,
    # Spark's workers import it, where there is no Twisted.
    "spark_analytics": {"", "errors", "quantities", "media", "amf", "flv", "files.disk"},
}
WITHOUT_TWISTED = {*SANS_IO, "spark_analytics"}
WITHOUT_TWISTED_MODULES = [
    "rtmprelay",
    "rtmprelay.amf.amf0",
    "rtmprelay.flv.tags",
    "rtmprelay.flv.container",
    "rtmprelay.flv.script",
    "rtmprelay.wire.chunks",
    "rtmprelay.wire.commands",
    "rtmprelay.session.server",
    "rtmprelay.session.client",
    "rtmprelay.hls.playlist",
    "rtmprelay.files.disk",
]


def layer_of(module: str) -> str | None:
    """The layer that a dotted module name belongs to; None if it is not ours."""
    package, _, rest = module.partition(".")
    if package == "spark_analytics":
        return package
    if package != "rtmprelay":
        return None
    parts = rest.split(".")
    two = ".".join(parts[:2])
    return two if two in LAYERS else parts[0]


def source_files() -> list[Path]:
    packages = [ROOT / "rtmprelay", ROOT / "spark_analytics"]
    return sorted(path for package in packages for path in package.rglob("*.py"))


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_type_checking(node: ast.If) -> bool:
    return any(isinstance(part, ast.Name) and part.id == "TYPE_CHECKING" for part in ast.walk(node.test))


def imported_by(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        # `from rtmprelay import amf0` names a module, and `from rtmprelay.amf.amf0 import encode` does not; the
        # layer is the same for both forms.
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


def run_time_imports(tree: ast.AST) -> Iterator[str]:
    """Every module that is imported somewhere in the source, unless for its types only."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.If) and is_type_checking(child):
            for otherwise in child.orelse:
                yield from run_time_imports(ast.Module([otherwise], []))
            continue
        yield from imported_by(child)
        yield from run_time_imports(child)


def module_level_imports(tree: ast.AST) -> Iterator[str]:
    """What is imported as soon as the module is, conditions and `try` included."""
    for child in ast.iter_child_nodes(tree):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from imported_by(child)
            yield from module_level_imports(child)


def imported_layer(name: str) -> str | None:
    """The layer of an imported name; the version in `rtmprelay` itself belongs to no module below it."""
    layer = layer_of(name)
    return layer if layer in LAYERS or layer is None else ("" if name.startswith("rtmprelay.__") else layer)


def breaches(module: str, source: str) -> list[str]:
    """The imports of a module that its layer does not allow."""
    layer = layer_of(module)
    assert layer is not None
    assert layer in LAYERS, f"{module} is a new layer: say in this table what it may import"
    found = []
    for name in run_time_imports(ast.parse(source)):
        used = imported_layer(name)
        if used is not None and used != layer and used not in LAYERS[layer]:
            found.append(name)
        if name.split(".")[0] == "twisted" and layer in WITHOUT_TWISTED:
            found.append(name)
    return found


@pytest.mark.parametrize("path", source_files(), ids=module_name)
def test_a_module_imports_only_what_its_layer_may(path: Path) -> None:
    assert breaches(module_name(path), path.read_text()) == []


@pytest.mark.parametrize("path", source_files(), ids=module_name)
def test_no_module_chooses_the_reactor_when_it_is_imported(path: Path) -> None:
    names = set(module_level_imports(ast.parse(path.read_text())))
    assert not {name for name in names if name.startswith("twisted.internet.reactor")}


def test_the_sources_are_found() -> None:
    assert {"rtmprelay", "rtmprelay.wire.chunks", "rtmprelay.tap"} <= set(map(module_name, source_files()))


def test_the_table_has_no_circles() -> None:
    settled: set[str] = set()
    while ready := {layer for layer in LAYERS.keys() - settled if LAYERS[layer] - {layer} <= settled}:
        settled |= ready
    assert settled == LAYERS.keys()


PLANTED = [
    ("rtmprelay.wire.chunks", "from rtmprelay.flv.tags import describe_video"),
    ("rtmprelay.wire.chunks", "from rtmprelay import flv"),
    ("rtmprelay.flv.tags", "import rtmprelay.wire.chunks"),
    ("rtmprelay.session.channel", "from twisted.logger import Logger"),
    ("rtmprelay.session.channel", "def f():\n    import twisted.internet"),
    ("rtmprelay.streams.registry", "from rtmprelay.session.reports import MediaReceived"),
    ("rtmprelay.web.metrics.collector", "from rtmprelay.destinations.status import DestinationStatus"),
    ("rtmprelay.web.api.status", "from rtmprelay.web.events.recent import RecentEvents"),
    ("rtmprelay.web.server.site", "from rtmprelay.web.api.routes import Routes"),
    ("rtmprelay.web.metrics.collector", "from rtmprelay.web.events.stream import EventStream"),
    ("rtmprelay.errors", "from rtmprelay.media import MediaFrame"),
    ("spark_analytics.store.schema", "from rtmprelay.service import RelayService"),
    ("rtmprelay.rtmp.server", "from rtmprelay.nowhere import something"),
]


@pytest.mark.parametrize(("module", "source"), PLANTED)
def test_planted_imports_are_found(module: str, source: str) -> None:
    assert breaches(module, source)


@pytest.mark.parametrize(
    "source",
    [
        "from rtmprelay.wire.limits import ConnectionLimits",
        "from rtmprelay import __version__",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from twisted.logger import Logger",
    ],
)
def test_lawful_imports_are_not(source: str) -> None:
    assert breaches("rtmprelay.session.channel", source) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from twisted.internet import reactor", True),
        ("import twisted.internet.reactor", True),
        ("try:\n    from twisted.internet import reactor\nexcept ImportError: pass", True),
        ("class A:\n    from twisted.internet import reactor", True),
        ("def f():\n    from twisted.internet import reactor", False),
    ],
)
def test_module_level_means_when_the_module_is_imported(source: str, found: bool) -> None:
    assert ("twisted.internet.reactor" in set(module_level_imports(ast.parse(source)))) is found


def test_the_part_without_input_and_output_leaves_twisted_out() -> None:
    code = f"import sys, {', '.join(WITHOUT_TWISTED_MODULES)}; print('twisted' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
