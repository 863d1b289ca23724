"""A keyframe wakes the relay although its publisher's socket is left to fill: real sockets, a real epoll, no real time."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from tests.helpers import inter, keyframe, start_frames
from tests.rtmp.paced_server import WINDOW, PacedTests

#: Many times what the frames of a window have.
LARGE = 60_000


class KeyframeTests(PacedTests):
    """A keyframe of a stream that somebody watches is read as soon as much of it has gathered."""

    def test_keyframe_does_not_wait_for_the_end_of_the_window(self) -> None:
        publisher, viewer = self.watched()
        publisher.send(inter(240))
        assert self.server.paused == 1
        publisher.send(keyframe(280, LARGE))
        viewer.pump()
        assert viewer.frames == [inter(240), keyframe(280, LARGE)]
        assert self.server.paused == 0

    def test_rest_of_a_keyframe_does_not_wait_either(self) -> None:
        publisher, viewer = self.watched()
        publisher.send(inter(240))
        data = publisher.session.send_media(keyframe(280, LARGE))
        publisher.write(data[:40_000])
        assert sum(publisher.reads) > 40_000
        publisher.write(data[40_000:])
        viewer.pump()
        assert viewer.frames == [inter(240), keyframe(280, LARGE)]

    def test_after_a_keyframe_frames_gather_again(self) -> None:
        publisher, viewer = self.watched()
        publisher.send(inter(240))
        publisher.send(keyframe(280, LARGE))
        publisher.send(inter(320))
        publisher.reads.clear()
        for at in (360, 400, 440):
            publisher.send(inter(at))
        assert publisher.reads == []
        self.server.advance(WINDOW)
        viewer.pump()
        assert viewer.frames[-3:] == [inter(360), inter(400), inter(440)]
        assert len(publisher.reads) == 1

    def test_large_frames_alone_are_joined_all_the_same(self) -> None:
        """What is much depends on what came before: a stream of 20 Mbit/s is not read anew for each frame."""
        publisher, _ = self.watched()
        for at in range(240, 640, 40):
            publisher.send(inter(at, 20_000))
            self.server.advance(WINDOW / 2)
        publisher.reads.clear()
        for at in range(640, 1040, 40):
            publisher.send(inter(at, 20_000))
            self.server.advance(WINDOW / 2)
        assert len(publisher.reads) <= 6, publisher.reads

    def test_keyframe_of_a_stream_that_nobody_watches_waits(self) -> None:
        server = self.new_server(reading=WINDOW)
        publisher = server.publisher()
        publisher.send(*start_frames(), keyframe(0))
        publisher.send(inter(40))
        server.advance(WINDOW)
        publisher.reads.clear()
        publisher.send(keyframe(80, LARGE))
        assert publisher.reads == []
