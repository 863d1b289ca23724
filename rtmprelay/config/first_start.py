"""What an operator should know about the settings of a relay: what strangers could do, and what others could read."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from rtmprelay.config.relay import RelayConfig
from rtmprelay.files.secret_file import warn_if_everybody_reads

_PRIVATE_KEY = re.compile(r"privateKey=((?:[^:\\]|\\.)+)")

_INTERFACE = re.compile(r":interface=(?P<host>(?:[^:\\]|\\.)+)")


def is_for_this_machine(description: str) -> bool:
    """Whether only programs on this machine reach a listener, as far as its endpoint description tells."""
    description = description.removeprefix("haproxy:")
    if description.startswith("unix:"):
        return True
    found = _INTERFACE.search(description)
    host = found["host"].replace("\\", "") if found is not None else ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def start_warnings(config: RelayConfig) -> list[str]:
    """One sentence for each thing that an operator may not have meant."""
    return list(_warnings(config))


def command_line_warnings(options: Mapping[str, Any], given: Collection[str]) -> tuple[str, ...]:
    """What only the options show; files with secrets that others can read are logged.

    Args:
        given: The names of the options on the command line; the others are from a file.
    """
    for description in options["listen"]:
        for path in _PRIVATE_KEY.findall(description):
            warn_if_everybody_reads(Path(path.replace("\\", "")))
    if options["relay-config"]:
        warn_if_everybody_reads(Path(options["relay-config"]))
    token = options["http-token"]
    if token is None or token.startswith("file:") or "http-token" not in given:
        return ()
    return (
        "everybody on this machine can read the token of --http-token in the list of processes (ps): write"
        " --http-token file:PATH, or put it into RTMPRELAY_HTTP_TOKEN",
    )


def _warnings(config: RelayConfig) -> Iterator[str]:
    yield from config.warnings
    reachable = [one for one in config.listen if not is_for_this_machine(one)]
    effects = []
    if config.destinations:
        effects.append("is sent to your destinations")
    if config.recording.record_all or config.recording.match:
        effects.append("is recorded")
    if reachable and effects and not config.authorizers and not config.open:
        yield (
            f"anybody who reaches {_short(reachable[0])} may publish, and what they publish"
            f" {' and '.join(effects)}: let only those in who have a key (--auth keys-file:keys.json), or say that"
            " this is meant (--open)"
        )
    for destination in config.destinations:
        if not destination.verify:
            yield (
                f"the certificate of destination {destination.name} is not checked (verify: false): somebody on the"
                " way could read its stream key; give ca_file instead"
            )
    http = config.http
    if http.token is not None and _is_readable_on_the_way(http.listen or "unix:"):
        yield (
            f"the token for changes is sent to {_short(http.listen or '')} unencrypted: listen on 127.0.0.1 behind a"
            " proxy with TLS, or on ssl:"
        )


def _is_readable_on_the_way(description: str) -> bool:
    return not description.startswith("ssl:") and not is_for_this_machine(description)


def _short(description: str) -> str:
    """An endpoint description without the parts that say nothing here, or name files."""
    kind, _, rest = description.removeprefix("haproxy:").partition(":")
    return f"{kind}:{rest.partition(':')[0]}"
