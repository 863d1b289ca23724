"""A recording as the file that it is: all of it, parts of it, and who may have it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rtmprelay.access.request import refused
from tests.access.helpers import Answering
from tests.web.helpers import Web

NAME = "live_caf\u00e9_20260517_201500.flv"
PATH = "/recordings/live_caf%C3%A9_20260517_201500.flv/download"
CONTENT = bytes(range(256)) * 8000


@pytest.fixture
def web(tmp_path: Path) -> Web:
    (tmp_path / NAME).write_bytes(CONTENT)
    return Web(recordings=tmp_path)


def test_download_is_the_file_with_its_name(web: Web) -> None:
    got = web.get(PATH)
    assert (got.status, got.body) == (200, CONTENT)
    assert got.headers["content-length"] == str(len(CONTENT))
    assert got.headers["content-type"] == "video/x-flv"
    assert got.headers["content-disposition"] == (
        "attachment; filename*=UTF-8''live_caf%C3%A9_20260517_201500.flv"
    )
    head = web.request("HEAD", PATH)
    assert (head.status, head.headers["content-length"]) == (200, str(len(CONTENT)))


def test_download_that_broke_off_goes_on(web: Web) -> None:
    etag = web.get(PATH).headers["etag"]
    got = web.get(PATH, Range="bytes=1000000-", If_Range=etag)
    assert (got.status, got.body) == (206, CONTENT[1_000_000:])
    assert got.headers["content-range"] == f"bytes 1000000-{len(CONTENT) - 1}/{len(CONTENT)}"
    assert web.get(PATH, Range="bytes=5-9").body == CONTENT[5:10]
    assert web.get(PATH, Range=f"bytes={len(CONTENT)}-").error == (416, "range_not_satisfiable")
    # The file is another one by now.
    assert web.get(PATH, Range="bytes=5-9", If_Range='"other"').status == 200


def test_only_recordings_are_downloaded(web: Web) -> None:
    for name in ("none.flv", "..%2f..%2fetc%2fpasswd", ".hidden.flv", "notes.txt"):
        assert web.get(f"/recordings/{name}/download").error == (404, "not_found")


def test_download_needs_the_permission_to_play_the_stream(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(CONTENT)
    web = Web(recordings=tmp_path, authorizers=[Answering(refused("no"))])
    assert web.get(PATH).error[0] in (401, 403)
