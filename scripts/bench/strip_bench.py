"""Costs of the reference models in strips of rows and layer by layer: `scripts/bench/run --only strips`.

Each file is packed as with `pack --ram N`, with the costs of its core and the nearest integers of the weights. It runs
on one random input. The bytes of the last step are compared with the numpy reference.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bare_metal
import numpy as np
from bare_metal import CORES, Job
from reference_models import compiled, files

from mica.cli import text
from mica.compile import Ram, within
from mica.cost.table import Table
from mica.errors import MicaError

DEFAULT = ("m0plus", "m33", "rv32")
CASES = (  # model, bytes for tensors and scratch, whether the input is fed
    ("ic", 32_000, False),
    ("ic", 19_500, False),
    ("vww", 32_500, False),
    ("vww", 25_000, True),
    ("kws", 13_700, False),
)


@dataclass(frozen=True)
class Row:
    """One model on one core: its memory, and millions of cycles or instructions, layer by layer and in strips."""

    core: str
    model: str
    options: str
    arena: int
    scratch: int
    whole: float
    count: float


def run(folder: Path, cores: Sequence[str]) -> list[Row]:
    """All cases on these cores. Raises MicaError where a model's last step wrote other bytes than numpy."""
    rows = []
    for name in cores:
        core = CORES[name]
        if why := bare_metal.available(core):
            raise MicaError(f"{name}: {why}")
        price = Table.read().price(name)
        jobs: list[Job] = []
        for model in dict.fromkeys(case[0] for case in CASES):
            whole = compiled(*files(folder, model))
            rng = np.random.default_rng(zlib.crc32(model.encode()))
            inputs = [bare_metal.random_input(whole.model.tensors[i], rng) for i in whole.model.inputs]
            jobs.append(Job(model, bare_metal.for_board(whole.model, core.board), inputs))
            for _, ram, feed in (case for case in CASES if case[0] == model):
                made = within(whole, Ram(ram, price, feed))
                jobs.append(Job(f"{model} {'--feed ' * feed}--ram {ram}", made.data, inputs))
        results = bare_metal.run(core, bare_metal.build(core), jobs)
        for job, result in zip(jobs, results, strict=True):
            if result.refused or result.hashes[-1] != bare_metal.expected(job)[-1]:
                raise MicaError(f"{name}: {job.name}: {result.refused or 'other bytes than the numpy reference'}")
        wholes = {job.name: sum(r.counts) for job, r in zip(jobs, results, strict=True) if " " not in job.name}
        for job, result in zip(jobs, results, strict=True):
            model, _, options = job.name.partition(" ")
            figures = (result.arena_bytes, result.scratch_bytes, wholes[model] / 1e6, sum(result.counts) / 1e6)
            rows.append(Row(name, model, options, *figures))
    return rows


def table(rows: Sequence[Row]) -> str:
    """Return the table as BENCH.md has it."""
    lines: list[tuple[Any, ...]] = [
        (r.core, r.model, r.options, f"{r.arena:,}", f"{r.scratch:,}", f"{r.count:.2f}", f"{r.count / r.whole:.3f}")
        for r in rows
    ]
    head = ("core", "model", "pack", "tensors", "scratch", "M counts", "of layer by layer")
    return text.table(head, lines, "lllrrrr")
