"""The Grafana dashboard of the documents."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.web.helpers import Web, destination

BOARD = Path(__file__).parents[2] / "docs" / "grafana" / "rtmprelay.json"

#: Words of PromQL and of Grafana's variables.
FUNCTIONS = {
    "by",
    "histogram_quantile",
    "increase",
    "label_values",
    "max",
    "min",
    "or",
    "rate",
    "sum",
    "vector",
}

#: The label that Prometheus adds to everything.
INSTANCE = "instance"


def metrics() -> dict[str, set[str]]:
    """Every metric of a relay by the name that queries use, with its labels; without labels if it has no sample here."""
    web = Web(destinations=[destination("far", enabled=False)])
    web.publish()
    web.advance(2)
    text = web.get("/metrics").body.decode()
    web.stop()
    found: dict[str, set[str]] = {}
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE):
        for ending in ("_bucket", "_sum", "_count") if kind == "histogram" else ("",):
            found[name + ending] = set()
    for name, labels in re.findall(r"^(\w+)(\{.*\})? ", text, re.MULTILINE):
        found[name] |= {INSTANCE} | set(re.findall(r"(\w+)=\"", labels))
    return found


def queries() -> list[tuple[str, str, str]]:
    """Title, query and legend of every panel and variable."""
    board = json.loads(BOARD.read_text(encoding="utf-8"))
    shown = [
        (panel["title"], target["expr"], target["legendFormat"])
        for panel in board["panels"]
        for target in panel.get("targets", ())
    ]
    chosen = [
        (variable["name"], variable["query"]["query"], "")
        for variable in board["templating"]["list"]
        if isinstance(variable["query"], dict)
    ]
    return shown + chosen


def test_grafana_dashboard_uses_metrics_and_labels_that_exist() -> None:
    known = metrics()
    used = set()
    for title, query, legend in queries():
        bare = re.sub(r"\"[^\"]*\"|\[[^]]*\]|\$\w+", "", query)
        # Labels are in braces, after `by`, and the second argument of label_values.
        labels = set(re.findall(r"(\w+)=~?", bare)) | set(re.findall(r"\{\{(\w+)\}\}", legend))
        for group in re.findall(r"\bby \(([^)]*)\)", bare) + re.findall(r", (\w+)\)$", bare):
            labels |= set(re.findall(r"\w+", group))
        names = set(re.findall(r"[a-z_]\w*", bare)) - FUNCTIONS - labels
        assert names, title
        assert names <= known.keys(), f"{title}: {names - known.keys()}"
        used |= names
        if all(known[name] for name in names):
            assert labels <= set.union(*(known[name] for name in names)) | {INSTANCE}, f"{title}: {labels}"
    assert len(used) >= 25


def test_grafana_dashboard_has_unique_panels_that_do_not_overlap() -> None:
    board: dict[str, Any] = json.loads(BOARD.read_text(encoding="utf-8"))
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
        assert all(target["datasource"]["uid"] == "${datasource}" for target in panel.get("targets", ()))
