"""What the HTTP part needs of the relay. The service fulfils it; tests may with less."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from twisted.internet.defer import Deferred

from rtmprelay.errors import ConfigError
from rtmprelay.event_bus import EventBus
from rtmprelay.streams.registry import StreamRegistry

if TYPE_CHECKING:
    from rtmprelay.destinations.status import DestinationStatus
    from rtmprelay.recording.status import RecordingStatus, RecordingTotals


class NotThereError(ConfigError):
    """There is nothing of this name."""


class ConflictError(ConfigError):
    """There is something already that does not go with what is wanted."""


class Relay(Protocol):
    """The relay as the HTTP part sees it."""

    @property
    def registry(self) -> StreamRegistry:
        """The streams."""

    @property
    def events(self) -> EventBus:
        """What happens."""

    @property
    def connections(self) -> int:
        """How many RTMP connections there are."""

    @property
    def connections_refused(self) -> int:
        """How many were not wanted so far."""

    def refusals_by_limit(self) -> Mapping[str, int]:
        """How many connections and players were not wanted so far, by the limit that they would have been over."""

    @property
    def destination_count(self) -> int:
        """How many destinations there are."""

    def destination_statuses(self) -> Iterable[DestinationStatus]:
        """How all destinations are, worked out one by one."""

    def destination_status(self, name: str) -> DestinationStatus | None:
        """How one destination is, if there is one of this name."""

    def destination_bytes(self) -> Mapping[str, int]:
        """What each destination has been sent, without all the rest: asked once a second."""

    def rtmp_ports(self) -> Sequence[tuple[str, int]]:
        """Where RTMP is spoken: `rtmp` or `rtmps`, and the port."""

    def destination_streams(self) -> Mapping[str, Sequence[str]]:
        """Which streams go to each destination."""

    def is_lasting(self, destination: str) -> bool:
        """Whether a destination stands in the configuration file."""

    def recording_statuses(self) -> Sequence[RecordingStatus]:
        """How all recordings are."""

    def recording_totals(self) -> RecordingTotals:
        """What all recordings so far have taken and lost."""

    # -- changes; a `ConfigError` says what is wrong with one ---------------------------------------------------

    def add_destination(self, entry: Mapping[str, object], lasting: bool) -> Deferred[str]:
        """Use one more destination, described as in the configuration file; fires with its name."""

    def remove_destination(self, name: str, lasting: bool) -> Deferred[None]:
        """Use a destination no longer."""

    def enable_destination(self, name: str, enabled: bool, lasting: bool) -> Deferred[None]:
        """Use a destination, or keep it without using it."""

    def reconnect_destination(self, name: str) -> None:
        """Break a destination's connections off, or wait no longer, and try now."""

    def end_publish(self, key: str) -> None:
        """Send the publisher of a stream away."""
