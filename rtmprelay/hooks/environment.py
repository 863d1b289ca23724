"""What a program is told of an event, as variables of its environment."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from rtmprelay.event_log.lines import written_time
from rtmprelay.events import Event

#: Of the relay's own environment a program gets only this: in the rest there may be keys.
_PASSED_ON = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")

#: Characters of one value.
_LONGEST_VALUE = 8192


def environment(time: float, event: Event, own: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a program is told: `RTMPRELAY_EVENT`, `RTMPRELAY_TIME`, and each field of the event, such as `RTMPRELAY_STREAM`."""
    own = os.environ if own is None else own
    told = {name: own[name] for name in _PASSED_ON if name in own}
    told["RTMPRELAY_EVENT"] = event.name
    told["RTMPRELAY_TIME"] = written_time(time)
    for name, value in event.fields().items():
        told[f"RTMPRELAY_{name.upper()}"] = _text(value)
    return told


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "1" if value else "0"
    text = json.dumps(value, default=str) if isinstance(value, dict | list | tuple) else str(value)
    # An environment cannot hold everything, and what peers choose must not look like something else.
    shown = "".join(character if character.isprintable() else "?" for character in text[:_LONGEST_VALUE])
    return shown.encode("utf-8", "replace").decode()
