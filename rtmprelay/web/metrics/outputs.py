"""Metrics of where streams go: destinations and recordings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from prometheus_client.core import Metric

from rtmprelay.streams.accounting import DropReason
from rtmprelay.web.metrics.families import Family, counter, gauge, labelled, single

if TYPE_CHECKING:
    from rtmprelay.destinations.status import DestinationStatus
    from rtmprelay.recording.status import RecordingStatus, RecordingTotals

#: All states of a destination and of a recording: each has a series, so that a graph shows what is not.
DESTINATION_STATES = ("idle", "connecting", "connected", "error", "disabled")
RECORDING_STATES = ("waiting", "recording", "failing")

#: Why recordings lose messages, as far as that is known before it happens: of a disk, that it is full. Counters that are
#: there from zero on show their first loss, too.
RECORDING_LOSSES = ("queue_full", "waiting_for_keyframe", "too_large", "ENOSPC")


def destination_metrics(
    statuses: Sequence[DestinationStatus], kbps: Callable[[str], float | None]
) -> Iterator[Metric]:
    """How all destinations are.

    Args:
        kbps: The rate at which a destination takes what it is sent.
    """

    def of_each(family: Family, value: Callable[[DestinationStatus], float]) -> Metric:
        return labelled(family, (((one.name,), value(one)) for one in statuses))

    yield single(gauge("destinations", "Destinations that are configured."), len(statuses))
    yield labelled(
        gauge("destination_state", "1 for the state that a destination has.", "destination", "state"),
        (
            ((one.name, word), float(one.state.value == word))
            for one in statuses
            for word in DESTINATION_STATES
        ),
    )
    yield of_each(
        counter("destination_sent_messages", "Messages sent to a destination.", "destination"),
        lambda one: one.messages_sent,
    )
    yield of_each(
        counter("destination_sent_bytes", "Bytes of media sent to a destination.", "destination"),
        lambda one: one.bytes_sent,
    )
    yield labelled(
        counter(
            "destination_dropped_messages",
            "Messages that a destination did not get.",
            "destination",
            "reason",
        ),
        (
            ((one.name, reason.value), one.dropped_by_reason.get(reason.value, 0))
            for one in statuses
            for reason in DropReason
        ),
    )
    yield of_each(
        counter("destination_reconnects", "Connections after the first.", "destination"),
        lambda one: one.reconnect_count,
    )
    yield of_each(
        gauge("destination_queued_messages", "Messages that wait for a destination.", "destination"),
        lambda one: one.messages_queued,
    )
    yield of_each(
        gauge(
            "destination_bits_per_second", "What a destination takes, over the last seconds.", "destination"
        ),
        lambda one: (kbps(one.name) or 0.0) * 1000,
    )


def recording_metrics(statuses: Sequence[RecordingStatus], totals: RecordingTotals) -> Iterator[Metric]:
    """How all recordings are, and what became of those before."""
    states = [status.state.value for status in statuses]
    recordings = gauge("recordings", "Recordings by state.", "state")
    yield labelled(recordings, (((state,), states.count(state)) for state in RECORDING_STATES))
    yield single(counter("recording_written_bytes", "Bytes written to recordings."), totals.bytes_written)
    yield single(
        counter("recording_written_messages", "Messages written to recordings."), totals.messages_written
    )
    dropped = counter("recording_dropped_messages", "Messages that were not recorded.", "reason")
    losses = dict.fromkeys(RECORDING_LOSSES, 0) | totals.dropped_by_reason
    yield labelled(dropped, (((reason,), count) for reason, count in losses.items()))
    queued = sum(status.bytes_queued for status in statuses)
    yield single(gauge("recording_queued_bytes", "Bytes that wait for the disk."), queued)
