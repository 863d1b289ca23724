"""`rtmprelay completion SHELL`: a script with which the shell completes commands and options."""

from __future__ import annotations

import argparse
import sys

from rtmprelay.cli.main import COMMANDS, SERVER_OPTIONS
from rtmprelay.cli.options_help import option_helps

_BASH = """\
_rtmprelay() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}"
  if [ "$COMP_CWORD" = 1 ]; then COMPREPLY=($(compgen -W "{commands}" -- "$word"))
  else case "${{COMP_WORDS[1]}}:$word" in
    {with_options}) COMPREPLY=($(compgen -W "{options}" -- "$word")) ;;
    recordings:*) [ "$COMP_CWORD" = 2 ] && COMPREPLY=($(compgen -W "{actions}" -- "$word")) ;;
    completion:*) COMPREPLY=($(compgen -W "{shells}" -- "$word")) ;;
  esac; fi
}}
complete -o default -F _rtmprelay rtmprelay
"""

_SHELLS = ("bash", "zsh", "fish")
_ACTIONS = ("list", "check", "repair")

_ZSH = "autoload -U +X bashcompinit && bashcompinit\n" + _BASH


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        'In bash or zsh: eval "$(rtmprelay completion bash)"; in fish: rtmprelay completion fish | source'
    )
    parser.add_argument("shell", choices=_SHELLS)


def run(options: argparse.Namespace) -> int:
    shell = options.shell
    sys.stdout.write(_fish() if shell == "fish" else _like_bash(_ZSH if shell == "zsh" else _BASH))
    return 0


def _like_bash(template: str) -> str:
    return template.format(
        commands=" ".join(COMMANDS),
        options=" ".join(f"--{option.name}" for option in option_helps()),
        actions=" ".join(_ACTIONS),
        shells=" ".join(_SHELLS),
        with_options="|".join(f"{command}:-*" for command in SERVER_OPTIONS),
    )


def _fish() -> str:
    lines = ["complete -c rtmprelay -f -n __fish_use_subcommand -a " + _quoted(" ".join(COMMANDS))]
    for command, words in (("recordings", _ACTIONS), ("completion", _SHELLS)):
        nothing_yet = (
            f"__fish_seen_subcommand_from {command}; and not __fish_seen_subcommand_from {' '.join(words)}"
        )
        lines.append(f"complete -c rtmprelay -f -n '{nothing_yet}' -a '{' '.join(words)}'")
    for option in option_helps():
        value = " -r" if option.takes_value else ""
        seen = " ".join(SERVER_OPTIONS)
        lines.append(
            f"complete -c rtmprelay -n '__fish_seen_subcommand_from {seen}' -l {option.name}{value}"
            f" -d {_quoted(option.text)}"
        )
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
