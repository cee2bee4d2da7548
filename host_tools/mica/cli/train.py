"""mica train: a model from labelled recordings, pictures or a table, without another framework.

A quarter is held out, and the figures at the end are of it alone. With --ms, --ram or --flash no network is taken that
would break them. Ctrl-C keeps the best so far; the same command goes on there.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mica.cli import options, outputs, text
from mica.errors import MicaError
from mica.listen import detection, suggest
from mica.printable import three_digits

if TYPE_CHECKING:
    from mica.training.run import Result
    from mica.training.search import Candidate

JSON_KEYS = (
    "file, onnx, kind, labels[], board, accuracy, float_accuracy, trained, held, confusion, ms, ram, flash, seconds, "
    "notes[], wake, tried[] (name, ms, ram, flash, fault, accuracy, steps, chosen)"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", metavar="DATA", help="a folder with a folder for each label, a .zip of one, or a .csv")
    parser.add_argument("-o", "--output", metavar="M.mica", help="default: DATA.mica; the float network is M.onnx")
    options.add(
        parser,
        """
        --board B           the model has to fit this board (RPI_PICO)
        --ms MS             milliseconds of a run, at most
        --ram N[K]          bytes of tensors and scratch
        --flash N[K]        of the file
        --minutes M         how long it may take (5)
        --seed N            of all chance (0)
        --noise FOLDER      noise to mix with sound
        --alarms N          thresholds for N false alarms an hour of --background (1 with --say)
        --background FOLDER  long recordings without the words (--say makes some)
        --report F.html     write a page to look at
        """,
        ms={"type": float},
        alarms={"type": float},
        minutes={"type": float, "default": 5.0},
        seed={"type": int, "default": 0},
    )
    parser.add_argument("--say", metavar="WORDS", action="append", help="clips of these words by espeak-ng")
    parser.add_argument("--kind", choices=("sound", "motion", "picture", "table"), help="where the files do not tell")
    parser.add_argument("--weights", type=int, choices=(4, 8), default=8, help="bits of a weight (8)")


def run(args: argparse.Namespace) -> int:
    from mica.training import page, say, wake
    from mica.training import run as training

    output = Path(args.output) if args.output else Path(args.data).with_suffix(".mica")
    for option, path in (("-o", output), ("-o", output.with_suffix(".onnx")), ("--report", args.report)):
        if path:
            outputs.check(option, Path(path), [("the data", args.data)])
    if not args.say and (args.alarms is None) != (args.background is None):
        raise MicaError("--alarms and --background go together", todo="give both, or none")
    names = {field.name for field in dataclasses.fields(training.Options)}
    given = {name: value for name, value in vars(args).items() if name in names}
    alarms = args.alarms if args.alarms is not None else suggest.MOST_AN_HOUR if args.say else None
    chosen = training.Options(
        **given, other=alarms is not None, name=output.stem, resume=output.with_name(f".{output.name}.training")
    )
    line = _Line()
    heard = None
    with text.watch() as watch, line:
        if args.say:
            say.make(args.say, Path(args.data), progress=lambda done, of: line("speaking", done, of))
        result = training.train(args.data, chosen, text.say, line, watch)
        result.save(output)
        if alarms is not None and result.kind == "sound":
            with tempfile.TemporaryDirectory(prefix="mica-") as made:
                if not args.background:
                    say.make(args.say, Path(made), judging=True)
                told = functools.partial(line, "listening")
                heard = wake.choose(result.packed, result.held, Path(args.background or made), alarms, told)
            data = detection.with_thresholds(result.packed, heard.thresholds, wake.MEAN)
            if (most := chosen.contract().flash) is None or len(data) <= most:
                cost = dataclasses.replace(result.cost, flash=len(data))
                result = dataclasses.replace(result, packed=data, cost=cost)
                result.save(output)
    if result.saved:
        result.saved.forget()
    if args.report:
        outputs.write(Path(args.report), page.html(result, heard).encode())
    found = facts(result, output) | ({} if heard is None else {"wake": dataclasses.asdict(heard)})
    text.show(args, found, lambda _: "\n".join([report(result, output), *(heard.lines() if heard else ())]))
    return 0


class _Line(text.Progress):
    """Progress that also says how long it will take."""

    def __init__(self) -> None:
        super().__init__("")

    def __call__(self, what: str, done: int, of: int, left: float = 0.0) -> None:  # type: ignore[override]
        self.what = f"{what}, {left:.0f} s left" if left else what
        super().__call__(done, of)


def facts(r: Result, output: Path) -> dict[str, Any]:
    """Return the keys of --json."""
    return {
        "file": str(output),
        "onnx": str(output.with_suffix(".onnx")),
        "kind": r.kind,
        "labels": list(r.labels),
        "board": r.board,
        "accuracy": r.accuracy,
        "float_accuracy": r.float_accuracy,
        "trained": len(r.train.labels),
        "held": len(r.held.labels),
        "confusion": r.confusion.tolist(),
        **_of(r.cost, "ms ram flash"),
        "seconds": round(r.seconds, 1),
        "notes": [*r.held.notes, *r.notes],
        "tried": [_of(c, "name ms ram flash fault accuracy steps chosen") for c in r.tried],
    }


def _of(c: Candidate, names: str) -> dict[str, Any]:
    return {name: getattr(c, name) for name in names.split()}


def report(r: Result, output: Path) -> str:
    """Return the tables for a terminal."""
    trained = [c for c in r.tried if c.accuracy is not None or c.chosen]
    rows = [
        (
            c.name,
            "-" if c.ms is None else three_digits(c.ms),
            text.count(c.ram),
            text.count(c.flash),
            "-" if c.accuracy is None else text.percent(c.accuracy),
            "<- chosen" if c.chosen else "",
        )
        for c in sorted(trained, key=lambda c: (c.ms or 0, c.flash))
    ]
    counts = r.confusion.tolist()
    right = [
        (name, sum(row), text.percent(row[k] / max(1, sum(row))))
        for k, (name, row) in enumerate(zip(r.labels, counts, strict=True))
    ]
    ms = "never measured" if r.cost.ms is None else f"{three_digits(r.cost.ms)} ms"
    broken = sum(bool(c.fault) for c in r.tried)
    lines = [
        text.table(("candidate", "ms", "RAM", "flash", "chosen by", ""), rows, "lrrrrl"),
        f"{len(r.tried)} networks weighed" + (f", {broken} of them beyond the contract" if broken else ""),
        "",
        text.table(("label", "held out", "right"), right, "lrr"),
        "",
        f"accuracy    int8 {text.percent(r.accuracy)}, float {text.percent(r.float_accuracy)}, on {len(r.held.labels)} "
        f"examples that training never saw; {len(r.train.labels)} to learn from",
        f"on {r.board:8} {ms}, {text.count(r.cost.ram)} bytes of RAM, {text.count(r.cost.flash)} of flash",
        f"model       {output}; the float network is {output.with_suffix('.onnx')}",
    ]
    return "\n".join(lines)
