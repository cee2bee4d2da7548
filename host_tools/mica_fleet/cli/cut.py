"""`mica fleet cut`: a model for several boards, a part for each. fleet.py has its arguments."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mica.cli import model_options, outputs, target, text
from mica.errors import MicaError, found_at
from mica.printable import three_digits

if TYPE_CHECKING:
    from mica_fleet.cutting import Cut, LinkSpeed

BOARD = "RPI_PICO"  # whose times count where no board is named
RATE, DELAY_MS = "200K", 8.0  # of a link that nobody measured: Wi-Fi


def add_link(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--objective",
        choices=("slowest", "ram", "flash"),
        default="slowest",
        help="which is to be least: the time of the slowest with what it is sent and sends (default), or the most RAM "
        "or flash of any",
    )
    parser.add_argument(
        "--link-rate",
        metavar="N[K|M]",
        help=f"bytes a second between boards and this computer (default {RATE})",
    )
    parser.add_argument(
        "--link-delay",
        metavar="MS",
        type=float,
        help=f"time that a message takes beside its bytes (default {DELAY_MS:g})",
    )


def run(args: argparse.Namespace) -> int:
    """mica fleet cut"""
    from mica.boards import load_board
    from mica_fleet.cutting import MOST, cut

    board = load_board(args.board or BOARD)
    link, measured = _link(args)
    if args.parts != "auto" and not (args.parts.isdecimal() and 2 <= int(args.parts) <= MOST):
        raise MicaError(f"--parts {args.parts}: expected 2 to {MOST}, or auto")
    n = None if args.parts == "auto" else int(args.parts)
    model_options.refuse_options(args, args.model)
    data = model_options.file_bytes(args, args.model, scratch=board.scratch)
    given = Path(args.model)
    must_fit = args.board is not None or n is None
    with found_at(str(given)):
        found = cut(data, n, board, link, args.objective, must_fit, target.custom_of(args))
    name = given.name.removesuffix(".mica") if given.suffix == ".mica" else given.stem
    stem = Path(args.output) if args.output else given.with_name(name)
    of = len(found.stages)
    files = [stem.with_name(f"{stem.name}.{k}of{of}.mica") for k in range(1, of + 1)]
    for file in files:
        outputs.check("-o", file, [("the model", given)])
    for file, stage in zip(files, found.stages, strict=True):
        outputs.write(file, stage.data)
    result = facts(found, files, board.name, link, measured)
    text.show(args, result, report)
    return 0


def _link(args: argparse.Namespace) -> tuple[LinkSpeed, str]:
    """And the board that it was measured at, of `--fleet`; "" where it was given or assumed. Raises MicaError."""
    from mica_fleet.cutting import LinkSpeed
    from mica_fleet.measure import link_speeds
    from mica_fleet.site import read_site

    if args.fleet is not None:
        if args.link_rate is not None or args.link_delay is not None:
            raise MicaError("--fleet measures the links", todo="leave --link-rate and --link-delay out")
        speeds = link_speeds(read_site(args.fleet))
        slowest = max(speeds, key=lambda b: speeds[b][1] + 1000 / speeds[b][0])
        return LinkSpeed(*speeds[slowest]), slowest
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kKmM]?)", args.link_rate or RATE)
    rate = float(match[1]) * {"": 1, "k": 1e3, "m": 1e6}[match[2].lower()] if match else 0.0
    if not rate:
        raise MicaError(f"--link-rate {args.link_rate}", todo="expected bytes a second, as 200K or 1.5M")
    delay = DELAY_MS if args.link_delay is None else args.link_delay
    if not 0 <= delay <= 60_000:
        raise MicaError(f"--link-delay {delay:g}", todo="expected milliseconds, 0 to 60000")
    return LinkSpeed(rate, delay / 1000), ""


def facts(found: Cut, files: list[Path], board: str, link: LinkSpeed, measured: str) -> dict[str, Any]:
    """The keys of `mica fleet cut --json`."""

    def ms(seconds: float | None) -> float | None:
        return None if seconds is None else 1000 * seconds

    rows = [
        {
            "file": str(file),
            "first": s.piece.first,
            "steps": s.piece.end - s.piece.first,
            "ram": s.model.arena_bytes,
            "flash": len(s.data),
            "takes": s.takes,
            "gives": s.gives,
            "ms": ms(s.seconds),
            "fits": s.prediction.fits,
            "reasons": s.prediction.reasons,
        }
        for file, s in zip(files, found.stages, strict=True)
    ]
    whole = found.whole
    better = "parts"
    if whole.prediction.fits and found.rate is not None and found.whole_rate is not None:
        better = "whole" if found.whole_rate >= found.rate else "parts"
    return {
        "board": board,
        "objective": found.objective,
        "link": {"rate": link.rate, "delay_ms": 1000 * link.delay, "measured": measured or None},
        "parts": rows,
        "rate": found.rate,
        "latency_ms": ms(found.latency),
        "whole": {
            "fits": whole.prediction.fits,
            "ram": whole.model.arena_bytes,
            "flash": len(whole.data),
            "ms": ms(whole.seconds),
            "rate": found.whole_rate,
        },
        "better": better,
    }


def report(r: dict[str, Any]) -> str:
    """The report for people."""

    def ms(x: float | None) -> str:
        return "-" if x is None else three_digits(x)

    whole = r["whole"]
    rows = [
        (
            p["file"],
            f"{p['first']}-{p['first'] + p['steps'] - 1}",
            *(text.count(p[k]) for k in ("ram", "flash", "takes", "gives")),
            ms(p["ms"]),
            "" if p["fits"] else "does not fit",
        )
        for p in r["parts"]
    ]
    rows.append(("the whole", "", text.count(whole["ram"]), text.count(whole["flash"]), "", "", ms(whole["ms"]), ""))
    n, link = len(r["parts"]), r["link"]
    where = f"measured at {link['measured']}" if link["measured"] else "not measured: --fleet NAME measures it"
    lines = [
        text.table(("part", "steps", "RAM", "flash", "takes", "gives", f"ms, {r['board']}", ""), rows, "llrrrrrl"),
        f"best by     {r['objective']}",
        f"link        {link['rate'] / 1000:.0f} KB/s, {three_digits(link['delay_ms'])} ms a message ({where})",
    ]
    if r["rate"] is not None:
        lines.append(
            f"parts       {three_digits(r['rate'])} a second with a board for each, {three_digits(r['latency_ms'])} ms "
            "from end to end"
        )
    if not whole["fits"]:
        lines.append(f"whole       does not fit {r['board']}")
    elif whole["rate"] is not None:
        lines.append(
            f"whole       {three_digits(whole['rate'])} a second with the whole model on each of {n} boards, "
            f"{three_digits(whole['ms'])} ms"
        )
    if r["better"] == "whole":
        lines.append(
            "better      the whole model on each board: as many answers or more, sooner, and any board can die"
        )
    return "\n".join(lines)
