"""What the package says of itself. That it can be built and is read by package indexes is for .ci/run to try."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from rtmprelay import __version__
from tests.docs.pages import DOCS, ROOT
from tests.docs.parsers import setup_cfg


def test_the_version_is_in_one_place() -> None:
    assert setup_cfg()["metadata"]["version"] == "attr: rtmprelay.__version__"
    named = [
        path
        for path in [
            *ROOT.glob("*.toml"),
            *ROOT.glob("*.cfg"),
            *ROOT.glob("rtmprelay/**/*.py"),
            DOCS / "conf.py",
        ]
        if re.search(rf"\b{re.escape(__version__)}\b", path.read_text())
    ]
    assert named == [ROOT / "rtmprelay" / "__init__.py"]


def test_the_metadata_is_complete() -> None:
    metadata = setup_cfg()["metadata"]
    assert metadata["license_expression"] == "MIT"
    assert metadata["long_description"] == "file: README.md"
    classifiers = metadata["classifiers"].split("\n")
    assert {"Framework :: Twisted", "Typing :: Typed"} <= set(classifiers)
    # The oldest one that is named is the one that is asked for.
    oldest = min(re.findall(r"Python :: 3\.(\d+)", metadata["classifiers"]), key=int)
    assert setup_cfg()["options"]["python_requires"] == f">=3.{oldest}"


def test_types_are_marked() -> None:
    """Who imports the package gets its types."""
    data = setup_cfg()["options.package_data"]
    for package in ("rtmprelay", "spark_analytics"):
        assert (ROOT / package / "py.typed").exists()
        assert "py.typed" in data[package]


def test_each_dependency_has_its_reason() -> None:
    """In the page about how it is built."""
    page = (DOCS / "relay-architecture.rst").read_text().partition("Dependencies\n")[2].lower()
    config = setup_cfg()
    wanted = [config["options"]["install_requires"], *config["options.extras_require"].values()]
    for name in re.findall(r"^([\w-]+)", "\n".join(wanted), re.MULTILINE):
        assert f"``{name.lower()}" in page, name


def test_the_next_list_of_changes() -> None:
    """towncrier makes it, of one note for each change; every note is of a kind that it knows."""
    pytest.importorskip("towncrier", reason="towncrier is not installed: pip install '.[docs]'")
    draft = [sys.executable, "-m", "towncrier", "build", "--draft", "--version", __version__]
    made = subprocess.run(draft, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert made.returncode == 0, made.stderr
    notes = [path for path in (DOCS / "newsfragments").iterdir() if not path.name.startswith(".")]
    assert made.stdout.count("\n- ") == len(notes)
