"""A .mica file in memory: what `codec.decode` returns and `codec.encode` takes, and the error that both raise."""

import math
from dataclasses import dataclass, field

import numpy as np

from mica.errors import MicaError
from mica.file.order import Strip
from mica.file.tokens import Tokens
from mica.format import schema
from mica.format.weights import INT8, LAYOUT_BY_CODE
from mica.kernels import KERNEL_BY_NAME
from mica.printable import printable

Array = np.ndarray


class FormatError(MicaError):
    """A file, or a ModelFile, that breaks a rule of the format: what and where, and the remedy. Both are one line."""

    def __init__(self, found: str, *, todo: str = "") -> None:
        super().__init__(printable(found), todo=printable(todo))


@dataclass
class TensorRecord:
    """One tensor. `values` holds the constant of a tensor in space "data", and is None elsewhere."""

    name: str
    dtype: str
    dims: tuple[int, ...]
    scale: float = 1.0
    zero_point: int = 0
    space: str = "arena"
    offset: int = 0  # bytes from the start of its space; encode sets it in space "data"
    values: Array | None = None

    @property
    def bytes(self) -> int:
        """Size in bytes."""
        return math.prod(self.dims) * schema.DTYPE_BYTES[self.dtype]


@dataclass
class StepRecord:
    """One step. `params` and `blobs` go by the names in `mica.kernels`; a parameter left out is 0.

    Weights are in their plain order here; `layout` is the order that they have in the file.
    """

    name: str
    kernel: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    params: dict[str, int] = field(default_factory=dict)
    blobs: dict[str, Array] = field(default_factory=dict)
    layout: int = 0
    flags: int = 0
    scratch_min: int = 0
    scratch_want: int = 0
    macs: int = 0

    @property
    def constant_bytes(self) -> int:
        """Count the bytes of all constants in the file, but for what fills rows of bytes up."""
        layout = LAYOUT_BY_CODE[self.layout]
        size = sum(b.nbytes for b in self.blobs.values())
        if layout.bits == INT8.bits:
            return size
        weights = self.blobs["weights"]
        return size - weights.nbytes + layout.total(len(weights), weights[0].size)

    @property
    def unpacking(self) -> int:
        """Bytes of scratch for its layout, in addition to the kernel's own."""
        weights = self.blobs.get("weights")
        return 0 if weights is None else LAYOUT_BY_CODE[self.layout].unpacking(weights[0].size)


@dataclass
class GoldenVector:
    """Model inputs and the outputs they must give, in the order of `ModelFile.inputs` and `.outputs`.

    The vectors of a file are consecutive runs, the first of them after a reset of the state.
    """

    inputs: list[Array]
    outputs: list[Array]
    layer_crcs: list[int] = field(default_factory=list)  # CRC-32 of each step's output; [] where they are not known


@dataclass
class ModelFile:
    """A whole file. Fields that `encode` computes (crc, scratch maxima, kernels, data) are only set by `decode`."""

    tensors: list[TensorRecord]
    steps: list[StepRecord]
    inputs: list[int]  # tensor ids
    outputs: list[int]
    metadata: dict[str, str] = field(default_factory=dict)
    golden: list[GoldenVector] = field(default_factory=list)
    strips: list[Strip] = field(default_factory=list)  # steps that run together by rows, in the order of the steps
    arena_bytes: int | None = None  # activations; None: encode takes the end of the last tensor
    state_bytes: int | None = None
    features: int = 0
    tokens: Tokens | None = None  # the vocabulary of a language model
    version: tuple[int, int] = (schema.VERSION_MAJOR, schema.VERSION_MINOR)
    data: bytes = b""  # the DATA section as read
    file_bytes: int = 0

    @property
    def scratch_min(self) -> int:
        """Bytes of scratch without which some step cannot run."""
        return max((s.scratch_min for s in self.steps), default=0)

    @property
    def scratch_want(self) -> int:
        """Bytes of scratch with which every step runs fastest."""
        return max((s.scratch_want for s in self.steps), default=0)

    @property
    def fed(self) -> int | None:
        """Number of the input that the caller delivers row by row; None if all inputs are tensors."""
        found = (i for i, t in enumerate(self.inputs) if 0 <= t < len(self.tensors) and self.tensors[t].space == "rows")
        return next(found, None)

    @property
    def kernels(self) -> list[str]:
        """Names of the kernels in use, by id."""
        return [k for k in KERNEL_BY_NAME if any(s.kernel == k for s in self.steps)]

    @property
    def kernel_bits(self) -> tuple[int, ...]:
        """The bitmap of the kernels in use, as the header has it."""
        ids = {KERNEL_BY_NAME[s.kernel].id for s in self.steps}
        return tuple(sum(1 << k % 32 for k in ids if k // 32 == word) for word in range(4))
