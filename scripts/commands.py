#!/usr/bin/env python3
"""Writes host_tools/COMMANDS.md from the parsers of the commands.

scripts/commands            write it
scripts/commands --check    compare only; exit code 1 where it is not what the parsers say
"""

import argparse
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "host_tools"))

from mica.cli.main import COMMANDS, add_command, find_command, new_parser  # noqa: E402

PAGE = ROOT / "host_tools" / "COMMANDS.md"
HEAD = """\
# Commands

Written by `scripts/commands` from the parsers; `mica COMMAND -h` prints the same.

Every command has `-h`. All but `repl` have `--json`: one object on stdout, everything else on stderr.

| exit code | meaning |
| --- | --- |
| 0 | done |
| 1 | a mistake that you can mend |
| 2 | this model or board cannot do that |
| 70 | a bug in mica |
| 130, 143, 129 | interrupted by Ctrl-C, by SIGTERM, by a closed terminal |

With `--json`, an error is an object too: `error` (the line), `found` (what was wrong, and where), `todo` (what to do),
`reasons[]` and `exit_code`.

A target `T` is one of these:

| target | what it is |
| --- | --- |
| `host` | this computer; the default of most commands |
| `UNIX`, `MPS2_AN385`, `RPI_PICO@emu`, ... | an emulated board (`mica boards`) |
| `/dev/ttyACM0`, `COM5`, `socket://host:port` | a board at a port |
| `auto` | the one board that is plugged in; the default of `push`, `ls`, `rm` and `doctor` |
| `usb:all`, `fleet:UNIX*3,MPS2_AN385` | several boards share the samples of `run` and `eval` |
| `fleet:plant` | the same with the boards that have joined the fleet of `plant.toml` (`mica fleet`) |
"""


def page() -> str:
    parts, places = [HEAD], dict[tuple[str, str], str]()
    for name, line in COMMANDS.items():
        module = find_command(name)
        subparsers = new_parser().add_subparsers(dest="command")
        parser = add_command(subparsers, name, module)
        parts.append(f"\n## mica {name}\n\n{line[0].upper()}{line[1:]}.\n\n{_table(parser, places)}")
        if keys := getattr(module, "JSON_KEYS", None):
            keys = textwrap.fill(keys, 118, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)
            parts.append(f"\n`--json` has the keys:\n\n{keys}\n")
    return "".join(parts)


def _table(parser: argparse.ArgumentParser, places: dict[tuple[str, str], str]) -> str:
    """An item for each argument; those of an action of the command under the action's name.
    What another command's table (`places`) has already shares an item."""
    rows, more, known = [], "", dict[str, list[str]]()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, sub in action.choices.items():
                more += f"\n`{parser.prog} {name}`\n\n{_table(sub, places)}"
        elif action.help is not argparse.SUPPRESS and not {"-h", "--json"} & set(action.option_strings):
            spelled, text = _spelled(action), _help(parser, action)
            place = places.setdefault((spelled, text), parser.prog)
            if place != parser.prog and text:
                known.setdefault(place, []).append(f"`{(action.option_strings or [spelled])[-1]}`")
            else:
                rows.append(_item(f"`{spelled}`", text))
    rows += [_item(f"As for `{place}`", ", ".join(names)) for place, names in known.items()]
    return ("\n".join(rows) + "\n" if rows else "") + more


def _item(name: str, text: str) -> str:
    """An item of a list in lines of 118 columns; blanks within the name stay together."""
    line = f"* {name.replace(' ', chr(0))}: {text}" if text else f"* {name}"
    lines = textwrap.wrap(line, 118, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace(chr(0), " ")


def _spelled(action: argparse.Action) -> str:
    """`-o FILE, --output FILE`, or the name of an argument without dashes. argparse's own text varies."""
    choices = "" if action.choices is None else "{" + ",".join(map(str, action.choices)) + "}"
    name = str(action.metavar or choices or (action.dest.upper() if action.option_strings else action.dest))
    name += f" [{name} ...]" * (action.nargs == "+" and bool(action.option_strings))
    words = [f"{option} {name}" if action.nargs != 0 else option for option in action.option_strings]
    return ", ".join(words or [name])


def _help(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    text = parser._get_formatter()._expand_help(action) if action.help else ""
    return " ".join(text.split())


def main() -> int:
    parser = argparse.ArgumentParser(description="host_tools/COMMANDS.md, from the parsers of the commands")
    parser.add_argument("--check", action="store_true", help="compare only")
    new = page()
    if parser.parse_args().check:
        if PAGE.read_text(encoding="utf-8") == new:
            return 0
        print("commands: host_tools/COMMANDS.md is not what the parsers say; run scripts/commands", file=sys.stderr)
        return 1
    PAGE.write_text(new, encoding="utf-8")
    print(PAGE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
