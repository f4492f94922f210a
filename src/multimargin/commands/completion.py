"""``multimargin completion``: what a shell needs to complete commands, options and their values.

Made from the parsers themselves: a new option is completed without a line here.
"""

from __future__ import annotations

import argparse
import shlex
from typing import Any

from multimargin.commands.errors import DONE
from multimargin.commands.options import Parser, command
from multimargin.commands.terminal import Terminal

_ABOUT = """Print a script that completes the words of multimargin; load it in your shell's start file:

  bash   source <(multimargin completion bash)          in ~/.bashrc
  zsh    source <(multimargin completion zsh)           in ~/.zshrc
  fish   multimargin completion fish | source           in ~/.config/fish/config.fish"""
_EXAMPLE = "multimargin completion bash"
_SHELLS = ("bash", "zsh", "fish")
_ZSH = [
    "(( $+functions[compdef] )) || { autoload -U compinit && compinit; }",
    "autoload -U +X bashcompinit && bashcompinit",
]


def add_to(subparsers: Any) -> None:
    """The command's options."""
    parser: Parser = command(
        subparsers, "completion", run, "bash|zsh|fish", "print a script for shell completion", _ABOUT, _EXAMPLE
    )
    parser.add_argument("shell", choices=_SHELLS, help="the shell")


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    """Print it."""
    from multimargin.commands.main import build_parser

    parser = build_parser()
    terminal.say(fish(parser) if args.shell == "fish" else bash(parser, zsh=args.shell == "zsh"))
    return DONE


def _options(parser: Parser) -> list[argparse.Action]:
    return [action for action in parser._actions if action.option_strings and action.help is not argparse.SUPPRESS]


def _choices(action: argparse.Action) -> list[str]:
    return [str(choice) for choice in action.choices] if action.choices else []


def bash(parser: Any, *, zsh: bool = False) -> str:
    """A function for bash; zsh runs it, too, through its bashcompinit."""
    of_words, of_values = [], []
    for name, sub in parser.commands.items():
        words = [option for action in _options(sub) for option in action.option_strings]
        given = [word for action in sub._actions if not action.option_strings for word in _choices(action)]
        of_words.append(f"    {name}) words={shlex.quote(' '.join([*words, *given]))} ;;")
        for action in _options(sub):
            if _choices(action):
                which = "|".join(f"{name}:{option}" for option in action.option_strings)
                of_values.append(f"    {which}) values={shlex.quote(' '.join(_choices(action)))} ;;")
    commands = " ".join(parser.commands)
    top = " ".join(option for action in _options(parser) for option in action.option_strings)
    lines = [
        *(_ZSH if zsh else []),
        "_multimargin() {",
        '  local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}"',
        '  local chosen="${COMP_WORDS[1]}" words="" values=""',
        '  if [ "$COMP_CWORD" -eq 1 ]; then',
        f'    COMPREPLY=( $(compgen -W "{commands} {top}" -- "$current") )',
        "    return",
        "  fi",
        '  case "$chosen:$previous" in',
        *of_values,
        "  esac",
        '  if [ -n "$values" ]; then',
        '    COMPREPLY=( $(compgen -W "$values" -- "$current") )',
        "    return",
        "  fi",
        '  case "$chosen" in',
        *of_words,
        "  esac",
        '  case "$current" in',
        '    -*) COMPREPLY=( $(compgen -W "$words" -- "$current") ) ;;',
        '    *) case "$chosen" in',
        '         completion) COMPREPLY=( $(compgen -W "$words" -- "$current") ) ;;',
        '         *) COMPREPLY=( $(compgen -f -- "$current") ) ;;',
        "       esac ;;",
        "  esac",
        "}",
        "complete -o filenames -F _multimargin multimargin",
    ]
    return "\n".join(lines)


def fish(parser: Any) -> str:
    """Lines for fish."""
    lines = []
    for name, sub in parser.commands.items():
        first = sub.description.splitlines()[0]
        lines.append(f"complete -c multimargin -n __fish_use_subcommand -f -a {name} -d {_fish(first)}")
    for name, sub in parser.commands.items():
        seen = f"complete -c multimargin -n '__fish_seen_subcommand_from {name}'"
        for action in _options(sub):
            names = [
                f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
                for option in action.option_strings
            ]
            value = (
                ""
                if action.nargs == 0
                else f" -x -a {_fish(' '.join(_choices(action)))}"
                if _choices(action)
                else " -r"
            )
            lines.append(f"{seen} {' '.join(names)}{value} -d {_fish((action.help or '').split(';')[0])}")
        for action in sub._actions:
            if not action.option_strings and _choices(action):
                lines.append(f"{seen} -f -a {_fish(' '.join(_choices(action)))}")
    return "\n".join(lines)


def _fish(text: str) -> str:
    """Quoted for fish, where only \\ and ' mean something between quotes."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
