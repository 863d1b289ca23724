"""The demo's recording: how it is while it is written, and what is in it afterwards."""

from __future__ import annotations

from zope.interface import implementer

from rtmprelay.demo.tape import ReceivedTape
from rtmprelay.errors import BadRecordingError
from rtmprelay.events import Event, RecordingFailed, RecordingFinished, RecordingStarted
from rtmprelay.flv.container import read_tags
from rtmprelay.interfaces import IEventSink
from rtmprelay.service import RelayService


@implementer(IEventSink)
class RecordingWatch:
    """Hears of a relay's recording, and reads it.

    Attributes:
        path: The file; None while there is none.
    """

    def __init__(self, relay: RelayService) -> None:
        self.path: str | None = None
        self._relay = relay
        self._error: str | None = None
        self._finished = False
        relay.events.add_sink(self)

    def event_happened(self, time: float, event: Event) -> None:
        """Keep what is about recordings."""
        match event:
            case RecordingStarted():
                self.path = event.path
            case RecordingFinished():
                self._finished = True
            case RecordingFailed():
                self._error = event.reason

    def state(self) -> str:
        """How it is, in a word."""
        statuses = self._relay.recordings.statuses()
        if statuses:
            return statuses[0].state.value
        return "finished" if self._finished else "not begun"

    def failure(self) -> str | None:
        """What went wrong."""
        return self._error

    def written(self) -> tuple[int, int]:
        """Messages and bytes so far."""
        statuses = self._relay.recordings.statuses()
        return (statuses[0].messages_written, statuses[0].bytes_written) if statuses else (0, 0)

    def replay_into(self, tape: ReceivedTape) -> None:
        """Give all that was recorded to a tape."""
        if self.path is None:
            return
        try:
            with open(self.path, "rb") as file:
                for tag in read_tags(file):
                    frame = tag.to_frame()
                    if frame is not None:
                        tape.add(frame, None)
        except (OSError, BadRecordingError) as error:
            self._error = f"it cannot be read: {error}"
