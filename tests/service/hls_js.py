"""hls.js in a real browser: where the library comes from, a page that plays with it, and what the page measured."""

from __future__ import annotations

import http.server
import os
import shutil
import subprocess
import tarfile
import threading
from pathlib import Path
from typing import Any

import pytest

#: A folder with `VERSION/hls.min.js`; otherwise npm fetches the library.
FOLDER_VARIABLE = "RTMPRELAY_TEST_HLS_JS"

PAGE = """<!doctype html>
<video muted autoplay playsinline></video>
<script src="/hls.js"></script>
<script>
  const video = document.querySelector("video");
  window.fatal = [];
  window.errors = [];
  window.stalls = 0;
  window.first = null;
  window.behind = [];
  const hls = new Hls({ lowLatencyMode: true });
  hls.on(Hls.Events.ERROR, (_, data) => {
    (data.fatal ? fatal : errors).push(`${data.type} ${data.details}`);
  });
  video.addEventListener("playing", () => { first = first ?? performance.now(); });
  video.addEventListener("waiting", () => { if (first !== null) stalls += 1; });
  hls.loadSource(location.hash.slice(1));
  hls.attachMedia(video);
  setInterval(() => {
    if (hls.playingDate) behind.push((Date.now() - hls.playingDate.getTime()) / 1000);
  }, 100);
</script>
"""


def library(version: str, folder: Path) -> bytes:
    """The code of hls.js. Skips the test if it cannot be had."""
    given = os.environ.get(FOLDER_VARIABLE)
    if given is not None:
        return (Path(given) / version / "hls.min.js").read_bytes()
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip(f"hls.js is needed: install npm, or set {FOLDER_VARIABLE}")
    try:
        subprocess.run(
            [npm, "pack", "--silent", f"hls.js@{version}"],
            cwd=folder,
            check=True,
            capture_output=True,
            timeout=60,
        )
    except (subprocess.SubprocessError, OSError) as error:
        pytest.skip(f"npm cannot fetch hls.js {version}: {error}")
    with tarfile.open(folder / f"hls.js-{version}.tgz") as archive:
        file = archive.extractfile("package/dist/hls.min.js")
        assert file is not None
        return file.read()


class PlayerPage:
    """Serves the page and the library on loopback."""

    def __init__(self, code: bytes) -> None:
        files = {"/": (PAGE.encode(), "text/html"), "/hls.js": (code, "text/javascript")}

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body, kind = files.get(self.path, (b"", "text/plain"))
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def url(self, playlist: str) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/#{playlist}"

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
