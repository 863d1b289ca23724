"""Counting the times in which a viewer did not keep up."""

from __future__ import annotations

from rtmprelay.streams.accounting import StallMeter


def test_only_what_lasts_is_a_stall() -> None:
    meter = StallMeter()
    meter.transport_ready(1.0)
    meter.transport_full(2.0)
    meter.transport_ready(2.9)
    assert (meter.count, meter.seconds) == (0, 0.0)
    meter.transport_full(3.0)
    meter.transport_full(3.5)
    meter.transport_ready(5.5)
    meter.transport_ready(9.0)
    assert (meter.count, meter.seconds) == (1, 2.5)
    meter.transport_full(10.0)
    meter.transport_ready(11.0)
    assert (meter.count, meter.seconds) == (2, 3.5)
