"""The row that describes a kernel, and the types of its columns.

A kernel is one row: its record in the file, its rules, its integers, its scratch,
its multiply-accumulates and what its cost depends on. The rows stand in the files of this folder, one file a family,
as in `firmware/mica/fallback`. They import `mica.format.schema`, `mica.format.weights` and each other;
the codec and all that reads or writes models imports them.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from mica.format.weights import PLAIN, Layout
from mica.kernels.integers import Array, Blobs, Output, Params

Counts = dict[str, float]
Cost = tuple[str, Counts]  # a kind of step, and how much of what its cost is the sum of
Dims = tuple[int, ...]
Shapes = dict[str, Dims]  # of the constants; a length of -n stands for "1 or n", rules.ANY_LENGTH for any
Oracle = Callable[[Sequence[Array], Blobs, Params, Output], Array]
Scratch = tuple[int, int]  # bytes: with which a step runs fastest; of its smallest tile

# Columns that many rows share.
REQUANT = (("bias", "i32"), ("mult", "i32"), ("shift", "i8"))
ACT = ("act_min", "act_max")
SCRATCH_FIXED = 64  # bytes beside what grows with the shapes: constants of a call, and room to align


class Tensor(Protocol):
    """Facts of a tensor that a kernel's rules need."""

    dims: Dims
    scale: float
    zero_point: int


class Step(Protocol):
    """Facts of a step, beside its tensors, that a kernel's cost may depend on."""

    params: dict[str, int]
    blobs: dict[str, Array]
    flags: int
    macs: int

    @property
    def unpacking(self) -> int:
        """Bytes of scratch that the layout of its weights takes."""


Tensors = Sequence[Tensor]


def no_oracle(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """A step that somebody else computes."""
    raise NotImplementedError("this kernel has no integers of its own")


def weights_macs(xs: Sequence[Dims], y: Dims, blobs: Blobs) -> int:
    """Count as TFLite does: weights times the outputs that use each."""
    weights = blobs["weights"]
    return int(weights.size) * (math.prod(y) // weights.shape[0])


def each(step: Step, xs: Tensors, y: Tensor, scratch: int) -> Cost:
    """Kernels that do one thing to each element."""
    return "", {"in": float(sum(math.prod(x.dims) for x in xs)), "out": float(math.prod(y.dims))}


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """One kernel id: what a step with this id means, and how it is computed. A row decorates its oracle.

    rules(x, y, p) -> shapes of the constants. Raises Broken where a shape or parameter is not what it may be. The same
      rules stand in C, in `mica_<kernel>_check` (`usermod_c/kernels/ref/`).
    constants(x, y, p, blobs) does the same for the values of the constants (`mica_<kernel>_check_constants`).
    oracle(xs, blobs, p, q) -> y, in numpy: the C kernels equal it bit for bit.
      xs: inputs; blobs: constants by name; p: parameters by name; q: shape of the output and the zero points.
    macs(xs, y, blobs) -> multiply-accumulates of a step, from the dimensions of the inputs and the output.
    scratch(x, y, p), scratch_min(out_channels), scratch_of(p): bytes, see `scratch.py`.
    counts(step, xs, y, scratch) -> what the cost of a step depends on: one kind for each piece of code that kernels
      have for it, and some counts that follow from its shapes. scratch: bytes that kernels get beside the tensors.
      algorithms(step, xs, y, scratch) -> the same for other algorithms that some cores have; a core takes its cheapest.
    """

    id: int
    name: str = ""
    n_inputs: int = 1
    blobs: tuple[tuple[str, str], ...] = ()  # (name, element type)
    params: tuple[str, ...] = ()  # int32
    doc: str = ""
    rules: Callable[[Tensors, Tensor, Params], Shapes]
    oracle: Oracle = no_oracle
    group: str = ""  # of the board's hooks: what belongs together for a user
    min_inputs: int = 0  # where fewer than n_inputs will do; 0: all are needed
    x_type: str = "int8"  # element type of the inputs
    last_type: str = ""  # of the last of n_inputs, where it has another
    y_type: str = "int8"  # and of the output
    layouts: tuple[Layout, ...] = (PLAIN,)  # orders of the weights that it reads; `pack` writes the first
    in_place: bool = False  # the output may lie exactly on an input of its size and type; elsewhere they share no byte
    constants: Callable[[Tensors, Tensor, Params, Blobs], None] = lambda x, y, p, blobs: None
    macs: Callable[[Sequence[Dims], Dims, Blobs], int] = lambda xs, y, blobs: 0
    scratch: Callable[[Dims, Dims, Params], Scratch] = lambda x, y, p: (0, 0)
    scratch_min: Callable[[int], int] = lambda out_channels: 0
    scratch_of: Callable[[Params], int] = lambda p: 0
    counts: Callable[[Step, Tensors, Tensor, int], Cost] = each
    algorithms: Callable[[Step, Tensors, Tensor, int], Sequence[Cost]] = lambda step, xs, y, scratch: ()

    def __call__(self, oracle: Oracle) -> "Kernel":
        """The row with name and `doc` from the oracle: its name and its docstring."""
        return replace(self, name=oracle.__name__, doc=" ".join((oracle.__doc__ or "").split()), oracle=oracle)

    @property
    def least_inputs(self) -> int:
        """Number of inputs that a step has to have."""
        return self.min_inputs or self.n_inputs

    @property
    def x_types(self) -> tuple[str, ...]:
        """Element type of each input, as many as there may be."""
        return (*(self.x_type,) * (self.n_inputs - 1), self.last_type or self.x_type)

    @property
    def layout(self) -> Layout:
        """The order of the weights that `pack` writes."""
        return self.layouts[0]

    def layout_of(self, bits: int) -> Layout:
        """The order that `pack` writes of weights of so many bits."""
        return next(layout for layout in self.layouts if layout.bits == bits)

    @property
    def op(self) -> str:
        """The name without the element type: of its C files, loader and structure."""
        return self.name.removesuffix("_s8")
