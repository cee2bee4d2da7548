"""A packed model in this process, with the names of the board's `mica.Model`: numbers in, numbers out, as NumPy arrays."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mica import engine
from mica.errors import MicaError
from mica.format import codec
from mica.format.values import dequantise_output, quantise_input

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
    """`predict` takes and gives real numbers, `run` integers. Names and shapes stand in the order of inputs and outputs.

    Shapes hold the batch of 1. The state of a streaming model goes on from sample to sample and from call to call.
    """

    def __init__(self, model: str | Path | bytes) -> None:
        """model: a .mica file, or its bytes. Raises MicaError."""
        if isinstance(model, bytes):
            data = model
        else:
            try:
                data = Path(model).read_bytes()
            except OSError as e:
                raise MicaError(f"{model}: cannot be read: {e.strerror}") from None
        try:
            self._model = codec.decode(data)
        except codec.FormatError as e:
            raise e.at(str(model) if not isinstance(model, bytes) else "the model") from None
        self._loaded = engine.load(data)
        self._inputs = [self._model.tensors[i] for i in self._model.inputs]
        self._outputs = [self._model.tensors[i] for i in self._model.outputs]
        self.name = self._model.metadata.get("name", "model")
        self.labels = [label for label in self._model.metadata.get("labels", "").split("\n") if label]
        self.input_names, self.output_names = (tuple(t.name for t in ts) for ts in (self._inputs, self._outputs))
        self.input_shape, self.output_shape = (tuple(t.dims for t in ts) for ts in (self._inputs, self._outputs))
        self.input_dtype, self.output_dtype = (tuple(t.dtype for t in ts) for ts in (self._inputs, self._outputs))

    def __repr__(self) -> str:
        return f"<mica.Model {self.name}: {self.input_names} -> {self.output_names}>"

    def predict(self, x: Array | Sequence[Array] | Mapping[str, Array]) -> Array | list[Array]:
        """Real numbers in, real numbers out.

        x: [n, ...input shape without the batch] for a model with one input; else a list in the order of the inputs, or a dict
        by name. Gives float32 [n, ...output shape without a batch of 1], or a list of them where there are several outputs.
        """
        return self._each(x, quantise_input, dequantise_output)

    def run(self, x: Array | Sequence[Array] | Mapping[str, Array]) -> Array | list[Array]:
        """As `predict`, with the integers of the model's tensors in and out: int8, int16 or int32 of `input_dtype`."""

        def checked(a: Array, t: codec.TensorRecord) -> Array:
            if a.dtype != np.dtype(t.dtype):
                raise MicaError(f"input '{t.name}': has {a.dtype}", todo=f"expected {t.dtype}; predict() takes numbers")
            return a.reshape(t.dims)

        return self._each(x, checked, lambda y, t: y)

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

    def top(self, k: int, scores: Array) -> list[tuple[str | int, float]]:
        """The k largest of an output's scores, with their labels where the file has some."""
        order = np.argsort(-np.ravel(scores), kind="stable")[:k]
        names: Sequence[str | int] = self.labels if len(self.labels) == np.size(scores) else range(np.size(scores))
        return [(names[i], float(np.ravel(scores)[i])) for i in order]

    def reset(self) -> None:
        """Clears the state of a streaming model, as it is after loading."""
        self._loaded.reset_state()

    def _each(self, x, before, after):  # type: ignore[no-untyped-def]
        columns = self._columns(x)
        results: list[list[Array]] = [[] for _ in self._outputs]
        for sample in zip(*columns, strict=True):
            for i, (a, t) in enumerate(zip(sample, self._inputs, strict=True)):
                self._loaded.set_input(i, before(a, t))
            self._loaded.run()
            for i, t in enumerate(self._outputs):
                shape = t.dims[1:] if t.dims[:1] == (1,) else t.dims
                results[i].append(after(np.array(self._loaded.output(i)), t).reshape(shape or (1,)))
        found = [np.stack(column) for column in results]
        return found[0] if len(found) == 1 else found

    def _columns(self, x: Array | Sequence[Array] | Mapping[str, Array]) -> list[Array]:
        """Samples of each input, [n, ...shape without the batch]. Raises MicaError."""
        if isinstance(x, Mapping):
            missing = [name for name in self.input_names if name not in x]
            if missing:
                raise MicaError(f"input '{missing[0]}' is missing", todo=f"given are {', '.join(x) or 'none'}")
            given = [np.asarray(x[name]) for name in self.input_names]
        elif len(self._inputs) == 1:
            given = [np.asarray(x)]
        else:
            given = [np.asarray(a) for a in x]
        if len(given) != len(self._inputs):
            raise MicaError(f"{len(given)} inputs given", todo=f"expected {len(self._inputs)}")
        return [self._samples(a, t) for a, t in zip(given, self._inputs, strict=True)]

    @staticmethod
    def _samples(a: Array, t: codec.TensorRecord) -> Array:
        shape = t.dims[1:]
        if a.shape == shape:
            a = a[None]
        if a.ndim == 0 or a.shape[1:] != shape:
            expected = ", ".join(["n", *map(str, shape)])
            raise MicaError(f"input '{t.name}': has shape {list(a.shape)}", todo=f"expected [{expected}]")
        return a
