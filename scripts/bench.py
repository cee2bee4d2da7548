"""Count what the kernels cost: cycles of a Cortex-M0+ in the RP2040 emulator, instructions of the other cores in QEMU.

Runs every distinct layer of the four MLPerf Tiny models (random full-range data with a fixed seed), and the four models
themselves where their folder is there, through the engine's own entry points in a bare-metal program. The bytes that
each step writes are compared with the numpy reference before a count is printed; extreme data are compared as well.
The counts are deterministic: the same sources and compiler give the same numbers on any computer. Code, constants and data
are read without waiting, as from RAM; a board with its code in slow flash is slower. `--xip` puts all of it but the inner loops
behind a model of the RP2040's flash cache: a model, no board.

`--isa ref` runs the plain reference kernels on the same cores. `--json OUT.json` keeps the numbers, `--against OLD.json`
prints how they compare to it: below 1 is faster now.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import zlib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "bench"))

import bare_metal  # noqa: E402
import bench_page  # noqa: E402
import cycle_tables  # noqa: E402
import layers  # noqa: E402
from bare_metal import CORES, Core, Job, Result  # noqa: E402

from mica.cli import text  # noqa: E402
from mica.errors import MicaError  # noqa: E402
from mica.format.codec import ModelFile  # noqa: E402
from mica.reference.executor import ReferenceModel  # noqa: E402

DEFAULT = ("m0plus", "m3", "m4", "m7", "m33", "m55", "rv32")
# A line of the cache is two words: of a flash on four wires 6 clocks for the address, 2 for the mode, 4 to wait, 16 for the data,
# at half of the core's clock (the board's PICO_FLASH_SPI_CLKDIV).
XIP_MISS = 56
MODEL_FOLDERS = {"kws": "kws", "res": "ic", "vww": "vww", "ad": "ad"}


def whole_models(folder: Path, board: str) -> list[Job]:
    """The four models as packed for a board, each with one random input; with all layers as they are in the ONNX file, and, by
    the name of "lean <model>", without the channels that never change.

    Their ranges come from the calibration data, their weights are the nearest integers: tuning them changes no count.
    """
    jobs = []
    for name, model in compiled_models(folder):
        data = bare_metal.for_board(model, board)
        rng = np.random.default_rng(zlib.crc32(name.removeprefix("lean ").encode()))
        jobs.append(Job(name, data, [bare_metal.random_input(model.tensors[i], rng) for i in model.inputs]))
    return jobs


@cache
def compiled_models(folder: Path) -> list[tuple[str, ModelFile]]:
    """The same, for any board."""
    from mica.compile import compile_file
    from mica.data.calibration import load_calibration
    from mica.importer import import_onnx
    from mica.ir import knobs

    found = []
    for name, sub in MODEL_FOLDERS.items():
        onnx = folder / sub / "model.onnx"
        imported = import_onnx(onnx, {"N": 1})
        sizes = {i: imported.value(i).shape for i in imported.inputs}
        calibration = load_calibration(str(folder / sub / "calib.npz"), imported.inputs, sizes)
        for keep, prefix in ((True, ""), (False, "lean ")):
            knobs.KEEP_DEAD_CHANNELS = keep
            found.append((prefix + name, compile_file(onnx, calibration, {"N": 1}, plain=True).model))
    return found


def measure(
    core: Core, isa: str | None, jobs: Sequence[Job], expected: Mapping[str, list[int]], xip: int | None = None
) -> list[Result]:
    """Runs the jobs; raises MicaError where a step wrote other bytes than the reference."""
    program = bare_metal.build(core, isa, more=bare_metal.HOT if xip is not None else ())
    results = bare_metal.run(core, program, jobs, xip=xip, cycles=cycle_tables.TABLES.get(core.name))
    wrong = bare_metal.differences(jobs, results, expected)
    if wrong:
        raise MicaError(f"{core.name}: " + "\n".join(wrong))
    return results


def report(core: Core, entry: Mapping[str, Any], old: Mapping[str, Any] | None) -> str:
    """One core's tables."""
    lines = [
        f"== {core.name}, {entry['isa']} kernels",
        "",
        layer_table(core, entry, old),
        "",
        model_table(core, entry, old),
    ]
    return "\n".join([*lines, "", f"kernels: {sum(entry['code'].values()):,} bytes of code and constants"])


