"""The boards' C engine on this computer: its own functions, called through ctypes.

`usermod_c/include/mica.h` has their contracts, and the structures below have its fields in its order.
"""

import contextlib
import ctypes
import importlib.util
from collections.abc import Iterator
from ctypes import POINTER, Structure, byref, c_bool, c_char_p, c_float, c_int32, c_size_t, c_void_p
from ctypes import c_uint8 as u8
from ctypes import c_uint16 as u16
from ctypes import c_uint32 as u32
from dataclasses import astuple
from typing import Any

import numpy as np

from ..errors import MicaError
from ..file.codec import DTYPE_NUMPY, FormatError
from ..file.pictures import Frame
from ..file.tokens import Unspelled
from ..format.schema import ALIGN, DTYPES, MAX_INPUTS, MAX_OUTPUTS, MAX_RANK, MAX_TOKENS, NO_TENSOR, SPACES

Array = np.ndarray
LOADED_AFTER_CHECK = 2  # MICA_LOAD_CHECKED
NOT_FED = 0xFFFFFFFF
RUN_MACS = 50_000_000  # of the steps that one call runs; Ctrl-C waits for its end
SCRATCH = 128 << 10  # bytes that the kernels of this computer make use of; a file names what a board has
FEED = ctypes.CFUNCTYPE(None, c_void_p, u32, u32, c_void_p)
INFO = ("file_bytes", "version_major", "version_minor", "arena_bytes", "scratch_min", "scratch_want", "state_bytes")
COUNTS = ("n_tensors", "n_steps", "n_inputs", "n_outputs")
_DTYPE_NAME = {v: k for k, v in DTYPES.items()}


class Info(Structure):
    _fields_ = (
        *(("file_bytes", u32), ("crc32", u32), ("version_major", u16), ("version_minor", u16), ("kernels", u32 * 4)),
        *((name, u32) for name in ("arena_bytes", "scratch_min", "scratch_want", "state_bytes", *COUNTS)),
        ("model_bytes", c_size_t),
    )


class Tensor(Structure):
    _fields_ = (
        *(("dtype", u8), ("rank", u8), ("space", u8), ("name", c_char_p), ("dims", u32 * MAX_RANK)),
        *(("scale", c_float), ("zero_point", c_int32), ("bytes", u32), ("data", c_void_p)),
    )


class Step(Structure):
    _fields_ = (
        *(("name", c_char_p), ("kernel", u16), ("flags", u8), ("layout", u8), ("macs", u32), ("scratch_min", u32)),
        *(("scratch_want", u32), ("inputs", u16 * MAX_INPUTS), ("outputs", u16 * MAX_OUTPUTS)),
    )


class Call(Structure):
    _fields_ = tuple((name, u32) for name in ("step", "piece", "scale", "row", "rows"))


class Fault(Structure):
    _fields_ = (
        *(("status", ctypes.c_int), ("what", c_char_p), ("byte", u32), ("step", c_int32), ("tensor", c_int32)),
        *(("found", u32), ("expected", u32)),
    )


# What each function gives, and what it takes: M is a model, A an address.
M = A = c_void_p
SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "mica_check": (ctypes.c_int, (A, c_size_t, POINTER(Info), POINTER(Fault))),
    "mica_load_with": (
        ctypes.c_int,
        (u32, A, c_size_t, A, c_size_t, A, c_size_t, A, c_size_t, POINTER(M), POINTER(Fault)),
    ),
    "mica_error_text": (c_char_p, (POINTER(Fault), A, c_size_t, A, c_size_t)),
    "mica_set_feed": (None, (M, FEED, A)),
    "mica_fed_input": (u32, (M,)),
    "mica_run_step": (None, (M, u32)),
    "mica_run_steps": (None, (M, u32, u32)),
    "mica_step_rows": (u32, (M, u32)),
    "mica_run_rows": (None, (M, u32, u32, u32)),
    "mica_strip_steps": (u32, (M, u32)),
    "mica_strip_next": (c_bool, (M, u32, u32, POINTER(Call))),
    "mica_rows_made": (c_bool, (M, u32, POINTER(Tensor))),
    "mica_reset_state": (None, (M,)),
    "mica_tensor": (c_bool, (M, u32, POINTER(Tensor))),
    "mica_step_info": (None, (M, u32, POINTER(Step))),
    "mica_input_id": (u16, (M, u32)),
    "mica_output_id": (u16, (M, u32)),
    "mica_metadata": (c_char_p, (M, c_char_p)),
    "mica_encode": (u32, (M, c_char_p, u32, A, POINTER(u32))),
    "mica_sample": (u32, (c_char_p, u32, c_float, u32, u32, POINTER(u32))),
    "mica_kernel_name": (c_char_p, (u32,)),
    "mica_scratch_min": (u32, (u32, u32, u32)),
    "mica_isa": (c_char_p, ()),
    "mica_picture_check": (c_bool, (A,)),
    "mica_picture_bytes": (c_size_t, (A,)),
    "mica_picture_rows": (None, (A, A, A, u32, u32, A)),
}


