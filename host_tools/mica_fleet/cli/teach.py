"""`mica fleet teach`: the heads of all boards are added up; fleet.py has its arguments."""

import argparse
from pathlib import Path
from typing import Any

from mica.cli import heads, outputs, target, text
from mica.cli.text import say
from mica.errors import MicaError
from mica.file import codec
from mica_fleet import teach as lessons
from mica_fleet.push import Fleet
from mica_fleet.site import read_site


def teach(args: argparse.Namespace) -> int:
    site = read_site(args.fleet)
    data = target.read_model(args.model)
    width = heads.width(codec.decode(data), args.model)
    if args.most < 1 or args.seconds <= 0:
        raise MicaError(f"--most {args.most}, --seconds {args.seconds:g}", todo="expected positive numbers")
    if args.output:
        outputs.check("-o", Path(args.output), [("the model", args.model)])
    terms = {"path": args.learnt, "most": args.most, "forget": args.forget, "seconds": args.seconds}
    with Fleet(site, say) as fleet:
        total, boards = lessons.teach(fleet, Path(args.model).name, data, width, **terms)
    if args.output:
        outputs.write(Path(args.output), total.state())
    result = {"fleet": site.fleet, "size": len(total.state()), "file": args.output, "labels": heads.labels_of(total)}
    result["boards"] = [{"board": b, "state": s, "reason": why} for b, (s, why) in boards.items()]
    text.show(args, result, report)
    return 0 if all(state == "taught" for state, _ in boards.values()) else 1


def report(r: dict[str, Any]) -> str:
    """The labels of the sum, and boards that have not got it."""
    n = sum(b["state"] == "taught" for b in r["boards"])
    lines = [f"{b['board']} {b['state']}: {b['reason']}" for b in r["boards"] if b["reason"]]
    return "\n".join([heads.table(r), "", *lines, f"{n} of {len(r['boards'])} boards have it"])
