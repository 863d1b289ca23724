"""Limits from what an operator wrote: `--limit NAME=VALUE`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import attrs

from rtmprelay.config.relay import RelayConfig
from rtmprelay.errors import ConfigError
from rtmprelay.quantities import quoted, read_count, read_seconds

_T = TypeVar("_T")

#: The parts of the configuration that hold limits; beside them stands `max_publisher_kbps`.
_GROUPS = ("connection_limits", "stream_limits", "queue_limits", "admission_limits")
_ALONE = "max_publisher_kbps"


def _places(config: RelayConfig) -> dict[str, tuple[str | None, attrs.Attribute[Any]]]:
    """For each limit, the group that it is in, and its field."""
    places: dict[str, tuple[str | None, attrs.Attribute[Any]]] = {}
    for group in _GROUPS:
        for field in attrs.fields(type(getattr(config, group))):
            places[field.name] = (group, field)
    places[_ALONE] = (None, attrs.fields_dict(RelayConfig)[_ALONE])
    return places


def limits_help() -> str:
    """All limits with their values, for people."""
    config = RelayConfig()
    lines = []
    for name, (group, _) in sorted(_places(config).items()):
        value = getattr(config if group is None else getattr(config, group), name)
        lines.append(
            f"  {name}={'none' if value is None else f'{value:g}' if isinstance(value, float) else value}"
        )
    return (
        "Limits, for --limit (docs/reference/configuration.rst says what each one bounds):\n"
        + "\n".join(lines)
        + "\n"
    )


def with_limits(config: RelayConfig, texts: Iterable[str]) -> RelayConfig:
    """The configuration with these limits, each written as `NAME=VALUE`."""
    places = _places(config)
    for text in texts:
        name, equals, value_text = text.partition("=")
        if name not in places:
            raise ConfigError(f"there is no limit {name[:60]!r}; there are: {', '.join(sorted(places))}")
        if not equals:
            raise ConfigError(f"{name} needs a value: write {name}=NUMBER")
        group, field = places[name]
        value = _read(name, value_text, field)
        if group is None:
            config = _changed(config, name, value)
        else:
            config = _changed(config, group, _changed(getattr(config, group), name, value))
    return config


def _changed(holder: _T, name: str, value: object) -> _T:
    """The same values but one; which one is known only now, so that types cannot help."""
    evolve: Callable[..., _T] = attrs.evolve
    return evolve(holder, **{name: value})


def _read(name: str, text: str, field: attrs.Attribute[Any]) -> float | None:
    optional = "None" in str(field.type)
    if text == "none" and optional:
        return None
    # All limits that may be fractions are durations.
    is_duration = "float" in str(field.type)
    value = read_seconds(text) if is_duration else read_count(text)
    if value is None:
        kind = (
            "a number of seconds or a duration such as 90s"
            if is_duration
            else "a whole number such as 8 or 64M"
        )
        raise ConfigError(f"{name}: {quoted(text)} is not {kind}" + (", or none" if optional else ""))
    most = field.metadata.get("most")
    if most is not None and value > most:
        raise ConfigError(f"{name}: {text} is too much; the most that can be had is {most}")
    return value
