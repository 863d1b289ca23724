"""HLS players of others in real browsers: where the libraries come from, pages that play with them, what they saw."""

from __future__ import annotations

import http.server
import os
import shutil
import subprocess
import tarfile
import threading
from pathlib import Path
from typing import Any

import attrs
import pytest

#: A folder with `NAME-VERSION.js`; otherwise npm fetches the libraries.
FOLDER_VARIABLE = "RTMPRELAY_TEST_PLAYERS"

#: Each player of a page adds itself to `players`: what it saw, and how to ask it how far behind it is.
_PAGE = """<!doctype html>
<title>players</title>
<style>video { width: 160px }</style>
<script src="/library.js"></script>
<script>
  window.players = [];
  function watch(begin) {
    const video = document.createElement("video");
    Object.assign(video, { muted: true, autoplay: true, playsInline: true });
    document.body.append(video);
    const seen = { fatal: [], errors: [], stalls: 0, first: null, behind: [], pause: 0 };
    video.addEventListener("playing", () => { seen.first = seen.first ?? performance.now(); });
    video.addEventListener("waiting", () => { if (seen.first !== null) seen.stalls += 1; });
    const date = begin(video, location.hash.slice(1), seen);
    let ticked = performance.now();
    setInterval(() => {
      // How long the browser did nothing at all.
      seen.pause = Math.max(seen.pause, performance.now() - ticked);
      ticked = performance.now();
      const shown = date();
      if (shown) seen.behind.push((Date.now() - shown.getTime()) / 1000);
    }, 100);
    players.push({ video, seen });
  }
  window.look = () => players.map(({ video, seen }) => ({
    ...seen, time: video.currentTime, width: video.videoWidth,
    frames: video.getVideoPlaybackQuality().totalVideoFrames,
  }));
</script>
<body>
<script>
%(begin)s
  const count = Number(new URLSearchParams(location.search).get("players") ?? 1);
  for (let number = 0; number < count; number += 1) watch(begin);
</script>
"""

_HLS_JS = """
  function begin(video, url, seen) {
    const hls = video.player = new Hls({ lowLatencyMode: true, maxLiveSyncPlaybackRate: 1.1 });
    hls.on(Hls.Events.ERROR, (_, data) => {
      (data.fatal ? seen.fatal : seen.errors).push(`${data.type} ${data.details} ${data.reason ?? ""}`);
    });
    hls.loadSource(url);
    hls.attachMedia(video);
    return () => hls.playingDate;
  }
"""

_SHAKA = """
  function begin(video, url, seen) {
    const player = new shaka.Player();
    player.configure({ streaming: { lowLatencyMode: true } });
    player.addEventListener("error", ({ detail }) => {
      (detail.severity === 2 ? seen.fatal : seen.errors).push(`error ${detail.code} ${detail.data}`);
    });
    player.attach(video).then(() => player.load(url)).catch((error) => seen.fatal.push(`${error} ${error.code} ${error.data}`));
    return () => player.getPlayheadTimeAsDate();
  }
"""


@attrs.frozen
class WebPlayer:
    """A player that is a library for pages.

    Attributes:
        package: What npm calls it.
        code: The file in the package.
        begin: JavaScript that begins to play, and returns what tells the date of the picture that is shown.
        segments: What a playlist must have before it can begin.
    """

    package: str
    version: str
    code: str
    begin: str
    segments: int = 1

    def __str__(self) -> str:
        return f"{self.package}-{self.version}"

    def library(self, folder: Path) -> bytes:
        """The code of the library. Skips the test if it cannot be had."""
        given = os.environ.get(FOLDER_VARIABLE)
        if given is not None:
            return (Path(given) / f"{self}.js").read_bytes()
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip(f"{self.package} is needed: install npm, or set {FOLDER_VARIABLE}")
        command = [npm, "pack", "--silent", f"{self.package}@{self.version}"]
        try:
            subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=120)
        except (subprocess.SubprocessError, OSError) as error:
            pytest.skip(f"npm cannot fetch {self}: {error}")
        with tarfile.open(folder / f"{self}.tgz") as archive:
            file = archive.extractfile(f"package/{self.code}")
            assert file is not None
            return file.read()


HLS_JS = WebPlayer("hls.js", "1.7.4", "dist/hls.min.js", _HLS_JS)
#: It dies of discontinuities at the live edge; a publisher that returns makes none here.
OLD_HLS_JS = WebPlayer("hls.js", "1.6.16", "dist/hls.min.js", _HLS_JS)
#: It looks for captions in two more segments, and takes one that is not complete if there are fewer than three others.
SHAKA = WebPlayer("shaka-player", "5.2.12", "dist/shaka-player.compiled.js", _SHAKA, segments=3)


class PlayerPage:
    """Serves the page of a player, and its library, on loopback."""

    def __init__(self, player: WebPlayer, folder: Path) -> None:
        self.player = player
        files = {
            "/": ((_PAGE % {"begin": player.begin}).encode(), "text/html"),
            "/library.js": (player.library(folder), "text/javascript"),
        }

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body, kind = files.get(self.path.partition("?")[0], (b"", "text/plain"))
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def url(self, playlist: str, players: int = 1) -> str:
        """The address of the page with so many players."""
        return f"{self.origin}/?players={players}#{playlist}"

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
