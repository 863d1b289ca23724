"""Limits from what an operator wrote: `--limit NAME=VALUE`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import attrs

from rtmprelay.config.relay import RelayConfig
from rtmprelay.errors import ConfigError

_T = TypeVar("_T")

#: The parts of the configuration that hold limits; beside them stands `max_publisher_kbps`.
_GROUPS = ("connection_limits", "stream_limits", "queue_limits", "admission_limits")
_ALONE = "max_publisher_kbps"

_NUMBER = re.compile(r"(?P<number>\d{1,12}(?:\.\d{1,6})?)(?P<unit>[KMG]?)", re.ASCII)
_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}


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


def _read(name: str, text: str, field: attrs.Attribute[Any]) -> int | float | None:
    optional = "None" in str(field.type)
    if text == "none" and optional:
        return None
    found = _NUMBER.fullmatch(text)
    fractions = "float" in str(field.type)
    if found is None or ("." in found["number"] and not fractions):
        kind = "a number" if fractions else "a whole number, with K, M or G behind it if you like"
        raise ConfigError(f"{name}: {text[:60]!r} is not {kind}" + (", or none" if optional else ""))
    value = float(found["number"]) * _UNITS[found["unit"]]
    most = field.metadata.get("most")
    if most is not None and value > most:
        raise ConfigError(f"{name}: {text} is too much; the most that can be had is {most}")
    return value if fractions else int(value)
