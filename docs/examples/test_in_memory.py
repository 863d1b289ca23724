"""A player that joins late gets the picture from the last keyframe on."""

from rtmprelay.media import MediaFrame, MediaKind
from rtmprelay.testing import MemoryServer


def test_a_late_player_starts_at_the_keyframe():
    server = MemoryServer()
    encoder = server.connect("live")
    encoder.publish("film")
    header = MediaFrame(MediaKind.VIDEO, 0, b"\x17\x00\x00\x00\x00 configuration")
    keyframe = MediaFrame(MediaKind.VIDEO, 0, b"\x17\x01\x00\x00\x00 picture")
    encoder.send(header, keyframe)

    player = server.connect("live")
    player.play("film")

    assert player.frames == [header, keyframe]
