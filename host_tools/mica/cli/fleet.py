"""mica fleet: many boards as one.

A fleet is a target: `mica eval M.mica D.npz --on usb:all` shares the samples out over every board that is plugged in, and
`--on fleet:UNIX*3,MPS2_AN385` over these. `mica fleet sim` says beforehand what so many boards would do.
"""

from __future__ import annotations

import argparse
from typing import Any

from mica.cli import text
from mica.errors import MicaError

_MOST_BOARDS = 200  # far more are near one coordinator's limit, which the simulator was not compared with

JSON_KEYS = "boards, requests, rate, of_ideal, p50_ms, p99_ms, longest_ms, lost, wrong, counts"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    sim = commands.add_parser("sim", help="the real dispatcher with simulated boards, on a virtual clock")
    sim.add_argument("--boards", type=int, default=8, metavar="N", help="how many (default 8)")
    sim.add_argument(
        "--ms", type=float, default=100.0, metavar="MS", help="what one run takes on a board (default 100)"
    )
    sim.add_argument("--requests", type=int, metavar="N", help="how many (default: 60 for each board)")
    sim.add_argument(
        "--kill-every", type=float, default=0.0, metavar="S", help="a random board loses power so often, in seconds"
    )
    sim.add_argument("--seed", type=int, default=0, help="of what is random")
    sim.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    result = simulate(args.boards, args.ms, args.requests, args.kill_every, args.seed)
    if args.json:
        text.emit_json(result)
    else:
        print(report(result))
    return 0 if not result["lost"] and not result["wrong"] else 1


def simulate(boards: int, ms: float, requests: int | None, kill_every: float, seed: int) -> dict[str, Any]:
    """The keys of `mica fleet sim --json`. Raises MicaError."""
    from mica.fleet.sim import Plan, Simulation

    n = 60 * boards if requests is None else requests
    if not 1 <= boards <= _MOST_BOARDS or not 0 < ms <= 3_600_000 or n < 1 or kill_every < 0:
        raise MicaError(
            f"fleet sim: {boards} boards of {ms:g} ms, {n} requests, a kill every {kill_every:g} s",
            todo=f"expected 1 to {_MOST_BOARDS} boards, more than 0 ms, 1 request or more, and 0 s or more",
        )
    r = Simulation(Plan([ms / 1000] * boards, n, kill_every=kill_every, seed=seed)).run()
    ideal = boards / (ms / 1000)
    return {
        "boards": boards,
        "requests": n,
        "rate": r.rate,
        "of_ideal": r.rate / ideal,
        "p50_ms": 1000 * r.p50,
        "p99_ms": 1000 * r.p99,
        "longest_ms": 1000 * r.longest,
        "lost": r.lost + r.failed,
        "wrong": r.wrong,
        "counts": r.counts,
    }


def report(r: dict[str, Any]) -> str:
    """What people read."""
    counts = r["counts"]
    return (
        f"{r['boards']:,} boards answer {r['rate']:,.1f} requests a second, {text.percent(r['of_ideal'])} of what they could without "
        f"a coordinator\n"
        f"an answer takes {r['p50_ms']:.0f} ms (half of them), {r['p99_ms']:.0f} ms (99 of 100), {r['longest_ms']:.0f} ms (the longest)\n"
        f"boards lost {counts.get('lost_boards', 0)}, requests asked again {counts.get('asked_again', 0)}, lost {r['lost']}, wrong {r['wrong']}"
    )
