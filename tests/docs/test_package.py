"""What the package says of itself. That it can be built and is read by package indexes is for .ci/run to try."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

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
        # Not a part of an address such as 192.0.2.0.
        if re.search(rf"(?<![\d.]){re.escape(__version__)}(?![\d.])", path.read_text())
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


def test_package_marks_its_types() -> None:
    """Programs that import the package get its types."""
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


@pytest.mark.parametrize(
    "note", sorted((DOCS / "newsfragments").glob("*.rst")), ids=lambda path: str(path.name)
)
def test_note_for_users_is_a_sentence_or_two(note: Path) -> None:
    text = note.read_text().strip()
    assert len(text) <= 400
    assert "\n\n" not in text


# -- dependencies ----------------------------------------------------------------------------------------------


def locked(name: str) -> dict[str, Version]:
    """The exact versions in a lock, by package. Every one must have hashes."""
    text = (ROOT / ".ci" / name).read_text()
    found = {}
    for entry in re.split(r"\n(?=\S)", text.partition("\n")[2]):
        package, _, version = entry.split()[0].partition("==")
        assert "--hash=sha256:" in entry, package
        found[package] = Version(version)
    return found


def requirements(text: str) -> list[Requirement]:
    return [Requirement(line) for line in text.strip().splitlines()]


def test_lock_has_every_requirement_in_an_allowed_version() -> None:
    everything, runtime = locked("locked.txt"), locked("locked-runtime.txt")
    config = setup_cfg()
    needed = requirements(config["options"]["install_requires"])
    extras = [one for text in config["options.extras_require"].values() for one in requirements(text)]
    for requirement in [*needed, *extras]:
        version = everything.get(canonicalize_name(requirement.name))
        assert version is not None, f"run .ci/lock: it has no {requirement}"
        assert version in requirement.specifier, requirement
    assert {canonicalize_name(requirement.name) for requirement in needed} <= set(runtime)
    assert runtime.items() <= everything.items()


def test_lock_names_no_index_and_no_path() -> None:
    """Where packages come from is for each machine to say."""
    for name in ("locked.txt", "locked-runtime.txt"):
        assert not re.search(r"(?m)^\s*-[^-]|--(?!hash)|://| @ ", (ROOT / ".ci" / name).read_text())


#: Forbids this process memory that is both writable and executable, as systemd's option does, and sets a callback.
_CALLBACK_WITHOUT_WRITABLE_CODE = """
import ctypes
if ctypes.CDLL(None).prctl(65, 1, 0, 0, 0):
    raise SystemExit("no prctl")
from OpenSSL import SSL
try:
    SSL.Context(SSL.TLS_METHOD).set_verify(SSL.VERIFY_PEER, lambda *_: True)
except MemoryError:
    print("refused")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="systemd and its option are Linux's")
def test_the_unit_says_why_it_lacks_memory_deny_write_execute() -> None:
    unit = (DOCS / "examples" / "rtmprelay.service").read_text()
    assert "# MemoryDenyWriteExecute=yes works only without TLS" in unit
    done = subprocess.run(
        [sys.executable, "-c", _CALLBACK_WITHOUT_WRITABLE_CODE], capture_output=True, text=True, check=False
    )
    if "no prctl" in done.stderr:
        pytest.skip("this kernel cannot forbid writable code")
    assert done.stdout == "refused\n", "OpenSSL's callbacks work without it now: switch the option on"