def layer_table(core: Core, entry: Mapping[str, Any], old: Mapping[str, Any] | None = None) -> str:
    """The layers, one a line; cycles by the published table beside instructions, where the core has one."""
    peers = layers.PEERS.get(core.name, {})
    by_table = _cycles_name(core, entry)
    head = [
        "layer",
        core.unit,
        "per MAC",
        *([by_table, "per MAC"] if by_table else ()),
        "scratch",
        "best peer",
        "TFLM ref",
        "trial",
    ]
    rows = []
    for layer in layers.LAYERS:
        r = entry["layers"][layer.name]
        figures = [f"{v:.2f}" if v is not None else "" for v in peers.get(layer.name, (None, None, None))]
        counted = [f"{n:,.0f}|{n / layer.work:.2f}" for n in (r["count"], *([r["cycles"]] if by_table else ()))]
        row = [layer.name, *"|".join(counted).split("|"), f"{r['scratch']:,}", *figures]
        if old:
            row.append(_ratio(r["count"], old["layers"].get(layer.name, {}).get("count")))
        rows.append(tuple(row))
    return text.table((*head, "against") if old else tuple(head), rows, "l" + "r" * (len(rows[0]) - 1))


def model_table(core: Core, entry: Mapping[str, Any], old: Mapping[str, Any] | None = None) -> str:
    """The models."""
    rows = []
    known = layers.WHOLE.get(core.name, {})
    by_table = _cycles_name(core, entry)
    for name in layers.MODELS:
        peer, trial, goal = known.get(name, (None, None, None))
        model = entry["models"].get(name, {})
        row = [
            name,
            f"{entry['sums'][name] / 1e6:.2f}",
            f"{model['count'] / 1e6:.2f}" if model else "",
            f"{model['lean'] / 1e6:.2f}" if model else "",
            *([f"{entry['cycle_sums'][name] / 1e6:.2f}"] if by_table else ()),
            *([f"{model['cycles'] / 1e6:.2f}" if model else ""] if by_table else ()),
            *(f"{v:.2f}" if v is not None else "" for v in (goal, peer, trial)),
            f"{model['arena']:,}" if model else "",
            f"{model['scratch']:,}" if model else "",
        ]
        if old:
            row.append(_ratio(entry["sums"][name], old["sums"].get(name)))
        rows.append(tuple(row))
    cycles = (f"layers, M {by_table}", "whole file") if by_table else ()
    names = (
        "model",
        f"layers, M {core.unit}",
        "whole file",
        "lean",
        *cycles,
        "goal",
        "best peer",
        "trial",
        "arena",
        "scratch",
    )
    return text.table((*names, "against") if old else names, rows, "l" + "r" * (len(rows[0]) - 1))


def _cycles_name(core: Core, entry: Mapping[str, Any]) -> str:
    """The head of the column of cycles by a table; nothing where there is none."""
    return cycle_tables.NAMES[cycle_tables.TABLES[core.name]] if "cycle_sums" in entry else ""


def _ratio(new: float, old: float | None) -> str:
    return f"{new / old:.3f}" if old else ""


def _sums(entry: Mapping[str, Any], chosen: Sequence[layers.Layer], what: str) -> dict[str, float]:
    """Of each model, what its layers take one by one."""
    return {m: sum(entry["layers"][x.name][what] * x.times.get(m, 0) for x in chosen) for m in layers.MODELS}


def _revision() -> str:
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


def _kernel_bytes(core: Core, program: Path) -> dict[str, int]:
    """Bytes of each function that computes: kernels, and what they call in their instruction set's folder."""
    names = bare_metal.text_bytes(core, program)
    ours = {
        k: v
        for k, v in names.items()
        if "_s8_" in k or re.match("mica_(arm|rv|c32|xtensa|dsp|conv2d_winograd|conv2d_twins)", k)
    }
    return {
        k: v
        for k, v in ours.items()
        if not re.search("_s8_(check|check_constants|.*bytes|rows|channels|terms|shapes)$", k)
    }


