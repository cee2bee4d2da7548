"""The steps of a model as C: each record, as the engine's loader read it, is a constant and a call of its kernel.

    .mica -> the loader in this computer's engine -> its parameters, read through structs.py -> constants in C

So a program needs no loader, and the loader has validated its tables. The calls of a strip, which the engine makes out
of the section ORDER, are written one behind the other.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np

from mica.c_program.structs import Path_, Structs, initialiser, members, scalar
from mica.engine.native import Call, Library, NativeModel
from mica.errors import MicaError
from mica.file.model_file import Array, GoldenVector, ModelFile, TensorRecord
from mica.file.order import rows_of
from mica.format.records import DTYPE_NUMPY
from mica.format.schema import FEED, SECTIONS
from mica.kernels import CUSTOM, KERNEL_BY_NAME

_POINTER = ctypes.sizeof(ctypes.c_void_p)
MADE_UP = 2  # vectors, where the file has none


def _made_up(t: TensorRecord, rng: np.random.Generator) -> Array:
    """Return an input of any numbers of its type; of int32, which counts tokens or positions, small ones."""
    dtype = np.dtype(DTYPE_NUMPY[t.dtype])
    if dtype.kind == "f":
        return rng.standard_normal(t.dims).astype(dtype)
    low, high = (0, 7) if dtype.itemsize == 4 else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return rng.integers(low, high, t.dims, dtype, endpoint=True)


class Loaded(NativeModel):
    """A model in the engine of this computer, whose tables are read."""

    def __init__(self, engine: Library, data: bytes, model: ModelFile, structs: Structs, prefix: str) -> None:
        super().__init__(engine, data)
        self.model, self._structs, self._prefix = model, structs, prefix
        self._kept: dict[int, tuple[int, int]] = {}  # by tensor of a strip: the rows [first, have) in memory
        self._head = structs.load("mica_model").from_address(self._model.value)
        sizes = [ctypes.sizeof(structs.load(f"mica_{name}_t")) for name in KERNEL_BY_NAME if name != CUSTOM.name]
        self._step_bytes = _POINTER + -(-max(sizes) // 8) * 8
        begin, n = self._head.steps - self._model.value, self.steps
        if self._head.order is None and begin + n * self._step_bytes != self._head.info.model_bytes:
            raise MicaError("usermod_c: the engine of this computer has other headers", todo="install mica again")

    def vectors(self) -> list[GoldenVector]:
        """Return the golden vectors of the file, or runs of made-up inputs where it has none. Raises MicaError."""
        rng, made = np.random.default_rng(0), list[GoldenVector]()
        asked = [g.inputs for g in self.model.golden] or [
            [_made_up(self.model.tensors[i], rng) for i in self.model.inputs] for _ in range(MADE_UP)
        ]
        self.reset_state()
        for inputs in asked:
            for i, x in enumerate(inputs):
                self.set_input(i, x)
            self.run()
            made.append(GoldenVector(list(inputs), [self.output(i) for i in range(len(self.model.outputs))]))
        for k, (g, run) in enumerate(zip(self.model.golden, made, strict=False)):
            if not all(np.array_equal(a, b) for a, b in zip(g.outputs, run.outputs, strict=True)):
                raise MicaError(f"golden vector {k} is not what the model gives", todo="pack the model again")
        return made

    def parameters(self, i: int, piece: int | None = None) -> Any:
        """Return the parameters of step i, or those of the call of a strip that is at work in `piece`."""
        at = self._head.steps + (i if piece is None else piece) * self._step_bytes + _POINTER
        kind = self._structs.load(f"mica_{self.model.steps[i].kernel}_t")
        return kind.from_buffer_copy(ctypes.string_at(at, ctypes.sizeof(kind)))

    def address(self, value: int) -> str:
        """Return an address of this computer's memory as one of the program."""
        data = self._head.file.s[SECTIONS["DATA"]]
        places = {
            "arena": (self._head.arena or 0, self.info["arena_bytes"]),
            "state": (self._head.state or 0, self.info["state_bytes"]),
            "constants": (self._head.file.base + data.offset, data.bytes),
        }
        for name, (begin, size) in places.items():
            if 0 <= value - begin <= size:
                return f"({self._prefix}_{name} + {value - begin})"
        raise MicaError("a step has an address outside of the model")

    def section(self, name: str) -> bytes:
        """Return the bytes of a section of the file."""
        section = self._head.file.s[SECTIONS[name]]
        return ctypes.string_at(self._head.file.base + section.offset, section.bytes)

    def code(self) -> tuple[list[str], list[str]]:
        """Return (constants and functions of the steps, statements of a run)."""
        made, statements = list[str](), list[str]()
        strips = {s.first: s.steps for s in self.model.strips}
        behind = 0  # the last strip
        for i in range(self.steps):
            if i in strips:
                behind = i + strips[i]
                made += [self._constant(k) for k in range(i, behind)]
                functions, calls = self._strip_code(i)
                made += functions
                statements += calls
            elif i >= behind:
                made.append(self._constant(i))
                rows = self._rows(self.parameters(i), lambda i=i: self.step_rows(i))
                statements.append(f"{self._kernel(i)}(&step_{i}, 0, {rows}, SCRATCH);")
        return made, statements

    def _kernel(self, i: int) -> str:
        return f"MICA_{self.model.steps[i].kernel.upper()}"

    def _constant(self, i: int) -> str:
        kernel = self.model.steps[i].kernel
        return f"static const mica_{kernel}_t step_{i} = {initialiser(self.parameters(i), self.address)};"

    @staticmethod
    def _rows(p: Any, others: Any) -> int:
        """Return the rows that a kernel takes for the whole output. The engine's count is finer where rows are cut."""
        return p.win.out_h if hasattr(p, "win") else p.rows if hasattr(p, "in_k") else others()

    # ---- strips

    def _strip_code(self, head: int) -> tuple[list[str], list[str]]:
        """Return a function for each step of a strip, and its calls."""
        calls = list(self._calls_of(head))
        varying: dict[int, dict[Path_, str]] = {}  # by step: members that differ from the whole step's, and their types
        for call in calls:
            if not isinstance(call, str):
                step, p, _ = call
                whole = {path: item for path, item, _ in members(self.parameters(step))}
                differing = {path: kind for path, item, kind in members(p) if item != whole[path]}
                varying.setdefault(step, {}).update(differing)
        functions = [self._function(step, varying[step]) for step in sorted(varying)]
        return functions, [call if isinstance(call, str) else self._call(*call, varying[call[0]]) for call in calls]

    def _function(self, step: int, varying: dict[Path_, str]) -> str:
        kernel = self.model.steps[step].kernel
        taken = [f"{kind or 'int32_t '}a{k}" for k, kind in enumerate(varying.values())]
        given = "".join(f"    p{''.join(path)} = a{k};\n" for k, path in enumerate(varying))
        return (
            f"static void rows_{step}({', '.join([*taken, 'uint32_t rows'])}) {{\n    mica_{kernel}_t p = "
            f"step_{step};\n{given}    {self._kernel(step)}(&p, 0, rows, SCRATCH);\n}}"
        )

    def _call(self, step: int, p: Any, rows: int, varying: dict[Path_, str]) -> str:
        found = {path: scalar(item, kind, self.address) for path, item, kind in members(p)}
        return f"rows_{step}({', '.join([*(found[path] for path in varying), str(rows)])});"

    def _calls_of(self, head: int) -> Iterator[str | tuple[int, Any, int]]:
        """Yield (step, parameters, rows) of each call of a strip; before it, statements that drop or feed rows."""
        call, at = Call(), 0
        strip = next(s for s in self.model.strips if s.first == head)
        for k in strip.calls:
            fed = k.step == FEED
            i = self.model.inputs[self.model.fed or 0] if fed else self.model.steps[k.step].outputs[0]
            t = self.model.tensors[i]
            row = t.bytes // rows_of(t.dims)
            first, have = self._kept.get(i, (0, 0))
            place = f"({self._prefix}_arena + {t.offset})"
            if k.drop and have > first + k.drop:
                yield f"memmove({place}, {place} + {k.drop * row}, {(have - first - k.drop) * row});"
            first += k.drop
            self._kept[i] = first, have + k.rows
            if fed:
                yield f"{self._prefix}_fed({have}, {have + k.rows}, {place} + {(have - first) * row});"
                continue
            if not self._c.mica_strip_next(self._model, head, at, ctypes.byref(call)):
                raise MicaError(f"step {head}: its strip cannot be run")
            p = self.parameters(call.step, call.piece)
            yield call.step, p, self._rows(p, lambda: call.scale * call.rows)
            self.run_rows(head, at, at + call.rows)
            at += call.rows
