"""`mica fleet bench`; fleet.py has its arguments."""

import argparse
import dataclasses
from typing import Any

from mica.cli import target, text
from mica.cli.text import say
from mica.errors import MicaError
from mica_fleet.cutting import run_parts
from mica_fleet.open import is_fleet, links_of
from mica_fleet.timing import TimedRunner, made_up, measure


def bench(args: argparse.Namespace) -> int:
    if not 0 < args.seconds <= 3600:
        raise MicaError(f"--seconds {args.seconds:g}", todo="expected more than 0, up to 3600")
    data, *others = target.read_parts(args.model)
    where = args.fleet if is_fleet(args.fleet) else f"fleet:{args.fleet}"
    open_links = links_of([data, *others], where, say, spread=True)
    with TimedRunner(data, where, open_links, say, others=others) as runner:
        samples = made_up(runner)
        right = [[y.tobytes() for y in run_parts([data, *others], x)[0]] for x in samples]
        t = measure(runner, right, samples, args.seconds)
    result = {
        "target": where,
        "samples": t.samples,
        "seconds": t.seconds,
        "rate": t.samples / t.seconds,
        "p50_ms": 1000 * t.p50,
        "p99_ms": 1000 * t.p99,
        "longest_ms": 1000 * t.longest,
        "boards": t.by,
        "stages": [dataclasses.asdict(s) for s in t.stages],
        "asked_again": t.asked_again,
        "lost_boards": t.lost_boards,
        "wrong": t.wrong,
    }
    text.show(args, result, report)
    return 1 if t.wrong else 0


def report(r: dict[str, Any]) -> str:
    """The report for people."""
    each = [
        (
            s["part"],
            s["board"],
            s["answers"],
            f"{s['answers'] / r['seconds']:.1f}",
            f"{s['ms']:.1f}",
            "-" if s["predicted_ms"] is None else f"{s['predicted_ms']:.1f}",
        )
        for s in r["stages"]
    ]
    return "\n".join(
        [
            text.table(("part", "board", "answers", "a second", "ms", "predicted"), each, "rlrrrr"),
            f"{r['rate']:,.1f} samples a second ({r['samples']:,} in {r['seconds']:.1f} s); an answer takes "
            f"{r['p50_ms']:.0f} ms (half), {r['p99_ms']:.0f} ms (99 of 100), {r['longest_ms']:.0f} ms (the longest)",
            f"boards lost {r['lost_boards']}, requests asked again {r['asked_again']}, wrong {r['wrong']}",
        ]
    )
