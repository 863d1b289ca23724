"""What a relay sends in a test is checked, without a word of the test."""

from __future__ import annotations

from typing import Any

import pytest

from rtmprelay.outputs.hls.broadcast import HlsBroadcast
from rtmprelay.outputs.hls.rendition import Body
from tests.hls.every_playlist import EveryPlaylist
from tests.web.hls import PLAYLIST, watched


def test_playlist_that_breaks_a_rule_fails_the_test_in_which_it_was_sent() -> None:
    make = HlsBroadcast.media_playlist

    def wrong(*arguments: Any) -> Body:
        return Body(make(*arguments).plain.replace(b"PART-HOLD-BACK=1", b"PART-HOLD-BACK=0"), b"")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HlsBroadcast, "media_playlist", wrong)
        every = EveryPlaylist(patch)
        web = watched()
        web.get(PLAYLIST)
    with pytest.raises(AssertionError, match="PART-HOLD-BACK"):
        every.assert_clean()
