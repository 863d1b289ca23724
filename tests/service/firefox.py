"""A real Firefox, driven over Marionette: the protocol that it speaks itself, so that no driver is needed."""

from __future__ import annotations

import base64
import json
import shutil
import socket
import subprocess
from itertools import count
from pathlib import Path
from typing import Any

from tests.service.browser import DEADLINE, BrowserError, until

FIREFOX = shutil.which("firefox-esr") or shutil.which("firefox")

#: Pages begin to play by themselves, nothing is fetched that the test does not ask for, and Marionette takes any port.
_PREFERENCES: dict[str, object] = {
    "marionette.port": 0,
    "media.autoplay.default": 0,
    "media.autoplay.blocking_policy": 0,
    "app.update.auto": False,
    "app.normandy.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "extensions.update.enabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "services.settings.server": "",
    "toolkit.telemetry.enabled": False,
}


class Firefox:
    """A headless Firefox with its own profile, in its own process."""

    def __init__(self, folder: Path, width: int = 1280, height: int = 900) -> None:
        assert FIREFOX is not None
        profile = folder / "firefox"
        profile.mkdir()
        lines = (
            f"user_pref({json.dumps(name)}, {json.dumps(value)});\n" for name, value in _PREFERENCES.items()
        )
        (profile / "user.js").write_text("".join(lines))
        self._log = folder / "firefox.log"
        self._numbers = count(1)
        self._socket: socket.socket | None = None
        command = [FIREFOX, "--headless", "--no-remote", "--marionette", "--profile", str(profile)]
        with self._log.open("wb") as out:
            self._process = subprocess.Popen(
                [*command, f"--width={width}", f"--height={height}"], stdout=out, stderr=subprocess.STDOUT
            )
        try:
            self._connect(profile / "MarionetteActivePort")
        except BaseException:
            self.quit()
            raise

    def _connect(self, port_file: Path) -> None:
        def port() -> int | None:
            assert self._process.poll() is None, self._log.read_text()
            text = port_file.read_text() if port_file.exists() else ""
            return int(text) if text else None

        self._socket = socket.create_connection(("127.0.0.1", until(port, "the start of Firefox")), DEADLINE)
        # Who it is, before it is asked anything.
        self._message()
        self._call("WebDriver:NewSession")
        self._call("WebDriver:SetTimeouts", script=int(DEADLINE * 1000))

    def _message(self) -> Any:
        """The next message: its length in digits, a colon, and JSON."""
        assert self._socket is not None
        length = b""
        while not length.endswith(b":"):
            length += self._receive(1)
        return json.loads(self._receive(int(length[:-1])))

    def _receive(self, size: int) -> bytes:
        assert self._socket is not None
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            if not more:
                raise BrowserError("Firefox has closed the connection")
            data += more
        return data

    def _call(self, command: str, **parameters: Any) -> Any:
        assert self._socket is not None
        text = json.dumps([0, next(self._numbers), command, parameters])
        self._socket.sendall(f"{len(text)}:{text}".encode())
        _, _, error, result = self._message()
        if error is not None:
            raise BrowserError(error["message"].partition("\n")[0])
        return result.get("value") if isinstance(result, dict) else result

    def open(self, url: str) -> None:
        """Go to a page, and wait until it is loaded."""
        self._call("WebDriver:Navigate", url=url)

    def run(self, script: str, *arguments: Any) -> Any:
        """Run the body of a function in the page, and wait if it returns a promise."""
        return self._call("WebDriver:ExecuteScript", script=script, args=list(arguments), sandbox=None)

    def screenshot(self, path: Path) -> None:
        """Save a screenshot."""
        path.write_bytes(base64.b64decode(self._call("WebDriver:TakeScreenshot", full=False)))

    def quit(self) -> None:
        """End it, and everything that it started."""
        try:
            if self._socket is not None:
                self._call("Marionette:Quit", flags=["eForceQuit"])
        except (OSError, BrowserError):
            pass
        finally:
            if self._socket is not None:
                self._socket.close()
            try:
                self._process.wait(15)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
