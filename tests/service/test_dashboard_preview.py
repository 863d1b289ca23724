"""What the preview of the dashboard reads of MP4, and what it says when it cannot play."""

from __future__ import annotations

import pytest

from tests.service import fake_relay_http as fake
from tests.service.browser import MISSING, Browser, until
from tests.service.fake_relay_http import FakeRelay
from tests.service.interop import FFmpeg
from tests.service.page_probes import show

pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"a browser is needed, and there is no {MISSING}")

#: Options of ffmpeg, and the codecs as browsers name them.
CODECS = {
    "-c:v libx264 -profile:v high -c:a aac": ("avc1.64000c", "mp4a.40.2"),
    "-c:v libx265 -x265-params log-level=none -tag:v hvc1 -c:a aac": ("hvc1.1.6.L60.90", "mp4a.40.2"),
    "-c:v libaom-av1 -cpu-used 8 -c:a libopus": ("av01.0.00M.08", "opus"),
    "-c:v libvpx-vp9 -c:a flac -strict -2": ("vp09.00.11.08", "flac"),
}


def test_codecs_are_read_from_mp4_headers_of_ffmpeg(
    browser: Browser, fake_relay: FakeRelay, ffmpeg: FFmpeg
) -> None:
    source = "-f lavfi -i testsrc2=s=320x180:r=25 -f lavfi -i sine=440:r=48000 -t 0.2 -pix_fmt yuv420p"
    for arguments, codecs in CODECS.items():
        file = ffmpeg.make(f"{codecs[0]}.mp4", f"{source} {arguments} -movflags empty_moov+default_base_moof")
        fake_relay.media[f"/{codecs[0]}.mp4"] = file.read_bytes()
    show(browser, fake_relay)
    script = """
        return Promise.all([import("/assets/mp4_codecs.js"), fetch(arguments[0]).then((got) => got.arrayBuffer())])
          .then(([{ readHeader }, content]) => {
            const bytes = new Uint8Array(content);
            const header = readHeader(bytes);
            return [header.codecs, readHeader(bytes.subarray(0, header.length - 1))];
          });
    """
    for codecs in CODECS.values():
        assert browser.run(script, f"/{codecs[0]}.mp4") == [list(codecs), None]


def test_preview_that_cannot_be_played_is_explained(
    browser: Browser, fake_relay: FakeRelay, ffmpeg: FFmpeg
) -> None:
    fake_relay.streams["live/a"] = fake.stream("live/a")
    source = "-f lavfi -i testsrc2=s=320x180:r=25 -t 0.2 -pix_fmt yuv420p -c:v libx264"
    file = ffmpeg.make("unknown.mp4", f"{source} -movflags empty_moov+default_base_moof")
    fake_relay.media["/live/a.mp4"] = file.read_bytes()
    show(browser, fake_relay)
    browser.run("MediaSource.isTypeSupported = () => false")
    browser.click(".stream [data-part=preview]")
    words = "This browser cannot play the codec of this stream (avc1.64000c)."
    until(lambda: browser.text(".preview-note").startswith(words), "the words about the codec")
    browser.click(".stream [data-part=preview]")
    fake_relay.media.clear()
    browser.click(".stream [data-part=preview]")
    until(lambda: browser.text(".preview-note") == "There is nothing here.", "the server's words")
    browser.click(".stream [data-part=preview]")
    assert browser.count(".preview:not([hidden])") == 0
    assert all("404" in line for line in browser.complaints())
