"""Measures the cost of steps on every emulated core, and writes the table that `mica fit` predicts from.

It measures single steps over swept shapes: convolutions of all kinds, dense layers, pools, steps that move or
concatenate elements. It also measures random networks, and the exported networks and classic models of tests/models,
but never the models of ../shared/models nor the digits: they judge the table (`--judge`, and tests/e2e/test_fit.py).
Each step runs in the bare-metal program of scripts/bench, which counts cycles in the RP2040 emulator and instructions
in QEMU, and must write the bytes of the numpy reference. Then a fit finds factors for each kind of step
(`mica.cost.features`): none is below 0, and the squares of the relative errors are least.

    scripts/costs                      all cores; writes host_tools/mica/cost/table.json
    scripts/costs --core m0plus        one core; the others stay as they are
    scripts/costs --board RPI_PICO     MicroPython's share on an emulated board: its loop, its heap
    scripts/costs --judge              compares the table with the models that it has not seen
    scripts/costs --only NAME          one of these parts; all else stays as it is:

{parts}
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("scripts/bench", "tests", "tests/bench", "tests/nets", "tests/kernels", "tests/format")
sys.path[:0] = [str(ROOT / name) for name in FOLDERS]

import bare_metal  # noqa: E402
import layers  # noqa: E402
from bare_metal import CORES, Core, Job  # noqa: E402
from fitting import algorithms, cycles, fit_all, misses, samples  # noqa: E402
from layer_sweeps import BOARD, coded, dense_plain, depthwise, softmaxes, swept_layers, takes, windowed  # noqa: E402
from network_sweeps import MODELS, classic, compiled_nets  # noqa: E402
from reference_models import whole_models  # noqa: E402
from step_sweeps import axis_windows, decoder, norms, places, small_pools, sounds, wide_steps  # noqa: E402
from targets import compiler_of  # noqa: E402

from mica.boards import BoardSpec, load_board  # noqa: E402
from mica.compile import compile_file  # noqa: E402
from mica.cost import features  # noqa: E402
from mica.cost.prediction import predict  # noqa: E402
from mica.cost.table import PATH, Table  # noqa: E402
from mica.errors import MicaError  # noqa: E402
from mica.file import codec  # noqa: E402
from mica.kernels import attention, audio, norm, pcen, softmax, tabular, vectors, wide  # noqa: E402
from mica.kernels.axes import axes_s8  # noqa: E402
from mica.kernels.base import Kernel  # noqa: E402
from mica.kernels.movement import pick_s8, scatter_s8  # noqa: E402
from mica.kernels.reduce import top_k_s8  # noqa: E402
from mica.link.targets import open_board  # noqa: E402
from mica.run.host import open_runner  # noqa: E402
from mica.toolchain.cache import cache_dir  # noqa: E402

DEFAULT = ("m0plus", "m3", "m4", "m7", "m33", "m55", "rv32")
MISSES = "misses"  # the same for what the flash cache lacks, on the cores of CACHED
CACHED = ("m0plus", "m33")
CYCLES = (
    "cycles"  # --only's name for cycles of an instruction by kind, on COUNTED: whose board's emulator estimates cycles
)
COUNTED = ("m33",)
THINNED = 3  # of a part's steps every third is enough for the two numbers of a kind's misses
ALGORITHMS = "algorithms"  # --only's name for the steps that some cores compute by another algorithm than the rest


def corpus() -> list[Job]:
    """All steps and networks as jobs; made once for each state of their sources."""
    stamp = zlib.crc32(b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*_sweeps.py"))))
    kept = cache_dir() / "bench" / f"costs-{stamp:08x}.pickle"
    kept.parent.mkdir(exist_ok=True)
    if kept.exists():
        jobs: list[Job] = pickle.loads(kept.read_bytes())
        return jobs
    jobs = [layers.job(layer, "", BOARD) for layer in swept_layers()]
    for name, model in compiled_nets():
        data = bare_metal.for_board(model, BOARD)
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        jobs.append(Job(name, data, [bare_metal.random_input(model.tensors[i], rng) for i in model.inputs]))
    jobs = [
        *(job for job in jobs if takes(codec.decode(job.data))),
        *(job for job in windowed() if not job.name.startswith(("conv ", "dw "))),
        *coded(),
        *dense_plain(),
        *classic(),
        *sounds(),
        *sounds(("pcen",)),
        *axis_windows(),
        *decoder(),
        *norms(),
        *places(),
        *wide_steps(),
    ]
    kept.write_bytes(pickle.dumps(jobs))
    return jobs


# Networks of few and of many steps; free heap before and after, in a Python that holds nothing else.
ON_BOARDS = (
    "torchscript_mlp",
    "sklearn_classifier",
    "torchscript_tiny_opset13",
    "torchscript_resnet",
    "torchscript_mobilenet_v2",
)
HEAP = """
import gc
gc.collect()
free = gc.mem_free()
import mica
m = mica.Model("/rom/model.mica")
gc.collect()
print(free, gc.mem_free())
"""


def board_facts(board: BoardSpec, core: Core) -> dict[str, Any]:
    """Facts of a board, measured on its emulator, as `Table.board` returns them."""
    calls, overheads, heaps, frees, cycles, missed = [], [], [], [], [], []
    for name in ON_BOARDS:
        os.environ["MICA_MEMORY"] = "ideal"
        model = compile_file(MODELS / "exports" / f"{name}.onnx", plain=True).model
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        inputs = [bare_metal.random_input(model.tensors[i], rng) for i in model.inputs]
        job = Job(name, bare_metal.for_board(model, BOARD), inputs)
        model = codec.decode(job.data)
        with open_board(board.target, rom_files={"model.mica": job.data}) as running:
            before, after = (int(word) for word in running.exec(HEAP).split())
        want = (model.arena_bytes or 0) + model.scratch_want
        static = want <= board.arena
        with open_runner(job.data, board.target, icount=True) as runner:
            times = runner.bench(job.inputs, 1)
        job.scratch = board.arena - (model.arena_bytes or 0) if static else model.scratch_want
        bare = bare_metal.run(core, bare_metal.build(core), [job])[0].counts
        *steps, total = times.instructions or [*times.steps, times.total]
        calls += [a - b for a, b in zip(steps, bare, strict=True)]
        overheads.append((len(bare), total - sum(steps)))
        cycles += [times.total / total] if times.instructions else []
        heaps.append((len(bare), before - after - (0 if static else want)))
        frees.append(before)
        if board.flash_miss:
            os.environ["MICA_MEMORY"] = "waits"
            with open_runner(job.data, board.target) as runner:
                waited = runner.bench(job.inputs, 1).waits[-1]
            told = predict(model, job.data, board, Table.read()).layers
            missed.append((waited - sum(layer["flash"] for layer in told)) / board.flash_miss)
    layer, run = np.polyfit(*np.array(overheads, float).T, 1)
    step, fixed = np.polyfit(*np.array(heaps, float).T, 1)
    return (
        {
            "revision": _revision(),
            "core": core.name,
            "port": board.port.name,
            "ram": board.ram,
            "arena": board.arena,
            "free_heap": min(frees),
            "call": round(float(np.median(calls)), 1),
            "run": round(float(run), 1),
            "layer": round(float(layer), 1),
            "heap_fixed": round(float(fixed)),
            "heap_step": round(float(step), 1),
        }
        | ({"run_misses": max(0, round(float(np.median(missed))))} if missed else {})
        | ({"cycles": round(float(np.median(cycles)), 3)} if cycles else {})
    )


def unseen(folder: Path) -> Iterator[Job]:
    """The models that the table is judged by."""
    if folder.is_dir():
        yield from whole_models(folder, BOARD)
    digits = compile_file(ROOT / "host_tools" / "mica" / "demo" / "digits.onnx", plain=True).model
    rng = np.random.default_rng(1)
    inputs = [bare_metal.random_input(digits.tensors[i], rng) for i in digits.inputs]
    yield Job("digits", bare_metal.for_board(digits, BOARD), inputs)


def judge(core: Core, table: Table, folder: Path) -> list[str]:
    """Print a line for each model: the predicted cost and the real one."""
    lines = []
    for job in unseen(folder):
        result = bare_metal.run(core, bare_metal.build(core), [job])[0]
        model = codec.decode(job.data)
        steps = [table.step(core.name, model, s, result.scratch_bytes) for s in model.steps]
        told = sum(s.cost for s in steps if s)
        worst = max(
            zip(model.steps, steps, result.counts, strict=True), key=lambda r: abs((r[1].cost if r[1] else 0) - r[2])
        )
        lines.append(
            f"{core.name:8} {job.name:9} {told:13,.0f} predicted {sum(result.counts):13,.0f} measured "
            f"{told / sum(result.counts):6.3f}; most of it in {worst[0].name}: "
            f"{worst[1].cost if worst[1] else 0:,.0f}, {worst[2]:,.0f}"
        )
    return lines


def _revision() -> str:
    """The last commit that changed the engine, and so the costs."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(ROOT), *words]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

    dirty = "-dirty" if git("status", "--porcelain", "--", "usermod_c") else ""
    return (git("log", "-1", "--format=%h", "--abbrev=7", "--", "usermod_c") or "unknown") + dirty


