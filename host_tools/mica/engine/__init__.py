"""Run .mica files on this computer: with the C engine of the boards, or, where that was not built, in numpy.

model = engine.load(data)
model.set_input(0, x)  # int8
model.run()            # or model.run_step(i) for i in range(model.steps)
y = model.output(0)
"""

from collections.abc import Iterator
from dataclasses import astuple
from typing import Any, Protocol

import numpy as np

from ..custom import NO_CUSTOM, CustomOps
from ..errors import MicaError
from ..file.codec import DTYPE_NUMPY, FormatError, unpack_record
from ..file.pictures import Frame
from ..file.tokens import Unspelled
from ..format.schema import DTYPES, HEADER, record_bytes
from ..kernels import CUSTOM
from ..reference import pictures
from ..reference.executor import ReferenceModel
from ..reference.sample import sample as draw

try:
    from . import _engine
except ImportError:
    AVAILABLE = False
    NAME = "numpy reference (no C compiler when mica was installed)"
else:
    AVAILABLE = True
    NAME = f"C engine ({_engine.isa()} kernels)"

Array = np.ndarray
_DTYPE_NAME = {v: k for k, v in DTYPES.items()}


class EngineError(MicaError):
    """The engine refused a call; the text is its own."""


class LoadedModel(Protocol):
    """The interface of both implementations. Arrays have the tensor's shape and are copies."""

    @property
    def steps(self) -> int:
        """Number of steps."""

    @property
    def info(self) -> dict[str, int]:
        """Sizes in bytes, and counts."""

    def set_input(self, i: int, values: Any) -> None:
        """Copy model input i; values have the tensor's type and number of elements."""

    def run(self) -> None:
        """All steps, in order."""

    def run_step(self, i: int) -> None:
        """One step."""

    def layers(self) -> Iterator[Array]:
        """Runs all steps; yields a copy of each one's output, in their order: right after it, or after its strip."""

    def output(self, i: int) -> Array:
        """A copy of model output i."""

    def tensor(self, i: int) -> Array:
        """A copy of tensor i as it is in memory now."""

    def reset_state(self) -> None:
        """Set the state tensors back to their zero points."""


