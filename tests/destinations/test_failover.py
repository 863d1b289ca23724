"""Backup addresses of a destination."""

# Much of trial has no types yet.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

from twisted.internet.error import ConnectionRefusedError
from typing_extensions import override

from rtmprelay import events
from rtmprelay.destinations.status import DestinationState as State
from rtmprelay.wire.url import RtmpUrl
from tests.destinations.harness import OutletTestCase
from tests.helpers import group


class FailoverTests(OutletTestCase):
    @override
    def setUp(self) -> None:
        super().setUp()
        self.backup = self.relay.add_stub("backup")
        self.third = self.relay.add_stub("third")
        self.addresses = {
            "backup": (RtmpUrl.parse("rtmp://backup/live/key"), RtmpUrl.parse("rtmp://third/live/key"))
        }

    def attempts(self) -> tuple[int, int, int]:
        return self.server.attempts, self.backup.attempts, self.third.attempts

    def test_next_address_is_tried_after_failures_before_backup(self) -> None:
        self.server.failure = self.backup.failure = ConnectionRefusedError()
        encoder = self.start(failures_before_backup=2, **self.addresses)
        assert self.relay.outlet().address == "rtmp://one:1935/live/***"
        self.relay.advance(1)
        assert self.relay.outlet().address == "rtmp://backup:1935/live/***"
        self.relay.advance(2 + 4)
        assert self.attempts() == (2, 2, 0)
        self.relay.advance(8)
        assert self.attempts() == (2, 2, 1)
        assert self.relay.outlet().state is State.CONNECTED
        self.relay.send(encoder, *group(20_000))
        assert len(self.third.last.media) > 0
        addresses = [event.address for event in self.relay.events_of(events.DestinationReconnecting)]
        assert [address.split("/")[2].split(":")[0] for address in addresses] == [
            "one",
            "backup",
            "backup",
            "third",
        ]

    def test_outlet_stays_with_a_backup_that_works(self) -> None:
        self.server.failure = ConnectionRefusedError()
        self.start(failures_before_backup=1, **self.addresses)
        self.relay.advance(1)
        self.server.failure = None
        self.relay.advance(40)
        assert self.attempts() == (1, 1, 0)
        self.backup.lose_all()
        self.relay.advance(0.5)
        # With failures_before_backup=1 each failure moves to the next address, and after the last to the first.
        self.relay.advance(1)
        assert self.attempts() == (1, 1, 1)

    def test_lost_good_connection_is_made_again_to_the_same_address(self) -> None:
        self.server.failure = ConnectionRefusedError()
        self.start(failures_before_backup=2, **self.addresses)
        self.relay.advance(3)
        assert self.attempts() == (2, 1, 0)
        self.server.failure = None
        self.relay.advance(40)
        self.backup.lose_all()
        self.relay.advance(1)
        assert self.attempts() == (2, 2, 0)

    def test_after_the_last_backup_comes_the_first_address(self) -> None:
        for stub in (self.server, self.backup, self.third):
            stub.failure = ConnectionRefusedError()
        self.start(failures_before_backup=1, **self.addresses)
        self.relay.advance(1 + 2 + 4)
        assert self.attempts() == (2, 1, 1)

    def test_outlet_without_a_backup_stays_with_its_address(self) -> None:
        self.server.failure = ConnectionRefusedError()
        self.start(failures_before_backup=1)
        self.relay.advance(7)
        assert self.attempts() == (4, 0, 0)