def sizes(boards: Sequence[str]) -> list[dict[str, Any]]:
    """Bytes of the kernels in each board's firmware."""
    from dataclasses import asdict

    import code_bytes

    def progress(line: str) -> None:
        print(f"bench: {line}", file=sys.stderr)

    return [asdict(code_bytes.of_board(name, progress)) for name in boards or code_bytes.BOARDS]


def size_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The same as a table."""
    head = ("board", "kernels", "ref", "fast", "of which from RAM", "kernels of firmware", "firmware")
    lines = []
    for r in rows:
        k = r["kernels"]
        share = (k["ref"] + k["fast"]) / r["firmware"]
        counts = (f"{n:,}" for n in (k["ref"], k["fast"], k["from_ram"]))
        lines.append((r["board"], r["isa"], *counts, f"{100 * share:.1f} %", f"{r['firmware']:,}"))
    return text.table(head, lines, "llrrrrr")


def main() -> int:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--core", action="append", choices=list(CORES), help=f"default: {' '.join(DEFAULT)}")
    parser.add_argument("--isa", help="kernels of this folder instead of the core's own; ref: the reference")
    parser.add_argument("--scratch", type=int, metavar="BYTES", help="give the kernels no more scratch than this")
    parser.add_argument(
        "--xip",
        type=int,
        nargs="?",
        const=XIP_MISS,
        metavar="CYCLES",
        help=f"m0plus: code and weights in a Pico's flash, behind a model of its cache; cycles of a miss, default {XIP_MISS}",
    )
    parser.add_argument("--layer", action="append", help="only layers with this in their name")
    parser.add_argument("--models", default=str(ROOT.parent / "shared" / "models"), metavar="FOLDER")
    parser.add_argument("--json", metavar="OUT.json", help="write the numbers; - for stdout")
    parser.add_argument("--page", action="store_true", help="write the table of each core into usermod_c/BENCH.md")
    parser.add_argument("--against", metavar="OLD.json", help="print ratios to these numbers")
    parser.add_argument(
        "--sizes",
        nargs="*",
        metavar="BOARD",
        help="instead: bytes of the kernels in the firmware of these boards, or of all",
    )
    parser.add_argument(
        "--fleet", action="store_true", help="instead: a fleet of boards on this computer, and mosquitto"
    )
    parser.add_argument("--host", action="store_true", help="instead: the engine on this computer beside ONNX Runtime")
    parser.add_argument("--strips", action="store_true", help="instead: the reference models in strips of rows")
    parser.add_argument(
        "--two-cores",
        action="store_true",
        help="instead: the reference models on one and on both cores of a virtual Pico",
    )
    args = parser.parse_args()
    if args.strips:
        import strip_bench

        found_rows = strip_bench.run(Path(args.models), args.core or strip_bench.DEFAULT)
        print(strip_bench.table(found_rows))
        if args.json and args.json != "-":
            out = json.dumps({"revision": _revision(), "strips": strip_bench.as_json(found_rows)}, indent=1) + "\n"
            Path(args.json).write_text(out)
        return 0
    if args.two_cores:
        import two_core_bench

        two = two_core_bench.run(pair for pair in compiled_models(Path(args.models)) if pair[0] in layers.MODELS)
        print(two_core_bench.table(two))
        if args.json and args.json != "-":
            out = json.dumps({"revision": _revision(), "two_cores": two_core_bench.as_json(two)}, indent=1) + "\n"
            Path(args.json).write_text(out)
        return 0
    if args.host:
        import host_bench

        rows = host_bench.run(Path(args.models))
        if args.json:
            out = json.dumps({"revision": _revision(), "host": rows}, indent=1) + "\n"
            sys.stdout.write(out) if args.json == "-" else Path(args.json).write_text(out)
        return 0
    if args.fleet:
        import fleet_bench

        rows = fleet_bench.run()
        if args.json:
            out = json.dumps({"revision": _revision(), "fleet": rows}, indent=1) + "\n"
            sys.stdout.write(out) if args.json == "-" else Path(args.json).write_text(out)
        return 0
    if args.sizes is not None:
        rows = sizes(args.sizes)
        if args.json != "-":
            print(size_table(rows))
        if args.json:
            out = json.dumps({"revision": _revision(), "sizes": rows}, indent=1) + "\n"
            sys.stdout.write(out) if args.json == "-" else Path(args.json).write_text(out)
        return 0
    if args.xip is not None:
        args.core = args.core or ["m0plus"]
        if args.core != ["m0plus"] or args.xip < 0:
            raise MicaError("--xip: expected a number of cycles, and no core but m0plus, the one with that cache")
    if args.page and (args.layer or args.isa or args.scratch is not None or args.xip is not None):
        raise MicaError(
            "--page: the page has whole tables of each core's own kernels, so without --layer, --isa, --scratch and --xip"
        )
    old = json.loads(Path(args.against).read_text()) if args.against else None
    chosen = [x for x in layers.LAYERS if not args.layer or any(part in x.name for part in args.layer)]
    if not chosen:
        raise MicaError(f"--layer: no layer has {' or '.join(args.layer)} in its name")
    layers.LAYERS[:] = chosen

    result: dict[str, Any] = {"revision": _revision(), "cores": {}}
    folder = Path(args.models)
    with_models = folder.is_dir() and not args.layer
    if not folder.is_dir():
        print(f"bench: {folder} is not there, so no whole models; --models FOLDER", file=sys.stderr)
    wholes: dict[str, list[Job]] = {}
    expected: dict[str, list[int]] = {}
    for name in args.core or DEFAULT:
        core = CORES[name]
        if why := bare_metal.available(core):
            raise MicaError(f"{name}: {why}")
        if args.scratch is not None and args.scratch < 0:
            raise MicaError(f"--scratch {args.scratch}: expected a number of bytes")
        jobs = [layers.job(x, kind, core.board) for x in chosen for kind in ("", "extreme")]
        if with_models:
            if core.board not in wholes:
                wholes[core.board] = whole_models(folder, core.board)
            jobs += wholes[core.board]
        for job in jobs:
            if args.scratch is not None:
                job.scratch = min(args.scratch, ReferenceModel(job.data).info["scratch_want"])
            if job.name not in expected:
                expected[job.name] = bare_metal.expected(job)
        found = {r.name: r for r in measure(core, args.isa, jobs, expected, args.xip)}
        entry: dict[str, Any] = {"unit": core.unit, "isa": bare_metal.isa_folder(args.isa or core.isa).name}
        entry["layers"] = {
            x.name: {"count": sum(found[x.name].counts), "work": x.work, "scratch": found[x.name].scratch_bytes}
            for x in chosen
        }
        entry["models"] = {
            m: {
                "count": sum(found[m].counts),
                "lean": sum(found[f"lean {m}"].counts),
                "steps": found[m].counts,
                "arena": found[m].arena_bytes,
                "scratch": found[m].scratch_bytes,
            }
            for m in (layers.MODELS if with_models else ())
        }
        entry["sums"] = _sums(entry, chosen, "count")
        if name in cycle_tables.TABLES:
            for key, row in [*entry["layers"].items(), *entry["models"].items()]:
                row["cycles"], row["late"] = sum(found[key].cycles), sum(found[key].late)
            for m in entry["models"]:
                entry["models"][m]["lean_cycles"] = sum(found[f"lean {m}"].cycles)
            entry["cycle_sums"] = _sums(entry, chosen, "cycles")
        entry["code"] = _kernel_bytes(core, bare_metal.build(core, args.isa))
        result["cores"][name] = entry
        if args.json != "-":
            print(report(core, entry, old["cores"].get(name) if old else None), end="\n\n")
        if args.page:
            bench_page.write(name, model_table(core, entry))
    if args.json:
        out = json.dumps(result, indent=1) + "\n"
        if args.json == "-":
            print(out, end="")
        else:
            Path(args.json).write_text(out)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (MicaError, OSError, ValueError) as error:
        print(f"bench: {error}", file=sys.stderr)
        sys.exit(1)
