"""Writes host_tools/mica_fleet/FLEETS.md: 10 to 1,000,000 boards, by fleet_sim.py and the real Rollout.

To be run, and its results committed, when the dispatcher, the rollout or what they are assumed to cost changes.
--most N leaves rows of more boards as they stand on the page.
With --check nothing is written: the rows that take no more than moments have to be what the simulators say today.
"""

import argparse
import math
import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from fleet_returns import returns
from fleet_sim import Plan, Simulation
from rollout_sim import Push, roll_out

from mica_fleet.dispatch import Settings
from mica_fleet.rollout import Terms

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "host_tools" / "mica_fleet" / "FLEETS.md"
CHECKED = {"rate": 1000}  # boards; of other tables the first row
SHARES = (1, 10, 25, 50, 75, 90, 95, 97, 100)  # per cent
LONGEST = 120.0  # seconds that a return is followed

Row = list[str]
Table = dict[int, Row]  # by the number of boards


def number(x: float) -> str:
    return f"{x:,.0f}" if x >= 100 else f"{x:.1f}" if x >= 10 else f"{x:.2f}"


def limits(boards: int) -> Row:
    """Requests a second without a broker's or coordinator's cost, with the broker's, and with both."""
    cells = [number(boards / 0.1)]
    for coordinator in (0.0, Plan([], 0).coordinator):
        n = min(max(20 * boards, 200), 20_000)
        begin = 1.0 + boards * coordinator
        plan = Plan([0.1] * boards, n, coordinator=coordinator, begin=begin, settings=Settings(audit=0, first_audits=0))
        cells.append(number(Simulation(plan).run().rate))
    return cells


def reached(times: Sequence[float], boards: int) -> Row:
    """Seconds at which each of SHARES was reached; - for never."""
    counts = [max(1, math.ceil(boards * share / 100)) for share in SHARES]
    return [number(times[n - 1]) if n <= len(times) else "-" for n in counts]


def rollout(boards: int) -> Row:
    return reached(roll_out(Push(boards)).reached, boards)


def stopped(boards: int) -> Row:
    at_once = roll_out(Push(boards, bad=0.05))
    slowly = roll_out(Push(boards, bad=0.05, terms=Terms(rate=6000)))
    return [f"{at_once.touched:,}", number(at_once.seconds), f"{slowly.touched:,}", number(slowly.seconds)]


def comeback(boards: int) -> Row:
    return reached(returns(boards, most=LONGEST), boards)


SHARE_NAMES = tuple(f"{share} %" for share in SHARES)
MANY = (10_000, 100_000, 1_000_000)
# Heading, columns, numbers of boards, and what gives a row.
TABLES: tuple[tuple[str, tuple[str, ...], tuple[int, ...], Callable[[int], Row]], ...] = (
    ("rate", ("boards alone", "and the broker", "and the coordinator"), (10, 100, 1000, 3000, *MANY), limits),
    ("return", SHARE_NAMES, (*MANY[:2], 200_000, MANY[2]), comeback),
    ("rollout", SHARE_NAMES, MANY, rollout),
    ("stopped", ("boards that were told", "seconds", "told with `--rate 6000`", "seconds"), MANY, stopped),
)


TEXT = """# Fleets of up to a million boards

Written by `scripts/fleet_tables`. Nothing here was measured on boards. The real dispatcher and rollout run on a
virtual clock (`fleet_sim.py`, `fleet_returns.py` and `rollout_sim.py` in `tests/fleet`). Costs were measured with
mosquitto on one core: 12 us of the broker for a message, 58 us for a connection, 80 us of the coordinator for an
event. Real boards add their radio.

## The limits of one broker and one coordinator

Requests a second of boards that take 100 ms. The coordinator, a program in Python, is the first limit. For more, use
one for each fleet or model. A broker alone passes on some 40,000 requests a second, two messages each.

{rate}
## All boards come back at once

The broker was away for one second. The table has seconds from its start until the coordinator knows this share of the
boards. An agent waits 250 ms and as much again at random, doubled up to 8 s, and gives up after 5 s without an answer.
One mosquitto takes some 17,000 connections a second. If more boards try than it serves in 5 s, it also works for boards
that have given up. So of a million boards only the first are back after {longest:.0f} s (-).
So many need several brokers.

{return}
## A rollout

A model of 48 kB for boards that take 50 kB/s, in waves of 1, 10 % and 100 %. The broker sends 100 MB/s. 2 % of the
boards are off. Seconds until this share has the model:

{rollout}
The gate looks at the first 20 answers and stops a model that fails on 5 % of the boards. By then the whole second wave
has been told, unless a rate (here 6,000 boards a minute) slows it down:

{stopped}"""


def table_text(name: str, tables: dict[str, Table]) -> str:
    columns = next(c for n, c, _, _ in TABLES if n == name)
    lines = ["| boards | " + " | ".join(columns) + " |", "| ---: |" + " ---: |" * len(columns)]
    return "\n".join(lines + [f"| {n:,} | " + " | ".join(row) + " |" for n, row in tables[name].items()]) + "\n"


def page(tables: dict[str, Table]) -> str:
    return TEXT.format(longest=LONGEST, **{name: table_text(name, tables) for name, *_ in TABLES})


def read() -> dict[str, Table]:
    """The tables of the page as it is."""
    found: list[Table] = []
    for block in re.findall(r"(?:^\|.*\n)+", PAGE.read_text(encoding="utf-8"), flags=re.M):
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()[2:]]
        found.append({int(first.replace(",", "")): rest for first, *rest in rows})
    return {name: table for (name, *_), table in zip(TABLES, found, strict=True)}


def tables_of(
    most: dict[str, int], old: dict[str, Table], say: Callable[..., object] = lambda *_: None
) -> dict[str, Table]:
    """Rows of up to so many boards as they are today, the others as they were."""
    found: dict[str, Table] = {}
    for name, _, sizes, row in TABLES:
        found[name] = {}
        for n in sizes:
            found[name][n] = row(n) if n <= most.get(name, MANY[0]) else old[name][n]
            say(name, n, *found[name][n])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/fleet_tables", description=__doc__)
    parser.add_argument("--check", action="store_true", help="only compare")
    parser.add_argument("--most", type=int, default=MANY[-1], metavar="N", help="simulate fleets of up to N boards")
    args = parser.parse_args()
    old = read() if args.check or args.most < MANY[-1] else {}
    if args.check:
        tables = tables_of(CHECKED, old)
    else:
        tables = tables_of({name: args.most for name, *_ in TABLES}, old, partial(print, file=sys.stderr, flush=True))
    if not args.check:
        PAGE.write_text(page(tables), encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != page(tables):
        print(
            "fleet_tables: FLEETS.md is not what the simulators give today; run scripts/fleet_tables", file=sys.stderr
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
