"""Count the cost of kernels: cycles of a Cortex-M0+ in the RP2040 emulator, instructions of other cores in QEMU.

Runs every distinct layer of the four MLPerf Tiny models (random full-range data with a fixed seed) in a bare-metal
program, through the engine's own entry points. Runs the four models too, if their folder is there. The bytes that each
step writes are compared with the numpy reference before a count is printed; extreme data are compared as well. The
counts are deterministic: the same sources and compiler give the same numbers on any computer. Code, constants and data
are read without waiting, as from RAM; a board with its code in slow flash is slower. `--xip` puts all of them but the
inner loops behind the virtual Pico's flash cache.

`--isa ref` runs the plain reference kernels on the same cores. `--json OUT.json` keeps the numbers,
`--against OLD.json` prints their ratio to older ones: below 1 is faster now. `--only NAME` measures something else:

{parts}
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import bare_metal
import bench_page
import code_bytes
import cycle_tables
import host_bench
import layers
import strip_bench
import two_core_bench
from bare_metal import CORES, Core, Job, Result
from reference_models import compiled_models, packed_file, whole_models
from tables import model_table, report, size_table

from mica.errors import MicaError
from mica.reference.executor import ReferenceModel

ROOT = Path(__file__).resolve().parents[2]
DEFAULT = ("m0plus", "m3", "m4", "m7", "m33", "m55", "rv32")
# Of a flash on four wires 6 clocks for the address, 2 for the mode, 4 to wait, 8 for a word,
# at half of the core's clock.
XIP_MISS = 40
MODULES = ("armv6m", "armv7emsp", "rv32imc")  # native modules that `--only sizes` builds


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


def _sums(entry: Mapping[str, Any], chosen: Sequence[layers.Layer], what: str) -> dict[str, float]:
    """Sums of the costs of each model's layers, counted one by one."""
    return {m: sum(entry["layers"][x.name][what] * x.times.get(m, 0) for x in chosen) for m in layers.MODELS}


def _revision() -> str:
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


def _kernel_bytes(core: Core, program: Path) -> dict[str, int]:
    """Bytes of each function that computes: kernels, and functions that they call in their instruction set's folder."""
    names = bare_metal.text_bytes(core, program)
    ours = {
        k: v
        for k, v in names.items()
        if "_s8_" in k or re.match("mica_(arm|rv|c32|xtensa|dsp|conv2d_winograd|conv2d_paired)", k)
    }
    return {
        k: v
        for k, v in ours.items()
        if not re.search("_s8_(check|check_constants|.*bytes|rows|channels|terms|shapes)$", k)
    }


def cores(args: Namespace) -> dict[str, Any]:
    """Layers and models on each core."""
    check(args)
    old = json.loads(Path(args.against).read_text()) if args.against else None
    if args.layer:
        layers.LAYERS[:] = [x for x in layers.LAYERS if any(part in x.name for part in args.layer)]
    folder = Path(args.models)
    if not folder.is_dir():
        print(f"bench: {folder} is not there, so no whole models; --models FOLDER", file=sys.stderr)
    expected: dict[str, list[int]] = {}
    entries = {}
    for name in args.core or DEFAULT:
        core = CORES[name]
        if why := bare_metal.available(core):
            raise MicaError(f"{name}: {why}")
        with_models = folder.is_dir() and not args.layer
        jobs = [layers.job(x, kind, core.board) for x in layers.LAYERS for kind in ("", "extreme")]
        jobs += whole_models(folder, core.board) if with_models else []
        for job in jobs:
            if args.scratch is not None:
                job.scratch = min(args.scratch, ReferenceModel(job.data).info["scratch_want"])
            if job.name not in expected:
                expected[job.name] = bare_metal.expected(job)
        found = {r.name: r for r in measure(core, args.isa, jobs, expected, args.xip)}
        entry = entries[name] = core_entry(core, args.isa, found, with_models)
        if args.json != "-":
            print(report(core, entry, old["cores"].get(name) if old else None), end="\n\n")
        if args.page:
            bench_page.write(name, model_table(core, entry))
    return entries


def check(args: Namespace) -> None:
    """Raises MicaError where options do not go together."""
    if args.xip is not None:
        args.core = args.core or ["m0plus"]
        if args.core != ["m0plus"] or args.xip < 0:
            raise MicaError("--xip: expected a number of cycles, and no core but m0plus, the one with that cache")
    if args.page and (args.layer or args.isa or args.scratch is not None or args.xip is not None):
        raise MicaError(
            "--page: the page has whole tables of each core's own kernels, so without --layer, --isa, "
            "--scratch and --xip"
        )
    if args.scratch is not None and args.scratch < 0:
        raise MicaError(f"--scratch {args.scratch}: expected a number of bytes")
    if args.layer and not any(part in x.name for x in layers.LAYERS for part in args.layer):
        raise MicaError(f"--layer: no layer has {' or '.join(args.layer)} in its name")


