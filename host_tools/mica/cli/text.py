"""Text that commands print: tables, sizes, progress. Reports go to stdout, everything else to stderr."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from mica.printable import printable, printable_lines

if TYPE_CHECKING:
    from mica.compile import Watch


def table(head: Sequence[str], rows: Sequence[Sequence[object]], right: str = "") -> str:
    """Columns padded to their widest cell; a letter 'r' at a column's place in `right` aligns it to the right."""
    cells = [[printable(str(c)) for c in row] for row in [head, *rows]]
    widths = [max(len(row[k]) for row in cells) for k in range(len(head))]

    def line(row: list[str]) -> str:
        aligned = (
            c.rjust(w) if right[k : k + 1] == "r" else c.ljust(w)
            for k, (c, w) in enumerate(zip(row, widths, strict=True))
        )
        return "  ".join(aligned).rstrip()

    rule = "  ".join("-" * w for w in widths)
    return "\n".join([line(cells[0]), rule, *(line(row) for row in cells[1:])])


def shape(dims: Sequence[int]) -> str:
    """[1, 8, 8, 16] -> 1x8x8x16."""
    return "x".join(str(d) for d in dims) or "scalar"


def count(n: int) -> str:
    """12501632 -> 12,501,632."""
    return f"{n:,}"


def percent(x: float) -> str:
    return f"{100 * x:.2f} %"


def metric(name: str, value: float) -> str:
    """A metric's value as people read it."""
    return percent(value) if name == "top1" else f"{value:.4f}"


def emit_json(result: dict[str, Any]) -> None:
    """One object on stdout."""
    json.dump(result, sys.stdout, indent=2)
    sys.stdout.write("\n")
    sys.stdout.flush()  # a command may go on for hours: mica emu


def show(args: argparse.Namespace, result: dict[str, Any], lines: str | Callable[[dict[str, Any]], str]) -> None:
    """The result: with --json as one object, else as a text, or by a function that makes one of it."""
    if args.json:
        emit_json(result)
    else:
        print(lines if isinstance(lines, str) else lines(result))


class Progress(contextlib.AbstractContextManager["Progress"]):
    """`progress(done, of)` on stderr: a line that moves on a terminal, a line every few seconds elsewhere.

    Usage: `with Progress("calibrating") as p: work(progress=p)`. Silent for work shorter than half a second.
    """

    def __init__(self, what: str, unit: str = "", stream: TextIO | None = None) -> None:
        self.what = what
        self.unit = f" {unit}" if unit else ""
        self.stream = stream or sys.stderr
        self.tty = self.stream.isatty()
        self.begun = self.shown = 0.0  # when the work itself began: what prepares it has a voice of its own
        self.open_line = False
        self.last = -1  # what was shown last, where every line stays

    def __call__(self, done: int, of: int) -> None:
        now = time.monotonic()
        if not self.begun:
            self.begun = self.shown = now
        due = 0.1 if self.tty else 5.0
        if now - self.begun < 0.5 or (now - self.shown < due and done < of):
            return
        if not self.tty and not self.open_line and done >= of:
            return  # it was over before the first line was due
        if not self.tty and done == self.last:
            return
        self.last = done
        self.shown = now
        line = f"{self.what}: {done} of {of}{self.unit} ({now - self.begun:.0f} s)"
        self.stream.write(f"\r\x1b[K{line}" if self.tty else line + "\n")
        self.stream.flush()
        self.open_line = True

    def __exit__(self, *exc: object) -> None:
        if self.open_line and self.tty:
            self.stream.write("\r\x1b[K")
            self.stream.flush()


UNITS = {"four bits": "layers"}  # what a stage of a compile counts; all others count samples


@contextlib.contextmanager
def watch() -> Iterator[Watch]:
    """The hooks of a compile: progress, warnings and notes on stderr."""
    from mica.compile import Watch

    with contextlib.ExitStack() as lines:
        shown: dict[str, Progress] = {}

        def progress(what: str, done: int, of: int) -> None:
            if what not in shown:
                shown[what] = lines.enter_context(Progress(what, UNITS.get(what, "samples")))
            shown[what](done, of)

        yield Watch(
            progress,
            lambda line: print(f"mica: warning: {line}", file=sys.stderr),
            lambda line: print(f"mica: {line}", file=sys.stderr),
        )


def say(message: str) -> None:
    """Print a remark on stderr; stdout is for results."""
    print(f"mica: {printable_lines(message)}", file=sys.stderr, flush=True)
