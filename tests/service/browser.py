"""A real browser, driven by the W3C WebDriver protocol: the tests need only a dozen commands."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

_T = TypeVar("_T")

#: Seconds that a page may take for anything.
DEADLINE = 40.0

CHROMIUM = shutil.which("chromium")
DRIVER = shutil.which("chromedriver")

#: The programs that are missing, if any.
MISSING = ", ".join(
    name for name, found in (("chromium", CHROMIUM), ("chromedriver (chromium-driver)", DRIVER)) if not found
)

_ARGUMENTS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --autoplay-policy=no-user-gesture-required"
)

#: The name under which WebDriver hides the id of an element.
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


class BrowserError(Exception):
    """The browser could not carry out a command."""


class Browser:
    """A headless chromium with its own profile, in its own process."""

    def __init__(self, folder: Path, width: int = 1280, height: int = 900, scale: float = 1.0) -> None:
        self._log = folder / "chromedriver.log"
        self._process = self._start_driver()
        self._base = ""
        try:
            self._base = f"http://127.0.0.1:{self._port()}"
            self._start(folder / "profile", width, height, scale)
        except BaseException:
            self.quit()
            raise

    def _start_driver(self) -> subprocess.Popen[bytes]:
        assert DRIVER is not None
        with self._log.open("wb") as out:
            return subprocess.Popen([DRIVER, "--port=0"], stdout=out, stderr=subprocess.STDOUT)

    def _port(self) -> int:
        def found() -> re.Match[str] | None:
            if self._process.poll() is not None:
                # It takes a free port of IPv6, and exits if the same port of IPv4 is taken.
                assert "port not available" in self._log.read_text(), self._log.read_text()
                self._process = self._start_driver()
            return re.search(r"started successfully on port (\d+)", self._log.read_text())

        return int(until(found, "the start of chromedriver")[1])

    def _start(self, profile: Path, width: int, height: int, scale: float) -> None:
        arguments = [
            *_ARGUMENTS.split(),
            f"--user-data-dir={profile}",
            f"--window-size={width},{height}",
            f"--force-device-scale-factor={scale}",
        ]
        options = {"binary": CHROMIUM, "args": arguments}
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL"},
            "timeouts": {"script": int(DEADLINE * 1000)},
        }
        answer = self._call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._base += f"/session/{answer['sessionId']}"

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self._base + path, data, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=180) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            with error:
                raise BrowserError(json.load(error)["value"]["message"].partition("\n")[0]) from None

    def quit(self) -> None:
        """Close the window and end the driver, which ends the browser."""
        try:
            if "/session/" in self._base:
                self._call("DELETE", "")
        except (OSError, BrowserError):
            pass
        finally:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def open(self, url: str) -> None:
        """Go to a page, and wait until it is loaded."""
        self._call("POST", "/url", {"url": url})

    def run(self, script: str, *arguments: Any) -> Any:
        """Run the body of a function in the page, and wait if it returns a promise."""
        return self._call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def devtools(self, command: str, **parameters: Any) -> Any:
        """Send a command of the Chrome DevTools protocol."""
        return self._call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def find(self, selector: str) -> str:
        """The id of the first element that matches a CSS selector."""
        found = self._call("POST", "/element", {"using": "css selector", "value": selector})
        return str(found[_ELEMENT])

    def click(self, selector: str) -> None:
        """Click on an element, which must be visible and not covered."""
        element = self.find(selector)
        # The driver would scroll it below the bar at the top.
        self.run("arguments[0].scrollIntoView({ block: 'center' })", {_ELEMENT: element})
        self._call("POST", f"/element/{element}/click", {})

    def type(self, selector: str, text: str) -> None:
        """Type into a field."""
        self._call("POST", f"/element/{self.find(selector)}/value", {"text": text})

    def text(self, selector: str) -> str:
        """The visible text of an element."""
        return str(self._call("GET", f"/element/{self.find(selector)}/text"))

    def count(self, selector: str) -> int:
        """How many elements match a CSS selector."""
        return int(self.run("return document.querySelectorAll(arguments[0]).length", selector))

    def resize(self, width: int, height: int) -> None:
        """Set the size of the page, for example that of a phone."""
        self.devtools(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2,
            mobile=False,
        )

    def emulate_media(self, features: dict[str, str]) -> None:
        """Set what the system prefers, such as dark colours."""
        wanted = [{"name": name, "value": value} for name, value in features.items()]
        self.devtools("Emulation.setEmulatedMedia", features=wanted)

    def screenshot(self, path: Path) -> None:
        """Save a screenshot."""
        path.write_bytes(base64.b64decode(self._call("GET", "/screenshot")))

    def complaints(self) -> list[str]:
        """The errors and warnings of the console since the last call, including violations of the content policy."""
        entries = self._call("POST", "/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] in ("WARNING", "SEVERE")]


def until(condition: Callable[[], _T | None], what: str, within: float = DEADLINE) -> _T:
    """Wait until a condition is true, and return its value."""
    deadline = time.monotonic() + within
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"{what} did not come true within {within} s"
        time.sleep(0.05)
    return answer