class EngineError(MicaError):
    """The engine refused a call; the text is its own."""


class Library:
    """The engine's functions in a shared library, by their names."""

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)
        for name, (result, arguments) in SIGNATURES.items():
            function = getattr(self._library, name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, name)

    def isa(self, most: int | None = None) -> str:
        """Name the kernels. most: for tests, from 0 on, what all models use from now on, at most (mica_x86_t)."""
        if most is not None and hasattr(self._library, "mica_x86_limit"):
            self._library.mica_x86_limit(most)
        return str(self.mica_isa().decode())

    def sample(self, y: bytes, scale: float, temperature: int, top_k: int, state: int) -> tuple[int, int]:
        """Return (token, next state): see mica_sample()."""
        if not (0 < len(y) <= MAX_TOKENS and 0 <= temperature <= 10000 and 0 < top_k <= len(y) and state):
            raise EngineError("sample: an argument out of range")
        going = u32(state)
        return self.mica_sample(y, len(y), scale, temperature, top_k, byref(going)), going.value

    def see(self, frame: Frame, data: Any, table: Array, begin: int, end: int) -> Array:
        """Return rows [begin, end) of a picture, int8. data: a buffer, which is not copied; table: int8."""
        numbers, given = np.array(astuple(frame), np.uint16), np.frombuffer(data, np.uint8)
        if not self.mica_picture_check(numbers.ctypes) or given.size != self.mica_picture_bytes(numbers.ctypes):
            raise EngineError("see: numbers that are no picture, or a frame of another size")
        whole = not frame.has("PLANES") or (begin, end) == (0, frame.out_h)
        if table.size != 256 * frame.channels or not 0 <= begin <= end <= frame.out_h or not whole:
            raise EngineError("see: a table or rows out of range")
        made = np.empty((end - begin) * frame.out_w * frame.channels, np.int8)
        self.mica_picture_rows(numbers.ctypes, given.ctypes, table.ctypes, begin, end, made.ctypes)
        return made


def find() -> Library | None:
    """Return the library that the installation built; None without one that this mica can use."""
    spec = importlib.util.find_spec("mica.engine._engine")
    with contextlib.suppress(OSError, AttributeError):
        return Library(spec.origin) if spec is not None and spec.origin else None
    return None


def _memory(n: int) -> Array:
    """Return n bytes of zeros, aligned as the engine wants its memory."""
    raw = np.zeros(n + ALIGN, np.uint8)
    start = -raw.ctypes.data % ALIGN
    return raw[start : start + n]


