"""Steps measured on a core, and the factors that are fitted to them."""

from __future__ import annotations

import pickle
import sys
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import bare_metal
import cycle_tables
import numpy as np
from bare_metal import Core, Job
from layer_sweeps import lines, paired, winograds

from mica.cost import features
from mica.cost.table import Table
from mica.errors import MicaError
from mica.file import codec

PLAIN = (
    "-DMICA_WITHOUT_WINOGRAD",
    "-DMICA_WITHOUT_PAIRED",
    "-DMICA_WITHOUT_LINES",
)  # a program that has nothing but the algorithms that all cores have
PART = 60  # models in one start of an emulator
EACH = 40  # steps of a kind whose cycles are counted
MOST_COUNTED = 1_000_000  # multiplications of a model that is counted
SCRATCH = 16384
FLOOR = 200.0  # counts that are taken for no error at all in a small step


@dataclass
class Sample:
    """One step that was measured."""

    model: str
    kind: str
    counts: features.Counts
    cost: float


def samples(core: Core, jobs: Sequence[Job]) -> list[Sample]:
    """The measured steps of all jobs, computed in the way that all cores have."""
    found = []
    for job, result in zip(jobs, results(core, jobs, PLAIN), strict=True):
        model = codec.decode(job.data)
        for step, cost in zip(model.steps, result.counts, strict=True):
            found.append(Sample(job.name, *features.step_counts(model, step, result.scratch_bytes)[0], cost))
    return found


def algorithms(core: Core) -> list[Sample]:
    """Samples of steps for which the core has a second algorithm: those that it made cheaper."""
    way, made = ("paired", paired) if core.isa == "armv6m" else ("winograd", winograds)
    jobs = [*made(), *lines()]
    found = []
    for job, plain, chosen in zip(jobs, results(core, jobs, PLAIN), results(core, jobs), strict=True):
        model = codec.decode(job.data)
        if chosen.counts[0] < 0.98 * plain.counts[0]:
            kinds = dict(features.step_counts(model, model.steps[0], chosen.scratch_bytes))
            kind = f"conv2d_s8 {way}" if f"conv2d_s8 {way}" in kinds else list(kinds)[-1]
            found.append(Sample(job.name, kind, kinds[kind], chosen.counts[0]))
    return found


def cycles(core: Core, jobs: Sequence[Job], table: Table) -> dict[str, Any]:
    """Fit cycles by the core's published table to instructions and counts, for each kind, on some steps of each."""
    chosen, seen = [], Counter[str]()
    for i in np.random.default_rng(29).permutation(len(jobs)):
        model = codec.decode(jobs[i].data)
        steps = [table.step(core.name, model, s, SCRATCH) for s in model.steps]
        if sum(s.macs for s in model.steps) <= MOST_COUNTED and any(s and seen[s.kind] < EACH for s in steps):
            chosen.append(jobs[i])
            seen.update(s.kind for s in steps if s)
    found = []
    program = bare_metal.build(core)
    for at in range(0, len(chosen), PART):
        part = chosen[at : at + PART]
        done = bare_metal.run(core, program, part, cycles=cycle_tables.TABLES[core.name])
        for job, result in zip(part, done, strict=True):
            model = codec.decode(job.data)
            for step, executed, counted in zip(model.steps, result.executed, result.cycles, strict=True):
                known = table.step(core.name, model, step, result.scratch_bytes)
                if known is not None:
                    counts = dict(features.step_counts(model, step, result.scratch_bytes))[known.kind]
                    found.append(Sample(job.name, known.kind, {**counts, "cost": executed}, counted))
        print(f"costs: {core.name}: cycles of {min(at + PART, len(chosen))} of {len(chosen)} models", file=sys.stderr)
    return fit_all(found)