class Part(NamedTuple):
    """Steps that can be measured again while all else stays as it is."""

    about: str
    jobs: Callable[[], list[Job]]
    has: Callable[[str], bool]  # whether a kind is of it


def _of(*rooms: Iterable[Kernel]) -> Callable[[str], bool]:
    names = {kernel.name for room in rooms for kernel in room}
    return lambda kind: kind.split()[0] in names


WINDOWS = {f"conv2d_s8 {kind}" for kind in ("pointwise", "pointwise odd", "window", "window odd")}
DEPTHWISE = {f"depthwise_conv2d_s8 {kind}" for kind in ("3x3 s1", "3x3 s2", "3x3 few", "2x2", "nine", "fours", "any")}
# By the name that --only takes.
PARTS = {
    "classic": Part(
        "what classic models consist of: features, trees, vectors", classic, _of(tabular.KERNELS, vectors.KERNELS)
    ),
    "sound": Part("front ends of sound", sounds, _of(audio.KERNELS)),
    "pcen": Part("front ends with per-channel energy normalisation", lambda: sounds(("pcen",)), _of(pcen.KERNELS)),
    "axes": Part("front ends of windows of several axes", axis_windows, _of((axes_s8,))),
    "decoder": Part(
        "what decoders have beside dense layers: attention, rotations, rows of caches",
        decoder,
        _of(attention.KERNELS, (scatter_s8,)),
    ),
    "norms": Part("normalisations of rows", norms, _of(norm.KERNELS)),
    "softmax": Part("softmax of int8", softmaxes, _of(softmax.KERNELS[:1])),
    "places": Part("the best of an axis, and elements at places that are computed", places, _of((top_k_s8, pick_s8))),
    "wide": Part("kernels of int16", wide_steps, _of(wide.KERNELS)),
    "windows": Part("convolutions that fast kernels take", windowed, lambda kind: kind in WINDOWS | DEPTHWISE),
    "depthwise": Part("depthwise convolutions of them", depthwise, lambda kind: kind in DEPTHWISE),
    "dense": Part("dense layers without scratch", dense_plain, lambda kind: kind == "fully_connected_s8 plain"),
    "pools": Part("max pools of two by two taps", small_pools, lambda kind: kind == "max_pool2d_s8 2x2"),
    "codes": Part("steps whose weights are codes of four bits", coded, lambda kind: kind.endswith(features.CODED)),
}