def core_entry(core: Core, isa: str | None, found: Mapping[str, Result], with_models: bool) -> dict[str, Any]:
    """A core's figures, as --json keeps them."""
    entry: dict[str, Any] = {"unit": core.unit, "isa": bare_metal.isa_folder(isa or core.isa).name}
    entry["layers"] = {
        x.name: {"count": sum(found[x.name].counts), "work": x.work, "scratch": found[x.name].scratch_bytes}
        for x in layers.LAYERS
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
    entry["sums"] = _sums(entry, layers.LAYERS, "count")
    if core.name in cycle_tables.TABLES:
        for key, row in [*entry["layers"].items(), *entry["models"].items()]:
            row["cycles"], row["late"] = sum(found[key].cycles), sum(found[key].late)
        for m in entry["models"]:
            entry["models"][m]["lean_cycles"] = sum(found[f"lean {m}"].cycles)
        entry["cycle_sums"] = _sums(entry, layers.LAYERS, "cycles")
    entry["code"] = _kernel_bytes(core, bare_metal.build(core, isa))
    return entry


def sizes(args: Namespace) -> list[dict[str, Any]]:
    """Bytes of mica in the firmware of each board, for some models alone, and in native modules."""

    def progress(line: str) -> None:
        print(f"bench: {line}", file=sys.stderr)

    rows = [code_bytes.board_bytes(name, progress) for name in args.board or code_bytes.BOARDS]
    modules: dict[str, dict[str, int]] = {}
    with tempfile.TemporaryDirectory() as folder:
        if (where := Path(args.models)).is_dir():
            models = [packed_file(where, name, Path(folder)) for name in ("kws", "ad")]
            rows += [code_bytes.board_bytes("RPI_PICO", progress, [path]) for path in models]
            modules = {arch: code_bytes.module_bytes(arch, progress, models) for arch in MODULES}
    found = [asdict(row) for row in rows]
    if args.json != "-":
        print(size_table(found))
        for arch, sizes_of in modules.items():
            print(f"native module {arch}:", ", ".join(f"{what} {n:,}" for what, n in sizes_of.items()))
    return [*found, *({"native": arch, **sizes_of} for arch, sizes_of in modules.items())]


def host(args: Namespace) -> dict[str, dict[str, float]]:
    """The engine on this computer beside ONNX Runtime."""
    return host_bench.run(Path(args.models))


def strips(args: Namespace) -> list[dict[str, Any]]:
    """The reference models in strips of rows."""
    rows = strip_bench.run(Path(args.models), args.core or strip_bench.DEFAULT)
    print(strip_bench.table(rows))
    return [asdict(r) for r in rows]


def two_cores(args: Namespace) -> list[dict[str, Any]]:
    """The reference models on one and on both cores of the virtual Picos."""
    chosen = [pair for pair in compiled_models(Path(args.models)) if pair[0] in layers.MODELS]
    rows = [row for board in two_core_bench.BOARDS for row in two_core_bench.run(board, chosen)]
    print(two_core_bench.table(rows))
    return [asdict(r) for r in rows]


class Part(NamedTuple):
    """A thing to measure: prints its table, and returns the content of its key in the JSON."""

    run: Callable[[Namespace], Any]
    key: str


# By the name that --only takes; the first one is measured without it.
PARTS = {
    "layers": Part(cores, "cores"),
    "sizes": Part(sizes, "sizes"),
    "host": Part(host, "host"),
    "strips": Part(strips, "strips"),
    "two-cores": Part(two_cores, "two_cores"),
}


def main() -> int:
    """Measure, print, keep."""
    about = "\n".join(f"  --only {name:10} {part.run.__doc__}" for name, part in PARTS.items())
    parser = argparse.ArgumentParser(
        prog="scripts/bench/run",
        description=(__doc__ or "").format(parts=about),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", choices=list(PARTS), default="layers", metavar="NAME", help="see above")
    parser.add_argument("--core", action="append", choices=list(CORES), help=f"default: {' '.join(DEFAULT)}")
    parser.add_argument(
        "--board", action="append", metavar="NAME", help="sizes: of this board's firmware; default: all"
    )
    parser.add_argument("--isa", help="kernels of this folder instead of the core's own; ref: the reference")
    parser.add_argument("--scratch", type=int, metavar="BYTES", help="give the kernels no more scratch than this")
    parser.add_argument(
        "--xip",
        type=int,
        nargs="?",
        const=XIP_MISS,
        metavar="CYCLES",
        help="m0plus: code and weights in a Pico's flash, behind a model of its cache; cycles of a miss, "
        f"default {XIP_MISS}",
    )
    parser.add_argument("--layer", action="append", help="only layers with this in their name")
    parser.add_argument("--models", default=str(ROOT.parent / "shared" / "models"), metavar="FOLDER")
    parser.add_argument("--json", metavar="OUT.json", help="write the numbers; - for stdout")
    parser.add_argument("--page", action="store_true", help="write the tables of the cores into usermod_c/BENCH.md")
    parser.add_argument("--against", metavar="OLD.json", help="print ratios to these numbers")
    args = parser.parse_args()
    part = PARTS[args.only]
    found = {"revision": _revision(), part.key: part.run(args)}
    if args.json:
        out = json.dumps(found, indent=1) + "\n"
        sys.stdout.write(out) if args.json == "-" else Path(args.json).write_text(out)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (MicaError, OSError, ValueError) as error:
        print(f"bench: {error}", file=sys.stderr)
        sys.exit(1)
