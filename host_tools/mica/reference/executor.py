"""Run a .mica file step by step in numpy.

Values are kept by tensor id, not by place in the arena: where the memory plan lets two live tensors share bytes, the C
engine gives other bytes than this one.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..custom import NO_CUSTOM, CustomOps
from ..errors import MicaError
from ..file import codec
from ..file.codec import DTYPE_NUMPY, ModelFile, TensorRecord
from ..kernels import CUSTOM, KERNEL_BY_NAME
from ..kernels.integers import Output

Array = np.ndarray


class ReferenceModel:
    """A model in numpy, with the interface of `mica.engine`'s models.
    custom: the operators of the user's own that it needs."""

    def __init__(self, data: bytes, custom: CustomOps = NO_CUSTOM):
        self.custom = custom
        self.file: ModelFile = codec.decode(data)
        self._values: dict[int, Array] = {}
        # A tensor that no step writes is another shape of one that lies on the same bytes (a Reshape), a part of one
        # (a slice), or made of several (a concat): the ids that were written, the last one last.
        self._written: list[int] = []
        self.reset_state()

    @property
    def steps(self) -> int:
        """Number of steps."""
        return len(self.file.steps)

    @property
    def info(self) -> dict[str, int]:
        """Sizes in bytes, and counts."""
        f = self.file
        return {
            "file_bytes": f.file_bytes,
            "version_major": f.version[0],
            "version_minor": f.version[1],
            "arena_bytes": f.arena_bytes or 0,
            "scratch_min": f.scratch_min,
            "scratch_want": f.scratch_want,
            "state_bytes": f.state_bytes or 0,
            "n_tensors": len(f.tensors),
            "n_steps": len(f.steps),
            "n_inputs": len(f.inputs),
            "n_outputs": len(f.outputs),
        }

    def reset_state(self) -> None:
        """Set the state tensors back to their zero points."""
        for i, t in enumerate(self.file.tensors):
            if t.space == "state":
                self._write(i, np.full(t.dims, t.zero_point, DTYPE_NUMPY[t.dtype]))

    def set_input(self, i: int, values: Any) -> None:
        """Copy model input i; values have the tensor's type and number of elements."""
        if not 0 <= i < len(self.file.inputs):
            raise MicaError(f"input {i}: the model has {len(self.file.inputs)}")
        t = self.file.tensors[self.file.inputs[i]]
        a = np.asarray(values)
        if a.dtype != np.dtype(DTYPE_NUMPY[t.dtype]) or a.size * a.itemsize != t.bytes:
            raise MicaError(f"input {i} ({t.name}): found {a.dtype} {list(a.shape)}, expected {t.dtype} {list(t.dims)}")
        self._write(self.file.inputs[i], a.reshape(t.dims).copy())

    def output(self, i: int) -> Array:
        """A copy of model output i."""
        if not 0 <= i < len(self.file.outputs):
            raise MicaError(f"output {i}: the model has {len(self.file.outputs)}")
        return self.tensor(self.file.outputs[i])

    def tensor(self, i: int) -> Array:
        """A copy of tensor i; bytes that no step has written yet are zero."""
        if not 0 <= i < len(self.file.tensors):
            raise MicaError(f"tensor {i}: the model has {len(self.file.tensors)}")
        return self._read(i).copy()

    def run(self) -> None:
        """All steps, in order."""
        for i in range(self.steps):
            self.run_step(i)

    def layers(self) -> Iterator[Array]:
        """Runs all steps; yields a copy of each one's output."""
        for i, step in enumerate(self.file.steps):
            self.run_step(i)
            yield self.tensor(step.outputs[0])

    def run_step(self, i: int) -> None:
        """One step."""
        if not 0 <= i < self.steps:
            raise MicaError(f"step {i}: the model has {self.steps}")
        s = self.file.steps[i]
        x, y = [self.file.tensors[t] for t in s.inputs], self.file.tensors[s.outputs[0]]
        if s.kernel == CUSTOM.name:
            values = [self._read(t) for t in s.inputs]
            self._write(s.outputs[0], self.custom.values_s8(s.blobs["definition"].tobytes(), values, x, y))
            return
        out = Output(tuple(y.dims), x[0].zero_point, y.zero_point, x[-1].zero_point)
        xs = [self._read(t) for t in s.inputs]
        self._write(s.outputs[0], KERNEL_BY_NAME[s.kernel].oracle(xs, s.blobs, s.params, out))

    def _write(self, i: int, values: Array) -> None:
        t = self.file.tensors[i]
        self._values[i] = np.ascontiguousarray(values)
        hidden = [k for k in self._written if not _inside(self.file.tensors[k], t)]
        self._written = [*hidden, i]

    def _read(self, i: int) -> Array:
        t = self.file.tensors[i]
        if t.values is not None:
            return t.values
        # In the arena, what was written is read again even where another tensor came to lie on it: so a plan that lets
        # this happen gives other numbers here than in C. State is one piece of memory under all its names.
        if i in self._values and t.space != "state":
            return self._values[i].reshape(t.dims)
        found = np.zeros(t.bytes, np.uint8)
        for k in self._written:
            w = self.file.tensors[k]
            low, high = max(t.offset, w.offset), min(t.offset + t.bytes, w.offset + w.bytes)
            if t.space == w.space and low < high:
                found[low - t.offset : high - t.offset] = (
                    self._values[k].reshape(-1).view(np.uint8)[low - w.offset : high - w.offset]
                )
        return found.view(DTYPE_NUMPY[t.dtype]).reshape(t.dims)


def _inside(a: TensorRecord, b: TensorRecord) -> bool:
    """True if all bytes of a are bytes of b."""
    return a.space == b.space and b.offset <= a.offset and a.offset + a.bytes <= b.offset + b.bytes