def measure_boards(names: Iterable[str]) -> None:
    """Into the table: the figures of emulated boards."""
    for name in names:
        board = load_board(name)
        core_name = Table.read().core_of(board)
        if core_name is None or board.emulator is None:
            raise MicaError(f"{name}: expected an emulated board whose core has been measured")
        facts = board_facts(board, CORES[core_name])
        print(name, facts, flush=True)
        _write("boards", name, facts)


def measure_core(core: Core, only: str | None, keep: str | None) -> dict[str, Any]:
    """The core's entry in the table, measured whole or in one part."""
    if why := bare_metal.available(core):
        raise MicaError(f"{core.name}: {why}")
    revision = _revision()  # now: the tree may move on while this runs
    part = PARTS.get(only or "")
    found = [] if only in (ALGORITHMS, MISSES, CYCLES) else samples(core, part.jobs() if part else corpus())
    if keep:
        Path(keep).write_text(json.dumps([vars(s) for s in found]))
    content = _content()
    facts: dict[str, Any] = dict(content["cores"].get(core.name, {"kinds": {}, MISSES: {}}))
    facts |= {"unit": core.unit, "isa": core.isa, "compiler": compiler_of(core.tools[0])}
    has = part.has if part else lambda kind: True

    def renewed(name: str, fitted: dict[str, Any]) -> None:
        """Put kinds that were fitted into the place of those of the part."""
        facts[name] = {kind: f for kind, f in facts.get(name, {}).items() if not has(kind)} | fitted

    if found:
        renewed("kinds", fit_all([s for s in found if has(s.kind)]))
    if only in (None, ALGORITHMS):
        facts["kinds"] |= fit_all(algorithms(core))
    if only is None:
        facts["revision"] = revision
    jobs = part.jobs() if part else corpus() if only in (None, MISSES, CYCLES) else []
    table = Table({**content, "cores": content["cores"] | {core.name: facts}})
    if core.name in CACHED and jobs and only != CYCLES:
        some = jobs[::THINNED] if part else jobs
        renewed(MISSES, fit_all([s for s in misses(core, some, table) if has(s.kind)]))
    if core.name in COUNTED and jobs and only != MISSES:
        for kind, each in cycles(core, jobs, table).items():
            facts["kinds"][kind][CYCLES] = each
    return facts


