"""A case as a model of one step; and that model in the C engine with its buffers at any address."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from case import Case

from mica.file import codec
from mica.file.codec import ModelFile, StepRecord, TensorRecord
from mica.format import schema
from mica.format.weights import Layout
from mica.kernels import KERNEL_BY_NAME
from mica.kernels.scratch import scratch_min

Array = np.ndarray

# These take the scale and zero point of their input over to the output.
SAME_SCALE = (
    "max_pool2d_s8",
    "transpose_s8",
    "move_s8",
    "concat_s8",
    "pad_s8",
    "gather_s8",
    "scatter_s8",
    "pick_s8",
    "resize_linear_s8",
)


def model_of(c: Case, layout: Layout | None = None, in_place: int | None = None) -> ModelFile:
    """A model of one step. layout: of its weights, the one that `pack` gives them where None.
    in_place: input of y's place."""
    kernel = KERNEL_BY_NAME[c.kernel]
    zeros = [c.q.x_zero, c.q.b_zero, 0, 0]
    if c.kernel in SAME_SCALE or (c.kernel == "reduce_s8" and c.p["mode"] in (1, 2)):
        zeros = [c.q.y_zero] * 4
    elif c.kernel == "attend_s8":
        zeros = [c.q.x_zero, c.p["k_zero"], c.p["v_zero"], 0]
    elif c.kernel == "rotate_s8":
        zeros = [c.q.x_zero, c.p["c_zero"], c.p["s_zero"]]
    elif c.kernel == "recurrent_s8":
        zeros = [c.q.x_zero, c.p["hidden_zero"], c.q.b_zero]
    tensors, at = [], schema.ALIGN  # no tensor has the arena's address
    for i, dims in enumerate([x.shape for x in c.xs] + [c.q.dims]):
        is_y = i == len(c.xs)
        dtype = kernel.y_type if is_y else kernel.x_types[i]
        quant: dict[str, float] = {}
        if dtype == "int8":
            zero = c.q.y_zero if is_y else zeros[i]
            plain = is_y and c.kernel == "softmax_s8" and len(c.blobs["table"]) == 256
            quant = {"scale": 1 / 256 if plain else 0.05, "zero_point": zero}
        elif dtype == "int16" and is_y and c.kernel == "softmax_s16":
            quant = {"scale": 2.0**-15}
        offset = tensors[in_place].offset if is_y and in_place is not None else at
        tensors.append(TensorRecord(f"t{i}", dtype, dims, offset=offset, **quant))  # type: ignore[arg-type]
        at += (int(np.prod(dims)) * schema.DTYPE_BYTES[dtype] + 15) & -16
    n = len(c.xs)
    step = StepRecord("step", c.kernel, tuple(range(n)), (n,), c.p, c.blobs, (layout or kernel.layout).code)
    step.scratch_min = step.scratch_want = scratch_min(c.kernel, c.q.dims[-1] if c.q.dims else 1, c.p)
    step.flags = codec.step_flags(step)
    return ModelFile(tensors, [step], list(range(n)), [n], arena_bytes=at)


def with_few_weights(c: Case) -> Case:
    """The case with 16 different weights at most, of about the same size, for layouts of codes."""
    return replace(c, blobs=c.blobs | {"weights": few(c.blobs["weights"])}) if "weights" in c.blobs else c


