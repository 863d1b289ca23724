"""The options of the server as other commands show them: to settings files and to shells."""

from __future__ import annotations

import attrs

from rtmprelay.config.options import Options


@attrs.frozen
class OptionHelp:
    """One option of `rtmprelay serve`."""

    name: str
    text: str
    takes_value: bool
    default: object
    in_file: bool


def option_helps() -> list[OptionHelp]:
    """All options, in the order of their help."""
    options = Options()
    known = options.known_options()
    return [
        OptionHelp(
            name=name,
            text=" ".join(str(options.docs.get(name) or "").split()),
            takes_value=long.endswith("="),
            default=options.defaults.get(name),
            in_file=name in known,
        )
        for long in options.longOpt
        for name in [long.rstrip("=")]
    ]