class NativeModel:
    """A model in the C engine. `scratch_bytes` limits the scratch below what the file wants (for tests)."""

    def __init__(self, engine: Library, data: Any, scratch_bytes: int = -1) -> None:
        self._c = engine
        info, fault, self._model = Info(), Fault(), c_void_p()
        given = np.frombuffer(data, np.uint8)
        self._file = _memory(given.size)
        self._file[:] = given
        file = (self._file.ctypes, given.size)
        self._require(engine.mica_check(*file, byref(info), byref(fault)), fault)
        scratch = scratch_bytes if scratch_bytes >= 0 else max(info.scratch_want, SCRATCH)
        sizes = (info.model_bytes, info.arena_bytes + scratch, info.state_bytes)
        self._memory = [_memory(n) for n in sizes]
        model, arena, state = ((m.ctypes, m.size) for m in self._memory)
        status = engine.mica_load_with(
            *(LOADED_AFTER_CHECK, *model, *file, *arena, *(state if info.state_bytes else (None, 0))),
            byref(self._model),
            byref(fault),
        )
        self._require(status, fault)
        self.info = {name: int(getattr(info, name)) for name in (*INFO, *COUNTS)}
        self.steps = self.info["n_steps"]
        self._calls = self._ranges()
        self._fed = engine.mica_fed_input(self._model)
        if self._fed != NOT_FED:
            self._frame: list[bytes] = []  # of the fed input; empty where none has been written
            self._feed = _feed(self._tensor(engine.mica_input_id(self._model, self._fed)), self._frame)
            engine.mica_set_feed(self._model, self._feed, None)

    def _require(self, status: int, fault: Fault) -> None:
        if status:
            text = ctypes.create_string_buffer(300)
            self._c.mica_error_text(byref(fault), self._file.ctypes.data, self._file.size, text, len(text))
            raise FormatError(text.value.decode("utf-8", "replace"))

    def set_input(self, i: int, values: Any) -> None:
        """Copy model input i; values have the tensor's type and number of elements."""
        t = self._id("input", i)
        tensor, a = self._tensor(t), np.asarray(values)
        dtype, dims = _DTYPE_NAME[tensor.dtype], _dims(tensor)
        if a.dtype != np.dtype(DTYPE_NUMPY[dtype]) or a.size != int(np.prod(dims)):
            name = _text(tensor.name)
            raise EngineError(f"input {i} ({name}): found {a.dtype} {list(a.shape)}, expected {dtype} {list(dims)}")
        if i == self._fed:
            self._frame[:] = [np.ascontiguousarray(a).tobytes()]
        else:
            self.write(t, np.ascontiguousarray(a).tobytes())

    def write(self, tensor: int, data: bytes) -> None:
        """Copy the bytes of a tensor."""
        t = self._tensor(tensor)
        if t.space == SPACES["data"] or len(data) != t.bytes:
            raise EngineError(f"tensor {tensor} takes {t.bytes} bytes, not {len(data)}, and must not be a constant")
        ctypes.memmove(t.data, data, len(data))

    def run(self) -> None:
        """All steps, in order."""
        for begin, end in self._calls:
            self._c.mica_run_steps(self._model, begin, end)

    def _ranges(self) -> list[tuple[int, int]]:
        """Return ranges of steps of RUN_MACS together, or a little more: a call takes as long as a small step."""
        ranges, begin, macs = [], 0, 0
        for i in range(self.steps):
            macs += self._step(i).macs
            if macs >= RUN_MACS or i + 1 == self.steps:
                ranges.append((begin, i + 1))
                begin, macs = i + 1, 0
        return ranges

    def run_step(self, i: int) -> None:
        """One step."""
        self._c.mica_run_step(self._model, self._known(i))

    def step_rows(self, i: int) -> int:
        """Into how many rows the output of a step can be cut."""
        return int(self._c.mica_step_rows(self._model, self._known(i)))

    def run_rows(self, i: int, begin: int, end: int) -> None:
        """Rows [begin, end) of a step's output."""
        if not 0 <= begin < end <= (rows := self.step_rows(i)):
            raise EngineError(f"step {i}: rows [{begin}, {end}) of {rows}")
        self._c.mica_run_rows(self._model, i, begin, end)

    def layers(self) -> Iterator[Array]:
        """Runs all steps; yields a copy of each one's output, in their order: right after it, or after its strip."""
        for i in range(self.steps):
            n = self._c.mica_strip_steps(self._model, i)
            if n == 1 and not self._c.mica_strip_next(self._model, i, 0, byref(Call())):
                self.run_step(i)
                yield self.tensor(self._output(i))
            elif n > 0:
                yield from self._strip(i, n)

    def _strip(self, first: int, n: int) -> Iterator[Array]:
        """The outputs of a strip's n steps, put together from the rows that its calls make."""
        outputs = [self._output(i) for i in range(first, first + n)]
        made, rows, call, at = [bytearray() for _ in outputs], self.step_rows(first), Call(), 0
        while at < rows and self._c.mica_strip_next(self._model, first, at, byref(call)):
            begin, at = at, at + call.rows - call.row
            self.run_rows(first, begin, at)
            t = self._tensor(outputs[call.step - first])
            self._c.mica_rows_made(self._model, outputs[call.step - first], byref(t))
            made[call.step - first] += ctypes.string_at(t.data, t.bytes)
        for output, data in zip(outputs, made, strict=True):
            t = self._tensor(output)
            yield np.frombuffer(bytes(data), DTYPE_NUMPY[_DTYPE_NAME[t.dtype]]).reshape(_dims(t))

    def reset_state(self) -> None:
        """Set the state tensors back to their zero points."""
        self._c.mica_reset_state(self._model)

    def output(self, i: int) -> Array:
        """A copy of model output i."""
        return self.tensor(self._id("output", i))

    def tensor(self, i: int) -> Array:
        """A copy of tensor i as it is in memory now."""
        t = self._tensor(i)
        found, dims = np.frombuffer(ctypes.string_at(t.data, t.bytes), DTYPE_NUMPY[_DTYPE_NAME[t.dtype]]), _dims(t)
        if found.size != int(np.prod(dims)):
            raise EngineError(f"tensor {i} ({_text(t.name)}) is kept by rows", todo="layers() has all of them")
        return found.reshape(dims).copy()

    def encode(self, text: bytes) -> list[int]:
        """The tokens of a text that has its space in front: file.tokens.encode in C. Raises Unspelled."""
        work, failed = np.empty(2 * (len(text) + 2), np.uint32), u32()  # mica_encode_bytes()
        n = self._c.mica_encode(self._model, ctypes.create_string_buffer(text), len(text), work.ctypes, byref(failed))
        if failed.value < len(text):
            raise Unspelled(text, failed.value)
        return [int(token) for token in work.view(np.uint16)[:n]]

    def metadata(self, key: str) -> str | None:
        """Value of a metadata key, or None."""
        return _text(self._c.mica_metadata(self._model, key.encode()))

    def _known(self, i: int) -> int:
        if not 0 <= i < self.steps:
            raise EngineError(f"step {i}: the model has {self.steps}")
        return i

    def _step(self, i: int) -> Step:
        step = Step()
        self._c.mica_step_info(self._model, i, byref(step))
        return step

    def _output(self, i: int) -> int:
        return int(self._step(i).outputs[0])

    def _tensor(self, i: int) -> Tensor:
        t = Tensor()
        if i < 0 or not self._c.mica_tensor(self._model, i, byref(t)):
            raise EngineError(f"tensor {i}: the model has {self.info['n_tensors']}")
        return t

    def _id(self, what: str, i: int) -> int:
        id_of = self._c.mica_input_id if what == "input" else self._c.mica_output_id
        if i < 0 or (tensor := id_of(self._model, i)) == NO_TENSOR:
            raise EngineError(f"{what} {i}: the model has {self.info[f'n_{what}s']}")
        return int(tensor)


def _feed(t: Tensor, frame: list[bytes]) -> Any:
    """Return the function that gives rows of a fed input, int8: those of the frame, or zero points."""
    row, zero = int(np.prod(_dims(t)[2:])), t.zero_point & 0xFF

    def feed(context: int, begin: int, end: int, rows: int) -> None:
        if frame:
            ctypes.memmove(rows, frame[0][begin * row : end * row], (end - begin) * row)
        else:
            ctypes.memset(rows, zero, (end - begin) * row)

    return FEED(feed)


def _dims(t: Tensor) -> tuple[int, ...]:
    return tuple(t.dims[: t.rank])


def _text(s: bytes | None) -> str | None:
    """Return a text of the file, which may hold any bytes; None where there is none."""
    return None if s is None else s.decode("utf-8", "replace")