def few(weights: Array) -> Array:
    """Each weight becomes one of 15, towards zero, so that sums become no larger."""
    w = weights.astype(np.int64)
    return np.where(w % 17 == 0, w, np.sign(w) * (np.abs(w) // 18 * 17)).astype(np.int8)


def step_record(data: bytes) -> tuple[int, dict[str, tuple[int, int]]]:
    """Place of the step's record in a model of one step, and place of each constant: (offset, bytes)."""
    header = codec.unpack_record(schema.HEADER, data, 0)
    sections = codec._sections(data, header)
    at = sections["STEPS"].offset
    record = codec.unpack_record(schema.STEP, data, at)
    kernel = codec.KERNEL_BY_ID[record["kernel"]]
    blobs, start = record["blobs"], sections["DATA"].offset
    return at, {name: (start + blobs[2 * i], blobs[2 * i + 1]) for i, (name, _) in enumerate(kernel.blobs)}


def patched(
    data: bytes,
    params: Mapping[str, int] | None = None,
    blobs: Mapping[str, Array] | None = None,
    flags: int | None = None,
) -> bytes:
    """A model of one step with other parameters, constants of the same length, and flags, without any check."""
    at, places = step_record(data)
    out = bytearray(data)
    kernel = codec.KERNEL_BY_ID[codec.unpack_record(schema.STEP, data, at)["kernel"]]
    for name, value in (params or {}).items():
        where = at + codec.field_offset(schema.STEP, "params") + 4 * kernel.params.index(name)
        out[where : where + 4] = struct.pack("<i", value)
    for name, values in (blobs or {}).items():
        where, n = places[name]
        assert values.nbytes == n, name
        out[where : where + n] = values.tobytes()
    if flags is not None:
        out[at + codec.field_offset(schema.STEP, "flags")] = flags
    return codec.with_crc(bytes(out))


def _aligned(n: int, offset: int = 0, fill: int = 0) -> Array:
    """n bytes that begin `offset` bytes behind a multiple of 16."""
    raw = np.full(n + 48, fill, np.uint8)
    start = -raw.ctypes.data % 16 + offset
    return raw[start : start + n]


class Placed:
    """A model of one step in the engine's own functions, with its int8 buffers moved to odd addresses.

    The file format has every tensor on a multiple of 4 and weights on 16; the kernels promise more
    (`usermod_c/include/mica_kernels.h`), for those who call them on buffers of their own. So the model is loaded as it
    is, and then the addresses in its step are exchanged: they are found by their values.
    """

    GUARD = 0x5A

    def __init__(self, c: Case, offset: int) -> None:
        """offset: bytes by which the buffers lie off a multiple of 16, each by another."""
        import c_build  # not at hand for scripts that take models alone

        self._lib = c_build.whole_engine()
        model = model_of(c)
        data = codec.encode(model)
        file, self._mem = _aligned(len(data)), _aligned(1 << 15)
        file[:] = np.frombuffer(data, np.uint8)
        arena_bytes = int(model.arena_bytes or 0) + (model.scratch_want + 15 & -16)
        self._arena = _aligned(arena_bytes)
        self._handle, error = ctypes.c_void_p(), ctypes.create_string_buffer(256)
        place = [ctypes.c_void_p(a.ctypes.data) for a in (self._mem, file, self._arena)]
        sizes = [ctypes.c_size_t(a.nbytes) for a in (self._mem, file, self._arena)]
        of = (place[0], sizes[0], place[1], sizes[1], place[2], sizes[2], None, ctypes.c_size_t(0))
        assert self._lib.mica_load(*of, ctypes.byref(self._handle), error) == 0
        self._file = file
        kernel = KERNEL_BY_NAME[c.kernel]
        self.xs = []
        for i, x in enumerate(c.xs):
            odd = (offset + i) % 4 if x.itemsize == 1 else 0
            self.xs.append(self._move(self._arena.ctypes.data + model.tensors[i].offset, x.nbytes, odd))
            self.xs[-1][:] = np.ascontiguousarray(x).view(np.uint8).reshape(-1)
        y = model.tensors[-1]
        odd = (offset + 2) % 4 if y.dtype == "int8" else 0
        self._around = _aligned(y.bytes + 64, odd, self.GUARD)
        self._around[:] = self.GUARD
        self.y = self._around[32 : 32 + y.bytes]
        self._exchange(self._arena.ctypes.data + y.offset, self.y.ctypes.data)
        self.blobs = []
        for name, (at, n) in step_record(data)[1].items():
            if dict(kernel.blobs)[name] in ("i8", "u8") and n:
                self.blobs.append(self._move(file.ctypes.data + at, n, (offset + 3) % 4))
                self.blobs[-1][:] = file[at : at + n]

    def _move(self, address: int, n: int, odd: int) -> Array:
        buffer = _aligned(n, odd)
        self._exchange(address, buffer.ctypes.data)
        return buffer

    def _exchange(self, old: int, new: int) -> None:
        words = self._mem.view(np.uintp)
        found = np.flatnonzero(words == old)
        assert found.size, "no address in the step is that of the buffer"
        words[found] = new

    def run(self) -> None:
        """The step; then nothing beyond y has been written."""
        self._lib.mica_run_step(self._handle, ctypes.c_uint32(0))
        assert (self._around[:32] == self.GUARD).all() and (self._around[32 + self.y.size :] == self.GUARD).all()