def main() -> int:
    """Measure, fit, write; or judge."""
    about = {name: part.about for name, part in PARTS.items()} | {
        ALGORITHMS: "what some cores compute by another algorithm",
        CYCLES: "cycles of an instruction on an M33, by kind",
        MISSES: "what a flash cache lacks, of a Pico and a Pico 2",
    }
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").format(
            parts="\n".join(f"        {name:10} {text}" for name, text in about.items())
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--core", action="append", choices=list(CORES), help=f"default: {' '.join(DEFAULT)}")
    parser.add_argument("--only", choices=list(about), metavar="NAME", help="see above")
    parser.add_argument("--board", action="append", help="an emulated board, instead of cores")
    parser.add_argument(
        "--judge", action="store_true", help="measure the models that the table has not seen, and compare"
    )
    parser.add_argument("--models", default=str(ROOT.parent / "shared" / "models"), metavar="FOLDER")
    parser.add_argument("--keep", metavar="FILE", help="keep the measured steps as JSON, to look at")
    args = parser.parse_args()
    if args.judge:
        table = Table.read()
        for name in args.core or DEFAULT:
            print("\n".join(judge(CORES[name], table, Path(args.models))), flush=True)
        return 0
    measure_boards(args.board or ())
    for name in args.core or (() if args.board else DEFAULT):
        _write("cores", name, measure_core(CORES[name], args.only, args.keep))
    return 0


def _content() -> dict[str, Any]:
    if PATH.exists():
        return dict(json.loads(PATH.read_text()))
    return {"cores": {}, "boards": {}}


def _write(part: str, name: str, facts: dict[str, Any]) -> None:
    """Puts an entry into the table: one line a kind, so that a difference can be read."""
    content = _content()
    content[part][name] = facts
    PATH.write_text(as_text(content) + "\n")


def as_text(content: Any, level: int = 0) -> str:
    """The table as JSON: a line for a board, and for a kind of a core."""
    if not isinstance(content, dict) or (level > 1 and _depth(content) < 3) or level > 3:
        return json.dumps(content, sort_keys=True)
    indent = "\n" + " " * level
    rows = (f"{indent} {json.dumps(name)}: {as_text(value, level + 1)}" for name, value in sorted(content.items()))
    return "{" + ",".join(rows) + indent + "}"


def _depth(content: Any) -> int:
    return 1 + max(map(_depth, content.values()), default=0) if isinstance(content, dict) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (MicaError, OSError, ValueError) as error:
        print(f"costs: {error}", file=sys.stderr)
        sys.exit(1)
