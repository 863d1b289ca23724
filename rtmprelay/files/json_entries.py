"""Reading entries of a JSON configuration file into attrs classes, with a sentence for each mistake."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin

from rtmprelay.errors import ConfigError

if TYPE_CHECKING:
    from cattrs import Converter

#: A value that is taken from the environment.
VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")

_T = TypeVar("_T")


def _exactly(kind: type, name: str) -> Any:
    """A hook that accepts this type alone and converts nothing: "3" is not a number, and 3 is not text."""

    def read(value: object, _: type) -> object:
        if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
            raise ValueError(f"{name} is expected")
        return value

    return read


def _read_float(value: object, _: type) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("a number is expected")
    return float(value)


@cache
def entry_converter(*kinds: type) -> Converter:
    """Reads these attrs classes strictly: unknown fields are refused, and nothing is converted.

    It compiles code for each class, which takes a hundred times as long as reading an entry.
    """
    # Only relays with a configuration file need it, and it takes longer to import than most of the relay.
    from cattrs import Converter
    from cattrs.gen import make_dict_structure_fn

    converter = Converter(forbid_extra_keys=True)
    converter.register_structure_hook(str, _exactly(str, "text"))
    converter.register_structure_hook(int, _exactly(int, "a whole number"))
    converter.register_structure_hook(bool, _exactly(bool, "true or false"))
    converter.register_structure_hook(float, _read_float)

    def read_list(value: object, kind: Any) -> list[object]:
        # cattrs would take a text for the list of its characters.
        if not isinstance(value, list):
            raise ValueError("a list is expected")
        (item,) = get_args(kind)
        items: Any = tuple.__class_getitem__((item, ...))
        return list(converter.structure(value, items))

    def is_list(kind: Any) -> bool:
        origin: Any = get_origin(kind)
        return origin is list

    converter.register_structure_hook_func(is_list, read_list)
    for kind in kinds:
        converter.register_structure_hook(
            kind, make_dict_structure_fn(kind, converter, _cattrs_forbid_extra_keys=True)
        )
    return converter


def describe_mistake(error: BaseException, _: type | None) -> str:
    """What is wrong with one value, for `cattrs.transform_error`."""
    if isinstance(error, KeyError):
        return f"the field {error} is missing"
    extra = getattr(error, "extra_fields", None)
    if extra:
        return f"unknown field {', '.join(sorted(map(repr, extra)))}"
    if isinstance(error, ValueError):
        return str(error)
    return "this is not what is expected here"


def parse_document(text: str) -> dict[str, Any]:
    """The JSON object that a configuration file holds.

    Raises:
        ConfigError: The text is not a JSON object.
    """
    try:
        document = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"it is not valid JSON: {error}") from None
    except RecursionError:
        raise ConfigError("it is not valid JSON: it is nested too deeply") from None
    if not isinstance(document, dict):
        raise ConfigError('it is not a JSON object with a field "destinations"')
    return document


def read_entry(converter: Converter, value: object, kind: type[_T]) -> _T:
    """A value as an attrs class.

    Raises:
        ConfigError: The message names all mistakes, each with its place.
    """
    from cattrs import BaseValidationError, transform_error

    try:
        return converter.structure(value, kind)
    except BaseValidationError as error:
        raise ConfigError("; ".join(transform_error(error, format_exception=describe_mistake))) from None


def fill_in_variables(text: str, environment: Mapping[str, str]) -> str:
    """Replace each `${NAME}` with its value in the environment."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in environment:
            raise ConfigError(f"the environment has no {match[1]}")
        return environment[match[1]]

    return VARIABLE.sub(value, text)
