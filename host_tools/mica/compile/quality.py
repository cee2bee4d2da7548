"""Accuracy of the packed file beside the float network: the engine runs the very file that is written.

Without labelled data there are calibration samples alone, all of which made the file. The loss on others is measured
on a second model, made with the same recipe of some of the samples (`quantise.tune.Unseen`): how much more it loses on
those that it did not see. Samples moved further out than any (`stretched`) measure the loss beyond the ranges: a tanh
or a norm behind a range lets little of that through, a last layer all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mica import engine
from mica.compile.quantising import trial
from mica.compile.state import Compiled
from mica.file.codec import ModelFile
from mica.format.names import clean
from mica.format.values import QUANTISED, dequantise_output, quantise_input
from mica.printable import attributes
from mica.quantise.tune import thin
from mica.reference import float_ops
from mica.run.evaluation import Dataset
from mica.run.output_errors import CLASS, MAP, NUMBERS, SCORES, OutputErrors, Sums

SAMPLES = 64  # at most
MAX_MACS = 300_000_000  # of all of them; two samples always
UNSURE = 3.0  # dB; a ratio that may be further off than this is told with a reason
LEAST = 48  # samples; with fewer, that they are few is the reason
LEAST_EVER = 8  # samples, which tell nothing of rare ones
FEW = 16  # different answers that a person is told of
STRETCH = 0.35  # further from the mean than these samples, some of the next hundreds are, if tails are as NORMAL
NORMAL = 1.9  # the furthest sixteenth of samples to the next ones, in pictures, series and a normal distribution
MOST = 0.7  # further, of a longer tail
GOOD = 20.0  # dB; below, made-up samples are no reason to doubt a file that came quantised

Samples = Sequence[Mapping[str, np.ndarray]]


@dataclass(frozen=True)
class Quality:
    """data: the samples of the measurement. "held out": some of the calibration samples. "eval": labelled data.
    "calibration": all of these samples, where there are too few to hold any out. "unseen": by a model that came
    quantised. "made up", or "made up, own scales": no real samples."""

    errors: OutputErrors
    worst_layer: dict[str, Any] | None  # name, kernel, sqnr_db of the layer with the lowest
    data: str

    def facts(self) -> dict[str, Any]:
        """The key `quality` of --json."""
        e = self.errors
        worst = e.worst
        facts = {
            **attributes(e, "sqnr_db plus_minus_db agreement samples"),
            "outputs": [vars(output) for output in e.each],
            "worst_output": None if worst is None else vars(worst),
            **attributes(self, "worst_layer data cannot_tell"),
        }
        return {**facts, "line": _line(facts)}

    @property
    def cannot_tell(self) -> str:
        """Why other samples may give another ratio, by more than `UNSURE`; "" where there is no reason."""
        e, n = self.errors, self.errors.samples
        known = [o for o in e.each if o.sqnr_db is not None]
        if self.data == "made up, own scales" and (e.sqnr_db or 0.0) < GOOD:
            return "the file keeps its own integers; give real samples with --calib to see how near they are to float"
        if self.data.startswith("made up") or not known:
            return "" if n > 1 or self.data.startswith("made up") else "one sample"
        if all(o.flat and o.kind != NUMBERS for o in known):
            return f"'{known[0].name}' varies by less than one step of int8 over them"
        if n >= LEAST_EVER and e.plus_minus_db is not None and e.plus_minus_db <= UNSURE:
            return ""
        if n < LEAST:
            return f"{n} samples are few"
        if e.jumps:
            return "a comparison inside may turn out otherwise for others"
        beyond = max(o.beyond_db for o in known) > UNSURE
        return "others may go beyond the range that calibration saw" if beyond else "a few of them decide it"


def measure(compiled: Compiled, data: Dataset | None = None) -> Quality | None:
    """Quality of a compiled model on labelled data, on calibration samples, or on made-up ones.

    None where the model has inputs that evaluation data does not feed.
    """
    tuned, unseen = compiled.tuned, compiled.tuned.unseen
    if data is not None and len(compiled.core.inputs) == 1 and not compiled.model.state_bytes:
        name = compiled.core.inputs[0]
        samples = _of_data(data, name, compiled.core.value(name).shape, _number(compiled))
        return _measure(compiled, samples, "eval", data.metric == "top1")
    if unseen is None:
        return None
    n = _number(compiled)
    held = thin(unseen.samples, n if not unseen.seen else max(n // 2, n - len(unseen.seen)))
    samples = [*held, *thin(unseen.seen, n - len(held))]
    kind = unseen.kind if tuned.ranges else "unseen"
    if compiled.made_up:
        kind = "made up" if tuned.ranges else "made up, own scales"
    found = _measure(compiled, samples, kind)
    if unseen.seen and not compiled.made_up:
        model, content = trial(unseen.tuned)
        run = _Engine(compiled, model, content)
        for k, sample in enumerate(samples):
            run.feed(sample)
            run.loaded.run()
            found.errors.add_other(run.outputs(), k < len(held))
        found.errors.share = len(unseen.seen) / (len(unseen.seen) + len(unseen.samples))
        run = _Engine(compiled, *_stateless(compiled))
        for sample in stretched(samples):
            run.feed(sample)
            run.loaded.run()
            real = {n: y for n, y in float_ops.stream(compiled.core, sample) if n in compiled.core.outputs}
            for name, output, y in zip(compiled.core.outputs, found.errors.outputs, run.outputs(), strict=True):
                output.add_far(real[name], y)
    return found


def stretched(samples: Samples) -> Samples:
    """Return the samples, further from their mean. Numbers of a few values keep these, whole numbers are whole, and
    an end that several reach, as white in a picture, is not left."""
    result = [dict(sample) for sample in samples]
    for name in samples[0]:
        x = np.stack([np.ravel(sample[name]) for sample in samples]).astype(np.float32)
        low, high, whole = x.min(), x.max(), bool((x == np.rint(x)).all())
        few = 2 * np.count_nonzero(np.diff(np.sort(x, axis=0), axis=0), axis=0) < len(x)
        away = x - x.mean(axis=0)
        far = x + np.where(few, 0, _further(np.sort(np.abs(away[:, ~few]), axis=0)) * away)
        far = np.maximum(far, low) if whole or np.sum(x == low) > 1 else far
        far = np.minimum(far, high) if whole or np.sum(x == high) > 1 else far
        for sample, now in zip(result, np.rint(far) if whole else far, strict=True):
            sample[name] = now.reshape(np.shape(sample[name])).astype(np.asarray(sample[name]).dtype)
    return result


def _further(away: np.ndarray) -> float:
    """Return how much further others go, by the tails of distances: [samples, numbers], ascending."""
    k = max(1, len(away) // 16)
    near = away[-min(3 * k, len(away))]
    tails = away[-k:].mean(axis=0)[near > 0] / near[near > 0]
    return min(MOST, STRETCH * (min(float(tails.mean()), 4.0) / NORMAL) ** 3) if len(tails) else STRETCH


def _stateless(compiled: Compiled) -> tuple[ModelFile, bytes]:
    """Return the file; of one with states a model that is given them."""
    return trial(compiled.tuned) if compiled.model.state_bytes else (compiled.model, compiled.data)


def _number(compiled: Compiled) -> int:
    return max(2, min(SAMPLES, MAX_MACS // max(compiled.macs, 1)))


def _of_data(data: Dataset, name: str, shape: tuple[int, ...], n: int) -> Samples:
    """n samples evenly spread; of a series one window."""
    n = min(n, len(data))
    chosen = [k * len(data) // n for k in range(n)]
    few = replace(data, x=data.x[chosen], y=data.y[chosen])
    return [{name: windows[k % len(windows)]} for k, windows in enumerate(few.inputs(shape, name))]


class _Engine:
    """A model that runs on samples of real numbers."""

    def __init__(self, compiled: Compiled, model: ModelFile, content: bytes) -> None:
        self.loaded, self.model, self.names = engine.load(content, compiled.custom), model, compiled.core.inputs
        self.ends = [model.tensors[t] for t in model.outputs]

    def feed(self, sample: Mapping[str, np.ndarray]) -> None:
        for i, t in enumerate(self.model.inputs):
            self.loaded.set_input(i, quantise_input(sample[self.names[i]], self.model.tensors[t]))

    def outputs(self) -> list[np.ndarray]:
        return [dequantise_output(self.loaded.output(k), t) for k, t in enumerate(self.ends)]


def _measure(compiled: Compiled, samples: Samples, data: str, classes: bool = False) -> Quality:
    """The file on samples. classes: the first output is known to tell them."""
    exact, (model, content) = compiled.core, _stateless(compiled)
    run = _Engine(compiled, model, content)
    labels = compiled.model.metadata.get("labels", "").count("\n") + 1
    errors, layers = OutputErrors(model, labels, classes), Sums()
    steps = {model.tensors[s.outputs[0]].name: s for s in model.steps}
    truths: dict[str, bool] = {}  # layers that give 0 and 1 alone
    for sample in samples:
        run.feed(sample)
        found = {}
        for step, made in zip(model.steps, run.loaded.layers(), strict=True):
            y = model.tensors[step.outputs[0]]
            if y.dtype in QUANTISED:
                found[y.name] = (y, np.array(made))
        outputs = run.outputs()
        expected: dict[str, np.ndarray] = {}
        for name, real in float_ops.stream(exact, sample):  # which lets go of what nobody reads any more
            if name in exact.outputs:
                expected[name] = real
            if (key := clean(name)) in found:
                y, integers = found.pop(key)
                layers.add(key, real, dequantise_output(integers, y))
                if steps[key].kernel == "lut_s8":
                    truths[key] = truths.get(key, True) and bool(np.isin(real, (0, 1)).all())
        errors.add([expected[o] for o in exact.outputs], outputs)
    errors.jumps = any(truth and layers.db(key) is not None for key, truth in truths.items())
    known = {name: db for name in layers.signal if (db := layers.db(name)) is not None}
    worst = min(known, key=known.__getitem__, default=None)
    layer = worst and {"name": steps[worst].name, "kernel": steps[worst].kernel, "sqnr_db": known[worst]}
    return Quality(errors, layer or None, data)


def _line(q: Mapping[str, Any]) -> str:
    """The facts for a person, in two lines: what it does to answers, and the error beside the signal."""
    why, db = q["cannot_tell"], q["sqnr_db"]
    if q["data"] == "made up" or (q["data"] == "made up, own scales" and why):
        return f"unknown: {why or 'made-up samples tell nothing of it; give real ones with --calib'}"
    answers = ", ".join(_answers(q["outputs"]) or ["unknown"])
    first = f"{answers} {'of' if answers.endswith(('%', 'places')) else 'in'} {q['samples']} "
    first += f"{'made-up ' * q['data'].startswith('made up')}sample{'s' * (q['samples'] != 1)}"
    if db is None:
        return first + (f" ({why})" if why else "")
    known = q["plus_minus_db"] is not None and not q["data"].startswith("made up")
    error = f"{db:.1f}" + (f" +/- {q['plus_minus_db']:.1f}" if known else "") + " dB below the signal"
    worst = [(role, q[f"worst_{role}"]) for role in ("output", "layer")]
    parts = [f"worst {role} {w['name']} {w['sqnr_db']:.1f} dB" for role, w in worst if w is not None]
    return first + "\n" + error + (f" (unsure: {why})" if why else "") + "".join(f"; {p}" for p in parts)


def _answers(outputs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the line of the first output that has classes; else the error of the worst output."""
    for kind in (CLASS, MAP, SCORES):
        for o in outputs:
            if o["kind"] == kind == SCORES:
                found = f"{o['found']:,} of the {o['of']:,} that float has above 0.5 found, and {o['others']:,} others"
                return [found if o["of"] or o["others"] else "float has nothing above 0.5 in them"]
            if o["kind"] == kind:
                share = 100 * o["alike"] / o["of"]
                return [
                    f"same {'answer' if kind == CLASS else 'class'} as float on {share:.2f} %"
                    + " of the places" * (kind == MAP)
                ]
    known = [o for o in outputs if o["sqnr_db"] is not None]
    if not known:
        return []
    o = min(known, key=lambda o: float(o["sqnr_db"]))
    said = [f"off by {o['error']:.3g}, {o['largest']:.3g} at most" + (f" of '{o['name']}'" if len(outputs) > 1 else "")]
    if o["distinct"] <= FEW and 2 * o["distinct"] <= o["expected"]:
        said.append(f"only {o['distinct']} different answers where float has {o['expected']}")
    return said
