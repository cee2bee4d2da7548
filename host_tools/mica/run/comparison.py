"""Two packed models of the same task on the same samples: what each answers, and what each layer gives."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mica.data.calibration import fit, load_calibration, read_arrays
from mica.errors import MicaError
from mica.file.codec import ModelFile
from mica.format.values import QUANTISED, dequantise_output
from mica.run import evaluation
from mica.run.evaluation import Dataset
from mica.run.host import HostRunner
from mica.run.output_errors import ChannelSums, OutputErrors

SAMPLES = 64  # whose layers are compared, at most, evenly spread
MAX_MACS = 500_000_000  # of both models over all of them

Sample = list[np.ndarray]  # float32, one array an input
Float = Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]]  # inputs -> values, by name


@dataclass(frozen=True)
class Layer:
    """A step and its error: beside float, or that of b beside a. None where the other one has no such value."""

    name: str
    kernel: str
    sqnr_db: float | None


@dataclass(frozen=True)
class Comparison:
    """errors: of a and of b beside float, empty without; beside: of b beside a. layers: of a and of b, of b alone
    without float; the worst first."""

    errors: tuple[OutputErrors, ...]
    beside: OutputErrors
    layers: tuple[list[Layer], ...]


def check(a: ModelFile, b: ModelFile) -> None:
    """Raises MicaError where the two cannot be given the same samples."""
    inputs = [[(m.tensors[t].name, m.tensors[t].dims) for t in m.inputs] for m in (a, b)]
    if inputs[0] != inputs[1]:
        shown = [", ".join(f"'{name}' {list(dims)}" for name, dims in i) for i in inputs]
        raise MicaError(
            f"the models have different inputs: {shown[0]} and {shown[1]}", todo="expected two models of one task"
        )
    if len(a.outputs) != len(b.outputs):
        raise MicaError(
            f"the models have {len(a.outputs)} and {len(b.outputs)} outputs", todo="expected two models of one task"
        )
    for t, u in zip(a.outputs, b.outputs, strict=True):
        if a.tensors[t].dims != b.tensors[u].dims:
            raise MicaError(
                f"output '{a.tensors[t].name}' has the shapes {list(a.tensors[t].dims)} and {list(b.tensors[u].dims)}",
                todo="expected two models of one task",
            )


def load(path: str | Path, model: ModelFile) -> tuple[Dataset | None, list[Sample]]:
    """(labelled data where the file has labels and the model one input, samples for the layers). Raises MicaError."""
    names = [model.tensors[t].name for t in model.inputs]
    shapes = {model.tensors[t].name: model.tensors[t].dims for t in model.inputs}
    data = None
    asked = evaluation.table_inputs(model)
    if len(names) == 1 and not Path(path).is_dir() and "y" in read_arrays(path, asked):
        data = evaluation.for_model(evaluation.load(path, asked), model)
        columns = [np.concatenate(list(data.inputs(shapes[names[0]], names[0])))]
    else:
        arrays = load_calibration(path, names, shapes, table=asked)
        columns = [fit(name, arrays[name], shapes[name]) for name in names]
    n = min(len(c) for c in columns)
    if n == 0:
        raise MicaError(f"{path}: holds no samples")
    most = max(1, min(SAMPLES, MAX_MACS // max(1, 2 * sum(s.macs for s in model.steps))))
    chosen = [k * n // most for k in range(most)] if n > most and not model.state_bytes else range(min(n, most))
    return data, [[c[k] for c in columns] for k in chosen]


def compare(a: HostRunner, b: HostRunner, samples: Sequence[Sample], exact: Float | None) -> Comparison:
    """Runs both over the samples, layer by layer. exact: the float network, None to compare b with a."""
    models = (a.model, b.model)
    names = [m.tensors[t].name for m in models[:1] for t in m.inputs]
    outputs = [[m.tensors[t] for t in m.outputs] for m in models]
    beside = _errors(a.model)
    errors = tuple(_errors(m) for m in models) if exact else ()
    sums = (ChannelSums(), ChannelSums()) if exact else (ChannelSums(),)
    for runner in (a, b):
        runner.reset()
    for sample in samples:
        values = [dict(_values(runner, sample)) for runner in (a, b)]
        ends = [[v[t.name] for t in o] for v, o in zip(values, outputs, strict=True)]
        beside.add(*ends)
        if exact:
            real = exact(dict(zip(names, sample, strict=True)))
            for error, end, out in zip(errors, ends, outputs, strict=True):
                if all(t.name in real for t in out):
                    error.add([real[t.name] for t in out], end)
        else:
            real = values[0]
        for s, v in zip(sums, values if exact else values[1:], strict=True):
            for name, y in v.items():
                if name in real and real[name].size == y.size:
                    s.add(name, real[name].reshape(y.shape), y)
    layers = tuple(_layers(m, s) for m, s in zip(models if exact else models[1:], sums, strict=True))
    return Comparison(errors, beside, layers)


def _errors(model: ModelFile) -> OutputErrors:
    return OutputErrors(model, model.metadata.get("labels", "").count("\n") + 1)


def _values(runner: HostRunner, sample: Sample) -> Iterator[tuple[str, np.ndarray]]:
    """Outputs of each step as real numbers, with their names."""
    model = runner.model
    for i, x in enumerate(runner.quantise(sample)):
        runner.loaded.set_input(i, x)
        yield model.tensors[model.inputs[i]].name, dequantise_output(x, model.tensors[model.inputs[i]])
    for step, y in zip(model.steps, runner.loaded.layers(), strict=True):
        t = model.tensors[step.outputs[0]]
        yield t.name, dequantise_output(y, t).reshape(t.dims)
    for k, i in enumerate(model.outputs):  # also one that is an input, or that a reshape named
        t = model.tensors[i]
        yield t.name, dequantise_output(runner.loaded.output(k), t)


def _layers(model: ModelFile, sums: ChannelSums) -> list[Layer]:
    rows = []
    for step in model.steps:
        t = model.tensors[step.outputs[0]]
        known = t.dtype in QUANTISED and t.name in sums.sums
        rows.append(Layer(step.name, step.kernel, sums.db(t.name) if known else None))
    return sorted(rows, key=lambda r: np.inf if r.sqnr_db is None else r.sqnr_db)
