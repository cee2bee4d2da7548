"""Checks of a board for `mica doctor`, each with a remedy. Errors of other commands use them, too.

    port -> permission -> held by whom -> does MicroPython answer -> mica and its version -> which board -> memory ->
    models

Each check gives findings; the first that makes all further ones impossible ends the list. Programs that
the checks send to a board run on stock MicroPython, too.
"""

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import mica
from mica.boards import BoardSpec, board_names, load_board, stock_boards
from mica.errors import MicaError
from mica.format import schema
from mica.kernels import KERNELS
from mica.link import on_board, ports
from mica.link.answers import (
    Answer,
    Field,
    ask,
    format_version,
    name,
    number,
    read,
    require_mica,
    unreadable,
    version,
    words,
)
from mica.link.board import Link
from mica.link.targets import open_board
from mica.printable import printable

OK, WARNING, BAD = "ok", "warning", "bad"
_BESIDE = 4096  # bytes of heap that a model takes beside its tensors and its file


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at: a short name, how it is, what was found, and what to do where it is not well."""

    what: str
    state: str
    text: str
    todo: str = ""


def examine(target: str, expected: BoardSpec | None = None) -> list[Finding]:
    """Everything about a target of `--on`. `expected`: the board that the person says it is.

    A program that runs on the board is interrupted. Raises nothing for what is wrong with a board or its port.
    """
    try:
        port = ports.the_only_port() if target == "auto" else target
        found = [Finding("port", OK, port)] if ports.is_port_name(port) else [Finding("board", OK, f"emulated {port}")]
        with open_board(port) as board:
            return found + judge(parse(ask(board, on_board.call("probe"))), expected)
    except MicaError as error:
        return [failed(error)]


def failed(error: MicaError) -> Finding:
    """The finding that an error of a port or a board is."""
    return Finding("port", BAD, error.found, error.todo)


def parse(answer: Answer) -> dict[str, list[str]]:
    """Lines of the probe: key -> values, one a line."""
    answers: dict[str, list[str]] = {}
    for key, value in answer.lines():
        answers.setdefault(key, []).append(value.strip())
    return answers


def _read(one: Mapping[str, str], key: str, *fields: Field) -> tuple[Any, ...]:
    """The fields of one value. Raises BoardError where the board has answered something else."""
    try:
        return read(one[key], fields)
    except (KeyError, ValueError) as error:
        raise unreadable("the board", f"mica:{key} {one.get(key, '')}", str(error)) from None


def judge(answers: Mapping[str, list[str]], expected: BoardSpec | None) -> list[Finding]:
    """Findings from what the board has answered."""
    one = {key: values[0] for key, values in answers.items()}
    python, machine = printable(one.get("micropython", "?")), printable(one.get("machine", "?"))
    found = [Finding("micropython", OK, f"{python} on {machine}")]
    facts = board_of(one)
    found += _board(one, facts, expected)
    if "engine" not in one or "mica" not in one:
        return [*found, _no_mica(one, facts or expected), *_memory(one)]
    (there,) = _read(one, "mica", version)
    found.append(_version(there, facts or expected))
    for folder in answers.get("unused", []):
        text = f"{printable(folder)}/_mica.mpy is not used: this firmware has mica built in, and imports that first"
        found.append(Finding("mica", WARNING, text, f"remove it: mpremote rm :{printable(folder)}/_mica.mpy"))
    form, isa, arena, kernels = _read(one, "engine", format_version, words, number, words)
    found += _engine(form, isa, arena, kernels.split(","), facts)
    return [*found, *_memory(one), *_models(one, answers.get("model", []))]


def board_of(one: Mapping[str, str]) -> BoardSpec | None:
    """The board of `mica boards` that the firmware was built for; None for firmware of others."""
    name = one.get("build", "")
    return load_board(name) if name in board_names() or name in stock_boards() else None


def _board(one: Mapping[str, str], facts: BoardSpec | None, expected: BoardSpec | None) -> list[Finding]:
    if expected is None or "build" not in one:
        return []
    built = printable(one["build"]) or "a board that it does not name"
    if facts is not None and facts.name == expected.name:
        return [Finding("firmware", OK, f"built for {expected.name}")]
    return [
        Finding(
            "firmware",
            BAD,
            f"the firmware was built for {built}, and the board is said to be {expected.name}",
            f"flash the right one: mica flash --board {expected.name} --on auto",
        )
    ]


def _no_mica(one: Mapping[str, str], facts: BoardSpec | None) -> Finding:
    half = "half of mica" if "engine" in one or "mica" in one else "no mica"
    return Finding(
        "mica",
        BAD,
        f"{half} in this firmware ({printable(one.get('nomica', 'the module _mica is missing'))})",
        flash_line(facts),
    )


def flash_line(facts: BoardSpec | None) -> str:
    """The advice that names the command to put mica onto a board."""
    if facts is not None and facts.port.stock:
        return f"add it to this firmware: mica natmod --board {facts.name} --package DIR"
    return f"flash a firmware with it: mica flash --board {facts.name if facts else 'B'} --on auto"


def compare(found: str) -> int:
    """Mica on the board against mica here, by major and minor version: -1 older, 0 as old, 1 newer."""
    board, here = (tuple(int(n) for n in re.findall(r"\d+", text)[:2]) for text in (found, mica.__version__))
    return (board > here) - (board < here)


def _version(found: str, facts: BoardSpec | None) -> Finding:
    order = compare(found)
    if order < 0:
        return Finding(
            "mica", BAD, f"mica {found} on the board is older than {mica.__version__} here", flash_line(facts)
        )
    if order > 0:
        todo = "update it: pip install --upgrade mica-mcu"
        return Finding("mica", BAD, f"mica {found} on the board is newer than {mica.__version__} here", todo)
    return Finding("mica", OK, found)


def _engine(form: str, isa: str, arena: int, kernels: list[str], facts: BoardSpec | None) -> list[Finding]:
    found = []
    if int(form.split(".")[0]) != schema.VERSION_MAJOR:
        text = f"it reads files of format {form}; mica pack writes {schema.VERSION_MAJOR}.{schema.VERSION_MINOR}"
        found.append(Finding("format", BAD, text, flash_line(facts)))
    missing = [k.name for k in KERNELS if k.name not in kernels]
    if missing:
        text = f"{len(missing)} of {len(KERNELS)} are not in this firmware: {', '.join(missing)}"
        found.append(
            Finding("kernels", WARNING, text, "models that use them run slowly or not at all; see mica build -h")
        )
    else:
        found.append(Finding("kernels", OK, f"all {len(kernels)}, for {isa}"))
    if isa == "ref" and facts is not None and facts.isa not in ("ref", "host"):
        text = f"the plain kernels, on a core that has faster ones ({facts.isa})"
        found.append(Finding("kernels", WARNING, text, f"build it again: mica build --board {facts.name}"))
    if arena == 0:
        found.append(
            Finding("arena", WARNING, "none: every model takes its own from the heap", "see mica build --arena")
        )
    else:
        found.append(Finding("arena", OK, f"{arena:,} bytes"))
    return found


def _memory(one: Mapping[str, str]) -> list[Finding]:
    found = []
    if "clock" in one:
        (clock,) = _read(one, "clock", number)
        found.append(Finding("clock", OK, f"{clock / 1e6:g} MHz"))
    free, used = _read(one, "heap", number, number)
    if free < 16 * 1024:
        text = f"{free:,} bytes free, {used:,} in use at the start"
        found.append(Finding("heap", WARNING, text, "does boot.py or main.py take it? rename them and reset the board"))
    else:
        found.append(Finding("heap", OK, f"{free:,} bytes free"))
    return found


def _models(one: Mapping[str, str], models: list[str]) -> list[Finding]:
    found = []
    (window,) = _read(one, "romfs", number) if "romfs" in one else (0,)
    if window == 0:
        text = "none: models are copied into RAM"
        found.append(Finding("romfs", WARNING, text, "the firmware of mica build has one"))
    else:
        found.append(Finding("romfs", OK, f"a window of {window:,} bytes"))
    listed = []
    for model in models:
        size, path = _read({"model": model}, "model", number, name)
        listed.append(f"{printable(path)} ({size:,} bytes)")
    if listed:
        found.append(Finding("models", OK, ", ".join(listed)))
    else:
        found.append(Finding("models", WARNING, "none on the board", "send one: mica push M.mica --on auto"))
    return found


def check_board(board: Link, data: bytes) -> None:
    """Raises MicaError where the mica on a board cannot work with this one, or cannot read the model `data`."""
    found = [_version(require_mica(board), None)]
    (form,) = ask(board, on_board.source("engine_format")).one("engine", format_version)
    major, minor = struct.unpack_from("<HH", data, 4)
    reads = int(form.split(".")[0])
    if major != reads:
        text = f"it reads models of format {reads}; this one has format {major}.{minor}"
        found.append(
            Finding("format", BAD, text, flash_line(None) if major > reads else "pack the model again: mica pack")
        )
    for finding in found:
        if finding.state == BAD:
            raise MicaError(f"{board.name}: {finding.text}", todo=finding.todo)


def out_of_memory(board: Link, working: int, size: int) -> MicaError:
    """The error for a board whose heap does not take a model. working: bytes of tensors and scratch;
    size: of the file, 0 where it is read in flash."""
    takes = f"the model takes {working:,} bytes for tensors and scratch" + (
        f", and {size:,} for a copy of the file" if size else ""
    )
    try:
        answer = ask(board, on_board.call("memory"))
        free, largest, arena, window = answer.one("memory", number, number, number, number)
    except MicaError:  # there is not even the room to ask
        return MicaError(f"{board.name} is out of memory: {takes}", todo="reset the board and try again")
    block = working if working > arena else 0  # of the heap
    has = f"{free:,} bytes of its heap are free, the largest piece has {largest:,}"
    room = (largest if window or not size else free - size) - _BESIDE  # for the block
    todos = []
    if block + size <= free and max(block, size) > largest - _BESIDE:
        todos = ["reset the board: its heap is in pieces"]
    else:
        if size and window:
            todos = ["put it into flash, where it is read without a copy: mica push"]
        if block > room:
            less = max(room, arena)
            todos.append(f"pack it for less RAM: mica pack --ram {less}" if less else "mica fit says what fits")
    todo = "; ".join(todos) or "reset the board and try again"
    return MicaError(f"{board.name} is out of memory: {takes}; {has}", todo=todo)
