"""The `--limit NAME=VALUE` option: finds the limit in the configuration and parses its value."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar, get_args, get_type_hints

import attrs

from rtmprelay.config.relay import RelayConfig
from rtmprelay.config.settings_file import suggestion
from rtmprelay.errors import ConfigError
from rtmprelay.quantities import quoted, read_count, read_seconds

_T = TypeVar("_T")

#: The fields of the configuration whose values are groups of limits.
_GROUPS = (
    "connection_limits",
    "stream_limits",
    "queue_limits",
    "admission_limits",
    "guess_limits",
    "memory_limits",
    "http",
    "hls_limits",
)

#: The one limit that is a field of the configuration itself.
_UNGROUPED = "max_publisher_kbps"


@attrs.frozen
class _Limit:
    """Where a limit is in the configuration, and which values it may have."""

    name: str
    #: The field of the configuration that holds the limit's group; None if the limit is a field itself.
    group: str | None
    #: Durations are floats; everything else is a count.
    is_duration: bool
    #: Whether it may be None, which means no limit.
    is_optional: bool
    largest: int | None

    @classmethod
    def of_field(cls, holder: type, name: str, group: str | None) -> _Limit:
        """The limit that a field of an attrs class holds."""
        kind = get_type_hints(holder)[name]
        kinds = get_args(kind) or (kind,)
        metadata = attrs.fields_dict(holder)[name].metadata
        return cls(name, group, float in kinds, type(None) in kinds, metadata.get("most"))

    def value_in(self, config: RelayConfig) -> float | None:
        """The limit's value in a configuration."""
        holder = config if self.group is None else getattr(config, self.group)
        value: float | None = getattr(holder, self.name)
        return value

    def set_in(self, config: RelayConfig, value: float | None) -> RelayConfig:
        """The configuration with another value for the limit."""
        if self.group is None:
            return _evolved(config, self.name, value)
        return _evolved(config, self.group, _evolved(getattr(config, self.group), self.name, value))

    def parse(self, text: str) -> float | None:
        """The value that an operator wrote."""
        if text == "none" and self.is_optional:
            return None
        value = read_seconds(text) if self.is_duration else read_count(text)
        if value is None:
            expected = (
                "a number of seconds or a duration such as 90s"
                if self.is_duration
                else "a whole number such as 8 or 64M"
            )
            raise ConfigError(
                f"{self.name}: {quoted(text)} is not {expected}" + (", or none" if self.is_optional else "")
            )
        if self.largest is not None and value > self.largest:
            raise ConfigError(
                f"{self.name}: {text} is too much; the largest possible value is {self.largest}"
            )
        return value


def _is_limit(holder: type, name: str) -> bool:
    """Whether a field is a number: some groups have other settings too."""
    kind = get_type_hints(holder)[name]
    kinds = set(get_args(kind) or (kind,)) - {type(None)}
    return kinds <= {int, float}


def _limits() -> dict[str, _Limit]:
    config = RelayConfig()
    limits = [
        _Limit.of_field(holder, field.name, group)
        for group in _GROUPS
        for holder in [type(getattr(config, group))]
        for field in attrs.fields(holder)
        if _is_limit(holder, field.name)
    ]
    limits.append(_Limit.of_field(RelayConfig, _UNGROUPED, None))
    return {limit.name: limit for limit in sorted(limits, key=lambda limit: limit.name)}


def limits_help() -> str:
    """All limits with their default values, as text."""
    config = RelayConfig()
    lines = ["Limits, for --limit (docs/reference/configuration.rst says what each one bounds):"]
    for name, limit in _limits().items():
        value = limit.value_in(config)
        shown = "none" if value is None else f"{value:g}" if isinstance(value, float) else value
        lines.append(f"  {name}={shown}")
    return "\n".join(lines) + "\n"


def with_limits(config: RelayConfig, texts: Iterable[str]) -> RelayConfig:
    """The configuration with these limits changed, each of them written as `NAME=VALUE`."""
    limits = _limits()
    for text in texts:
        name, equals, value = text.partition("=")
        if name not in limits:
            raise ConfigError(
                f"unknown limit {name[:60]!r}{suggestion(name, [*limits])} (--help-limits lists them all)"
            )
        if not equals:
            raise ConfigError(f"{name} needs a value: write {name}=NUMBER")
        config = limits[name].set_in(config, limits[name].parse(value))
    return config


def _evolved(holder: _T, field: str, value: object) -> _T:
    """`attrs.evolve` for a field whose name is known only at run time."""
    evolve: Callable[..., _T] = attrs.evolve
    changes: dict[str, Any] = {field: value}
    return evolve(holder, **changes)
