"""mica teach: a head learns labels from examples, on the embeddings of a model that mica pack --embedding made.

The head is the one that mica.Learner has on a board, to the same bytes; `mica push` puts it there.
"""

import argparse
import re
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

from mica.cli import heads, left_out, outputs, target, text
from mica.cli.text import say
from mica.errors import MicaError
from mica.learn import KINDS, Head, digest
from mica.run import examples

JSON_KEYS = (
    "file, size, kind, width, target, labels[] (label, examples), settings[] (loose, accepted, taken), "
    "changes[] (change, alarms)"
)
DAYS = {"hour": 1 / 24, "day": 1, "week": 7, "month": 30}
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def _split(said: str, times: str, expected: str) -> tuple[float, str]:
    """Return the number and what stands behind it."""
    found = re.fullmatch(rf"(\d+|\d*\.\d+)({times})?", said)
    if found is None:
        raise argparse.ArgumentTypeError(f"{said}: expected such as {expected}")
    return float(found[1]), found[2] or ""


def _a_day(said: str) -> float:
    """Return how many a day 2/week is; a number alone counts by the day."""
    n, time = _split(said, "/hour|/day|/week|/month", "1/hour, 1/day, 1/week or 1/month")
    return n / DAYS[time[1:] or "day"]


def _judged(said: str) -> float:
    """Return how many recordings a day has where one is judged every 60s, 5m or 1h; a number alone is seconds."""
    n, unit = _split(said, "s|m|h|d", "60s, 5m or 1h")
    return 86400 / n / SECONDS[unit or "s"] if n else 0


SETTINGS: dict[str, tuple[str, str, Callable[[str], Any], str]] = {
    "loose": ("loose", "X", float, "how much farther than usual an example may be (2.75)"),
    "alarms": ("alarms", "N/TIME", _a_day, "of anomaly: false alarms tolerated, as 2/week (1/day)"),
    "every": ("judged", "TIME", _judged, "of anomaly: from a recording to the next, as 5m (60s)"),
    "keep": ("keep", "N", int, "examples kept of a label (20); a prototype halves at 2 * N"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    data = (
        "a folder with a folder of sound files, pictures or .npz files for each label, or with files of one label, its "
        "own name. Or an .npz with x and y, or a table with a column label"
    )
    kind = "prototype, the default: the nearest mean; softmax: weights for each label; "
    kind += "anomaly: far from all that was learnt"
    add = (
        "go on with this head: labels are added, and examples to labels. Prototypes of several boards are added up: "
        "--head A --head B"
    )
    parser.add_argument("model", metavar="M.mica")
    parser.add_argument("data", metavar="DATA", nargs="?", help=data)
    parser.add_argument("-o", "--output", metavar="HEAD.learnt", help="default: M.learnt beside the model")
    parser.add_argument("--kind", choices=KINDS, default=KINDS[0], help=kind)
    parser.add_argument("--shots", metavar="N", type=int, help="the first N examples of each label; default: all")
    parser.add_argument("--head", metavar="OLD.learnt", action="append", default=[], help=add)
    rule = parser.add_argument_group("what is unknown")
    for name, (of_head, metavar, kind_of, says) in SETTINGS.items():
        rule.add_argument(f"--{name}", dest=of_head, metavar=metavar, type=kind_of, help=says)
    target.add_on(parser)


def run(args: argparse.Namespace) -> int:
    data = target.read_model(args.model)
    output = Path(args.output) if args.output else Path(args.model).with_suffix(".learnt")
    outputs.check("-o", output, [("the model", args.model)])
    if args.data is None and not args.head:
        raise MicaError("teach: there is no DATA", todo="give a folder of examples, or heads to add up with --head")
    if args.shots is not None and args.shots < 1:
        raise MicaError(f"--shots {args.shots}", todo="expected 1 or more")
    with target.open_model(args.model, args.on, custom=target.custom_of(args)) as runner:
        head = _head(args, data, heads.width(runner.model, args.model))
        every = examples.read(args.data, runner.model, say) if args.data else []
        given = [e for _, group in groupby(every, lambda e: e.label) for e in list(group)[: args.shots]]
        with text.watch() as watch:
            taught = list(heads.embedded(given, runner, watch.progress))
        for label, x in taught:
            head.teach(x, label)
        result = {"file": str(output), "kind": head.kind, "width": head.width, "target": runner.target}
    state = head.state()
    outputs.write(output, state)
    alone = taught if not args.head else []  # what an older head was taught is not there
    says = {
        "settings": left_out.settings(head, alone) if alone and head.kind != "anomaly" else [],
        "changes": left_out.changes(head, alone) if alone and head.kind == "anomaly" else [],
    }
    text.show(args, {**result, "size": len(state), "labels": heads.labels_of(head), **says}, report)
    return 0


def _head(args: argparse.Namespace, data: bytes, width: int) -> Head:
    """A new one, or the sum of those of --head. Raises MicaError."""
    settings = {name: v for name, *_ in SETTINGS.values() if (v := getattr(args, name)) is not None}
    if not args.head:
        return Head(args.kind, width, model=digest(data), **settings)
    if settings:
        option = next(option for option, (name, *_) in SETTINGS.items() if name in settings)
        raise MicaError(f"--{option}: the head of --head has its own", todo="leave it out")
    first, *others = (heads.read(path, data) for path in args.head)
    for other in others:
        first.add(other)
    return first


def report(r: dict[str, Any]) -> str:
    """The labels, what the head accepts at three settings, and what the file is."""

    def share(x: float | None) -> str:
        return "-" if x is None else text.percent(x)

    size = f"{text.count(r['size'])} bytes, {r['kind']} of {r['width']} numbers, by embeddings on {r['target']}"
    parts = [heads.table(r)]
    if r["settings"]:
        rows = [(f"{s['loose']:.4g}", share(s["accepted"]), share(s["taken"])) for s in r["settings"]]
        parts.append(text.table(("--loose", "accepted, left out", "taken of a label left out"), rows, "rrr"))
    if r["changes"]:
        moved = [(str(c["change"]), share(c["alarms"])) for c in r["changes"]]
        parts.append(text.table(("a quarter of the numbers moves by deviations", "alarms"), moved, "lr"))
    if [row["examples"] for row in r["labels"]] == [1]:
        parts.append("one example of one label: nothing is unknown to it; teach another, or another label")
    return "\n\n".join([*parts, f"head  {r['file']}: {size}"])
