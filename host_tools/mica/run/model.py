"""A packed model in this process, with the names of the board's `mica.Model`: NumPy arrays of numbers in and out."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mica import engine
from mica.data.calibration import fit_any
from mica.errors import MicaError, found_at, reading
from mica.file import codec, scores
from mica.format import output_groups
from mica.format.values import QUANTISED, dequantise_output, quantise_input
from mica.run import evaluation, given

Array = np.ndarray


@dataclass(frozen=True)
class Layer:
    """One step: its output of the last run, as int8 (int16, int32) integers; `real` has its numbers."""

    index: int
    name: str
    kernel: str
    output: Array
    real: Array


class Model:
    """`predict` takes and gives real numbers, `run` integers.
    Names and shapes stand in the order of inputs and outputs.

    Shapes hold the batch of 1. The state of a streaming model goes on from sample to sample and from call to call.
    """

    def __init__(self, model: str | Path | bytes) -> None:
        """model: a .mica file, or its bytes. Raises MicaError."""
        if isinstance(model, bytes | bytearray | memoryview):
            data = bytes(model)
        elif isinstance(model, str | Path):
            with reading(model):
                data = Path(model).read_bytes()
        else:
            raise MicaError(
                f"a model was asked of {type(model).__name__}", todo="give a .mica file's path or its bytes"
            )
        with found_at(str(model) if isinstance(model, str | Path) else "the model"):
            self._model = codec.decode(data)
        self._loaded = engine.load(data)
        self._inputs = [self._model.tensors[i] for i in self._model.inputs]
        self._outputs = [self._model.tensors[i] for i in self._model.outputs]
        self.name = self._model.metadata.get("name", "model")
        self.labels = scores.labels(self._model)
        self._groups = output_groups.read(self._model)
        self._last: list[Array] | None = None  # integers of all outputs, of the last sample
        self.input_names, self.output_names = (tuple(t.name for t in ts) for ts in (self._inputs, self._outputs))
        self.input_shape, self.output_shape = (tuple(t.dims for t in ts) for ts in (self._inputs, self._outputs))
        self.input_dtype, self.output_dtype = (tuple(t.dtype for t in ts) for ts in (self._inputs, self._outputs))

    def __repr__(self) -> str:
        return f"<mica.Model {self.name}: {self.input_names} -> {self.output_names}>"

    def predict(self, x: Array | Sequence[Array] | Mapping[str, Array]) -> Array | list[Array]:
        """Real numbers in, real numbers out.

        x: [n, ...input shape without the batch] for a model with one input;
        else a list in the order of the inputs, or a dict by name. A sample may be flat.
        Gives float32 [n, ...output shape without a batch of 1], or a list of them where there are several outputs.
        Warns of values far outside of the input's range. Raises MicaError for NaN and infinity.
        """
        columns = self._columns(x)
        for a, t in zip(columns, self._inputs, strict=True):
            if a.dtype == t.dtype and t.dtype in QUANTISED and (t.scale, t.zero_point) != (1, 0):
                todo = "give numbers, as float32; run() takes the tensor's integers"
                raise MicaError(f"input '{t.name}': {a.dtype} may be numbers or the quantised tensor", todo=todo)
            if given.odd(a, evaluation.MISSING in self._model.metadata):
                raise MicaError(f"input '{t.name}': holds NaN or infinity", todo="leave such samples out")
        for line in given.saturating(self._model, columns):
            warnings.warn(line, stacklevel=2)
        rows: list[list[Array]] = [[] for _ in self._groups]
        for outputs in self._outputs_of(columns, quantise_input):
            for found, group in zip(rows, self._groups, strict=True):
                found.append(_without_batch(output_groups.joined(self._model, group, outputs), group.shape))
        return _stacked(rows)

    def run(self, x: Array | Sequence[Array] | Mapping[str, Array]) -> Array | list[Array]:
        """Predict with the integers of the model's tensors in and out: int8, int16 or int32 of `input_dtype`."""

        def checked(a: Array, t: codec.TensorRecord) -> Array:
            if a.dtype != np.dtype(t.dtype):
                raise MicaError(f"input '{t.name}': has {a.dtype}", todo=f"expected {t.dtype}; predict() takes numbers")
            return a.reshape(t.dims)

        rows: list[list[Array]] = [[] for _ in self._outputs]
        for outputs in self._outputs_of(self._columns(x), checked):
            for found, y, t in zip(rows, outputs, self._outputs, strict=True):
                found.append(_without_batch(y, t.dims))
        return _stacked(rows)

    def layers(self) -> list[Layer]:
        """All steps with their outputs for the inputs of the last call; not for models with state."""
        if self._model.state_bytes:
            raise MicaError("layers(): the model has a state, which another run would change")
        found = []
        for k, (step, y) in enumerate(zip(self._model.steps, self._loaded.layers(), strict=True)):
            t = self._model.tensors[step.outputs[0]]
            y = np.array(y).reshape(t.dims)
            found.append(Layer(k, step.name, step.kernel, y, dequantise_output(y, t)))
        return found

    def top(self, k: int = 1, i: int | str | Array | None = None) -> list[tuple[str | int, float]]:
        """The k largest scores with their labels, or their numbers where the file has none; the largest first.

        i: an output of the last sample by its place or name, or scores that predict() gave. By default the output of
        the last sample that holds scores of the classes. Raises MicaError.
        """
        if not isinstance(k, int | np.integer) or isinstance(k, bool):
            raise MicaError(f"top: a number of scores is expected, not {k!r}")
        values = np.ravel(i if isinstance(i, np.ndarray | list | tuple) else self._answer(i))
        order = np.argsort(-values, kind="stable")[: max(k, 0)]
        n = len(values)
        names: Sequence[str | int] = (
            scores.names(self._model, n) if n in (len(self.labels), len(self.labels) - 1) else ()
        )
        names = names if names and names[0] in self.labels else range(n)
        return [(names[j], float(values[j])) for j in order]

    def _answer(self, i: int | str | None) -> Array:
        """Return an output of the last sample as real numbers. Raises MicaError."""
        if self._last is None:
            raise MicaError("top: the model has not run", todo="call predict() before, or give the scores")
        known = [group.name for group in self._groups]
        if isinstance(i, str) and i in known:
            i = known.index(i)
        k = scores.required(self._model) if i is None else i
        if not isinstance(k, int) or not 0 <= k < len(known):
            raise MicaError(f"top: no output {k!r}", todo=f"there are {', '.join(known)}")
        group = self._groups[k]
        if self._outputs[group.first].dtype == "int32":
            raise MicaError(f"top: output '{group.name}' holds numbers of classes or places, and no scores")
        return output_groups.joined(self._model, group, self._last)

    def reset(self) -> None:
        """Clears the state of a streaming model, as it is after loading."""
        self._loaded.reset_state()

    def _outputs_of(
        self, columns: list[Array], before: Callable[[Array, codec.TensorRecord], Array]
    ) -> Iterator[list[Array]]:
        """Run sample after sample: the integers of all outputs of each."""
        for sample in zip(*columns, strict=True):
            for i, (a, t) in enumerate(zip(sample, self._inputs, strict=True)):
                self._loaded.set_input(i, before(a, t))
            self._loaded.run()
            self._last = [np.array(self._loaded.output(i)) for i in range(len(self._outputs))]
            yield self._last

    def _columns(self, x: Array | Sequence[Array] | Mapping[str, Array]) -> list[Array]:
        """Samples of each input, [n, ...shape without the batch]. Raises MicaError."""
        if isinstance(x, Mapping):
            missing = [name for name in self.input_names if name not in x]
            if missing:
                raise MicaError(f"input '{missing[0]}' is missing", todo=f"given are {', '.join(x) or 'none'}")
            found = [_numbers(x[name]) for name in self.input_names]
        elif len(self._inputs) == 1:
            found = [_numbers(x)]
        else:
            found = [_numbers(a) for a in x]
        if len(found) != len(self._inputs):
            raise MicaError(f"{len(found)} inputs given", todo=f"expected {len(self._inputs)}")
        found = [fit_any(t.name, a, tuple(t.dims)) for a, t in zip(found, self._inputs, strict=True)]
        if len({len(a) for a in found}) != 1 or not len(found[0]):
            raise MicaError(
                f"inputs of {', '.join(str(len(a)) for a in found)} samples", todo="expected as many of each"
            )
        return found


def _numbers(x: object) -> Array:
    """Return an array of what a caller gave. Raises MicaError."""
    try:
        a = np.asarray(x)
    except ValueError:  # lists of unequal lengths
        a = np.asarray(None)
    if a.dtype.kind not in "fiub":
        raise MicaError(f"an input is {type(x).__name__} of {a.dtype}", todo="expected an array of numbers")
    return a


def _without_batch(y: Array, dims: tuple[int, ...]) -> Array:
    return y.reshape((dims[1:] if tuple(dims[:1]) == (1,) else dims) or (1,))


def _stacked(rows: list[list[Array]]) -> Array | list[Array]:
    found = [np.stack(column) for column in rows]
    return found[0] if len(found) == 1 else found