def misses(core: Core, jobs: Sequence[Job], table: Table) -> list[Sample]:
    """Samples whose cost is what the flash cache of a Pico, or of a Pico 2, lacks of each step,
    which finds it empty: words, or lines."""
    pico = core.isa == "armv6m"
    program = bare_metal.build(core, more=bare_metal.HOT if pico else ())
    jobs = [job for job in jobs if codec.decode(job.data).steps]
    found = []
    for at in range(0, len(jobs), PART):
        part = [replace(job, times=1) for job in jobs[at : at + PART]]
        if pico:
            free, waited = (bare_metal.run(core, program, part, xip=each, cold=True) for each in (0, 1))
            costs = [np.subtract(b.counts, a.counts) for a, b in zip(free, waited, strict=True)]
        else:
            waited = bare_metal.run(core, program, part, xip=1, cycles=cycle_tables.TABLES[core.name], cold=True)
            costs = [np.divide(r.late, cycle_tables.MISS) for r in waited]
        for job, result, misses_of in zip(part, waited, costs, strict=True):
            model = codec.decode(job.data)
            for step, cost in zip(model.steps, misses_of, strict=True):
                known = table.step(core.name, model, step, result.scratch_bytes)
                if known is not None:
                    found.append(
                        Sample(job.name, *table.reads(core.name, model, step, result.scratch_bytes), float(cost))
                    )
        print(f"costs: {core.name}: waits of {min(at + PART, len(jobs))} of {len(jobs)} models", file=sys.stderr)
    return found


def results(core: Core, jobs: Sequence[Job], more: Sequence[str] = ()) -> list[bare_metal.Result]:
    """Run the jobs, or take earlier counts of the same program.

    Raises MicaError where a step wrote other bytes than the numpy reference.
    """
    program = bare_metal.build(core, more=more)
    stamp = zlib.crc32(b"".join(job.data for job in jobs))
    kept = program.with_name(f"{program.stem}-{stamp:08x}.counts")
    if kept.exists():
        found: list[bare_metal.Result] = pickle.loads(kept.read_bytes())
        return found
    found = []
    for at in range(0, len(jobs), PART):
        part = jobs[at : at + PART]
        done = bare_metal.run(core, program, part)
        wrong = bare_metal.differences(part, done, {job.name: bare_metal.expected(job) for job in part})
        if wrong:
            raise MicaError(f"{core.name}: " + "\n".join(wrong))
        found += done
        print(f"costs: {core.name}: {len(found)} of {len(jobs)} models", file=sys.stderr)
    kept.write_bytes(pickle.dumps(found))
    return found


def nonnegative_least_squares(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """x >= 0 that makes |a x - b| least: a [m, n], b [m]. Lawson and Hanson's active set, chapter 23 of their book."""
    n = a.shape[1]
    x, free = np.zeros(n), np.zeros(n, bool)
    for _ in range(10 * n):
        gradient = a.T @ (b - a @ x)
        gradient[free] = -np.inf
        best = int(np.argmax(gradient))
        if gradient[best] <= 1e-9 * float(np.abs(b).sum()):
            break
        free[best] = True
        while True:
            trial = np.zeros(n)
            trial[free] = np.linalg.lstsq(a[:, free], b, rcond=None)[0]
            bad = free & (trial <= 0)
            if not bad.any():
                x = trial
                break
            step = float(np.min(x[bad] / np.maximum(x[bad] - trial[bad], 1e-300)))
            x = x + step * (trial - x)
            free &= x > 1e-12
            x[~free] = 0
    return x


def fit(found: Sequence[Sample]) -> dict[str, Any]:
    """The factors of one kind, and their error: 9 of 10 steps stay within `error`, relative."""
    names = sorted({name for s in found for name in s.counts})
    a = np.array([[s.counts.get(name, 0.0) for name in names] for s in found])
    b = np.array([s.cost for s in found])
    weight = 1 / (b + FLOOR)
    scaled = a * weight[:, None]
    size = np.linalg.norm(scaled, axis=0)
    size[size == 0] = 1
    x = nonnegative_least_squares(scaled / size, b * weight) / size
    errors = np.abs(a @ x - b) * weight
    factors = {name: float(f"{v:.5g}") for name, v in zip(names, x, strict=True) if v > 0}
    return {"steps": len(found), "error": round(float(np.quantile(errors, 0.9)), 3), "factors": factors}


def fit_all(found: Sequence[Sample]) -> dict[str, Any]:
    """Kind -> its factors."""
    kinds = sorted({s.kind for s in found})
    return {kind: fit([s for s in found if s.kind == kind]) for kind in kinds}