class NativeModel:
    """A model in the C engine. `scratch_bytes` limits the scratch below what the file wants (for tests)."""

    def __init__(self, data: bytes, scratch_bytes: int = -1):
        try:
            self._model = _engine.Model(data, scratch_bytes)
        except _engine.Error as e:
            raise FormatError(str(e)) from None
        self.info = self._model.info()
        self.steps = self.info["n_steps"]

    def set_input(self, i: int, values: Any) -> None:
        """Copy model input i; values have the tensor's type and number of elements."""
        t = self._id("input", i, self._model.input_id(i) if i >= 0 else None)
        name, dtype, dims = self._shape(t)
        a = np.asarray(values)
        if a.dtype != np.dtype(DTYPE_NUMPY[dtype]) or a.size != int(np.prod(dims)):
            raise EngineError(f"input {i} ({name}): found {a.dtype} {list(a.shape)}, expected {dtype} {list(dims)}")
        if i == self._model.fed():
            self._model.write_frame(np.ascontiguousarray(a).tobytes())
        else:
            self._model.write(t, np.ascontiguousarray(a).tobytes())

    def run(self) -> None:
        """All steps, in order."""
        self._model.run()

    def run_step(self, i: int) -> None:
        """One step."""
        if not 0 <= i < self.steps:
            raise EngineError(f"step {i}: the model has {self.steps}")
        self._model.run_step(i)

    def step_rows(self, i: int) -> int:
        """Into how many rows the output of a step can be cut."""
        return self._model.step_rows(i)

    def run_rows(self, i: int, begin: int, end: int) -> None:
        """Rows [begin, end) of a step's output."""
        try:
            self._model.run_rows(i, begin, end)
        except _engine.Error as e:
            raise EngineError(str(e)) from None

    def layers(self) -> Iterator[Array]:
        """Runs all steps; yields a copy of each one's output, in their order: right after it, or after its strip."""
        for i in range(self.steps):
            n = self._model.strip_steps(i)
            if n == 1 and self._model.strip_next(i, 0) is None:
                self.run_step(i)
                yield self.tensor(self._model.step_info(i)[7][0])
            elif n > 0:
                yield from self._strip(i, n)

    def _strip(self, first: int, n: int) -> Iterator[Array]:
        """The outputs of a strip's n steps, put together from the rows that its calls make."""
        outputs = [self._model.step_info(i)[7][0] for i in range(first, first + n)]
        made = [bytearray() for _ in outputs]
        at = 0
        while (call := self._model.strip_next(first, at)) is not None:
            step, rows = call
            self._model.run_rows(first, at, at + rows)
            at += rows
            made[step - first] += self._model.rows_made(outputs[step - first])
        for t, data in zip(outputs, made, strict=True):
            _, dtype, dims = self._shape(t)
            yield np.frombuffer(bytes(data), DTYPE_NUMPY[dtype]).reshape(dims)

    def reset_state(self) -> None:
        """Set the state tensors back to their zero points."""
        self._model.reset_state()

    def output(self, i: int) -> Array:
        """A copy of model output i."""
        return self.tensor(self._id("output", i, self._model.output_id(i) if i >= 0 else None))

    def tensor(self, i: int) -> Array:
        """A copy of tensor i as it is in memory now."""
        if not 0 <= i < self.info["n_tensors"]:
            raise EngineError(f"tensor {i}: the model has {self.info['n_tensors']}")
        name, dtype, dims = self._shape(i)
        found = np.frombuffer(self._model.read(i), DTYPE_NUMPY[dtype])
        if found.size != int(np.prod(dims)):
            raise EngineError(f"tensor {i} ({name}) is kept by rows", todo="layers() has all of them")
        return found.reshape(dims).copy()

    def encode(self, text: bytes) -> list[int]:
        """The tokens of a text that has its space in front: file.tokens.encode in C. Raises Unspelled."""
        found, failed = self._model.encode(text)
        if found is None:
            raise Unspelled(text, failed or 0)
        return found

    def metadata(self, key: str) -> str | None:
        """Value of a metadata key, or None."""
        return self._model.metadata(key)

    def _shape(self, i: int) -> tuple[str, str, tuple[int, ...]]:
        name, dtype, _, dims, _, _ = self._model.tensor_info(i)
        return name, _DTYPE_NAME[dtype], dims

    def _id(self, what: str, i: int, tensor: int | None) -> int:
        if tensor is None:
            raise EngineError(f"{what} {i}: the model has {self.info[f'n_{what}s']}")
        return tensor


def load(data: bytes, custom: CustomOps = NO_CUSTOM) -> LoadedModel:
    """A model from the bytes of a .mica file. Raises FormatError where they break a rule.

    The engine has no operators of the user's own, so a model with such runs in numpy, with those of `custom`.
    """
    if not AVAILABLE:
        return ReferenceModel(data, custom)
    try:
        return NativeModel(data)
    except FormatError:
        if not _has_custom(data):
            raise
        return ReferenceModel(data, custom)


def sample(y: Array, scale: float, temperature: int, top_k: int, state: int) -> tuple[int, int]:
    """(token, next state): see reference.sample."""
    if not AVAILABLE:
        return draw(y, scale, temperature, top_k, state)
    return _engine.sample(np.ascontiguousarray(y, np.int8).tobytes(), scale, temperature, top_k, state)


def see(frame: Frame, data: bytes, table: Array, begin: int = 0, end: int | None = None) -> Array:
    """Rows of a picture: see reference.pictures.rows()."""
    stop = frame.out_h if end is None else end
    if not AVAILABLE:
        return pictures.rows(frame, data, table, begin, stop)
    numbers = np.array(astuple(frame), "<u2").tobytes()
    made = _engine.see(numbers, data, np.ascontiguousarray(table, np.int8).tobytes(), begin, stop)
    size = (stop - begin, frame.out_w)
    shape = (frame.channels, *size) if frame.has("PLANES") else (*size, frame.channels)
    return np.frombuffer(made, np.int8).reshape(shape)


def _has_custom(data: bytes) -> bool:
    """True if the header of a file names the kernel of custom operators."""
    if len(data) < record_bytes(HEADER):
        return False
    return bool(unpack_record(HEADER, data, 0)["kernels"][CUSTOM.id // 32] >> CUSTOM.id % 32 & 1)
