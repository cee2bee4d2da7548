"""The C module: the engine as MicroPython sees it. `mica` is the package for people; this is what it stands on.

Exceptions: ValueError for a file or argument that is wrong, TypeError for an argument of a wrong kind, MemoryError for
an arena that is too small, RuntimeError for a busy arena, outputs that are gone, a buffer that moved, a closed model.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, Required, TypedDict, TypeVar, overload

from mica.layer import Layer
from mica.operators import Tensor

Buffer = Any  # bytes, bytearray, array, memoryview, Arena, a file of a ROMFS

# Names of the types in the runtime's annotations; they are not in the module.
Fill = Callable[[memoryview, tuple[int, ...], int], object]  # buffer, shape, ord(dtype)
Input = Sequence[Any] | Any | Fill  # numbers, a buffer, or a function that fills the tensor
Inputs = Sequence[Input] | Mapping[str, Input]
Outputs = TypeVar("Outputs", Sequence[Any], Mapping[str, Any])
Which = str | int | Layer | Sequence[Any]  # a pattern, a group, a layer's number, a layer, or several of these
Visit = Callable[[Layer], object]
Around = Callable[[Layer, Callable[[], None]], object]  # the function does the layer's work
Part = tuple[int, int, int, int]  # of a picture: x, y, width, height
Frame = tuple[Any, int, int, str]  # buffer, width, height, format: m.see(*frame)
Function = Callable[[tuple[Tensor, ...], tuple[Tensor, ...], dict[str, Any]], object]  # inputs, outputs, attributes

# Keyword arguments of mica.kernels, with what is taken where they are not given.
class Clamp(TypedDict, total=False):
    y_zero: int  # 0
    act_min: int  # -128
    act_max: int  # 127

class Sum(Clamp, total=False):
    mult_a: Required[int]
    mult_b: Required[int]
    offset: Required[int]
    shift: Required[int]
    a_shape: Required[Sequence[int]]
    b_shape: Required[Sequence[int]]
    out_shape: Required[Sequence[int]]

class Window(Clamp, total=False):
    x_shape: Required[Sequence[int]]
    out_shape: Required[Sequence[int]]
    kernel: Required[Sequence[int]]
    stride: Sequence[int]  # (1, 1)
    dilation: Sequence[int]  # (1, 1)
    pad: Sequence[int]  # (0, 0)
    x_zero: int  # 0

class Groups(Window, total=False):
    groups: int  # 1

class Mean(Window, total=False):
    pad_end: Sequence[int]  # (0, 0)
    count_include_pad: int  # 0

class Watchdog(Protocol):
    def feed(self) -> object: ...

class Info(NamedTuple):
    format: tuple[int, int]
    isa: str
    arena_bytes: int  # of the static arena
    kernels: list[str]

class TensorInfo(NamedTuple):
    name: str
    dtype: str  # as in array and memoryview: b B h i f
    shape: tuple[int, ...]
    scale: float
    zero_point: int
    nbytes: int

class StepInfo(NamedTuple):
    name: str
    kernel: str
    macs: int
    inputs: tuple[int, ...]  # tensor ids
    outputs: tuple[int, ...]
    scratch_min: int
    scratch_want: int
    flags: int
    layout: int
    runs_in: str | None  # "C", "Python" after replace(), None where this firmware lacks the kernel

class ModelInfo(NamedTuple):
    version: tuple[int, int]
    file_bytes: int
    arena_bytes: int
    scratch_min: int
    scratch_want: int
    state_bytes: int
    table_bytes: int
    n_tensors: int
    n_steps: int
    n_inputs: int
    n_outputs: int
    n_golden: int  # vectors for the self-test
    crc32: int  # of the file

class Tokens(NamedTuple):
    count: int  # type: ignore[assignment]  # a tuple has a method of that name
    begin: int | None  # before a text
    end: int | None
    token: int  # which input takes the token
    position: int | None  # and its position, from 0 on
    length: int | None  # and the number of tokens seen
    output: int  # which output has the scores
    positions: int  # 0: no end
    window: int  # the most that `length` is given
    padding: int | None  # behind a short text to classify: then `position` takes zeros, `length` the mask

class Arena:
    """Memory that never moves, with the buffer protocol. Models that share one run in turn.

    Arena(bytearray or array) lends a caller's buffer: up to 31 of its bytes go to alignment and to the flag that says
    who is running. Such a buffer may not be extended while a model uses it; doing so raises at the next step.
    """

    busy: bool
    intact: bool  # the guard words behind it (of the static arena also before it) are as they were at the last load
    def __init__(self, memory: int | Buffer, /) -> None: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __len__(self) -> int: ...

class Quantised:
    """The integers of a whole input, in a buffer, for all that takes an input's numbers. It has the buffer's bytes."""

    def __init__(self, buffer: Buffer, /) -> None: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

class step:  # not a name of the module: what is in Model.steps
    """One layer, or a strip of several. step() runs it, step(begin, end) only these of its rows;
    neither allocates anything.

    Rows of a strip, which are those of all its layers, run from 0 on, one behind the other.
    """

    rows: int
    first: int  # index of the (first) layer
    strip: int  # layers of a strip; 0: a layer alone
    @overload
    def __call__(self) -> None: ...
    @overload
    def __call__(self, begin: int, end: int, /) -> None: ...

class Model:
    """A loaded file. Made by load()."""

    steps: tuple[step, ...]
    info: ModelInfo
    inputs: tuple[int, ...]  # tensor ids
    outputs: tuple[int, ...]
    arena: Arena
    strips: bool  # the file has strips (mica pack --ram)
    fed: int | None  # place of the input whose rows the caller delivers (mica pack --feed)
    source: Any  # what write() has given for it; None: nothing yet
    copied: bool  # the file did not lie where it could be used in place
    missing_kernels: list[int]  # steps whose kernel this firmware lacks
    ram: int
    state: memoryview | None  # the bytes of all state tensors, writable; None where there are none
    def begin(self) -> None:
        """Take the arena, or raise RuntimeError: a run in it has not ended. Ends the outputs of the model before."""
    def end(self) -> None:
        """Give the arena back; does nothing if this model does not have it. Never raises."""
    def finish(self) -> None:
        """The last step's work was done by something else: the outputs are there."""
    def input(self, i: int, /) -> memoryview: ...
    def output(self, i: int, /) -> memoryview:
        """Output i of this model's last run; raises RuntimeError when it is not, or no longer, in the arena."""
    def write(self, i: int, values: Any, /) -> None:
        """Quantise numbers into input i, or copy what a Quantised holds into it.

        For the fed input a buffer of all its values, or f(begin, end, buffer): kept for all runs until the next write.
        """
    def read(self, i: int, /) -> list[float]: ...
    def read_into(self, i: int, buffer: Buffer, /) -> None:
        """Output i into an array of 'f' or 'd', or as it is into bytes or an array of the tensor's own type."""
    def tensor(self, id: int, /) -> TensorInfo: ...
    def tensor_data(self, id: int, /) -> bytes:
        """A copy of what the tensor's place holds at this moment."""
    def tensor_view(self, id: int, writable: bool = False, /) -> memoryview:
        """The same without a copy. A constant is never writable."""
    def load(self, id: int, /) -> list[float]:
        """What the tensor holds at this moment, as numbers."""
    def store(self, id: int, values: Any, /) -> None:
        """Quantise numbers into the tensor, or copy bytes into it. TypeError for a constant."""
    def step_info(self, i: int, /) -> StepInfo: ...
    def step_params(self, i: int, /) -> tuple[int, ...]:
        """All 16 parameters of a step as its record has them."""
    def step_constant(self, i: int, k: int, typecode: str, /) -> memoryview:
        """Constant k of step i where it lies in the file; empty where there is none.
        ValueError where it lies outside."""
    def replace(self, i: int, f: Callable[[], object] | None, /) -> None:
        """Step i calls f() from now on; with None it is the engine's again."""
    def meta(self, key: str, /) -> str | None: ...
    def tokens(self) -> Tokens:
        """What the file says of its vocabulary; ValueError where it has none."""
    def piece(self, token: int, /) -> bytes: ...
    def encode(self, text: str | Buffer, /) -> list[int]:
        """The tokens of a text, without `begin`; ValueError where no piece spells it."""
    def in_strip(self, i: int, /) -> bool:
        """Whether step i is part of a strip."""

    def call(self, i: int, at: int, /) -> int:
        """In the strip that begins with step i, the call that row `at` belongs to: its step << 16,
        plus the rows of it that are left; 0 at the end. Its inputs and outputs are in place then. 0 begins again."""

    def ran(self, n: int, /) -> None:
        """Somebody else has made n rows of that call."""

    def rows(self, id: int, /) -> tuple[int, int, int]:
        """(first, made, have): rows [first, have) of a tensor are in memory, of which the last call makes [made,
        have)."""

    def golden(self, i: int, /) -> memoryview:
        """Vector i of the file: all inputs, then all outputs, each padded to a multiple of 4 bytes; read only."""
    def golden_crcs(self, i: int, /) -> memoryview | None:
        """CRC-32 of each step's output in vector i, as 32-bit numbers; None where the file has none."""
    def check(self, n: int = ..., /) -> int:
        """Check n more bytes (default: the rest) of the file against its checksum at load, in place.

        Returns the bytes that are left; 0 when all were right, and the next call begins again; check(0) begins again at
        once. Raises ValueError at the end of a file that has changed. Allocates nothing.
        """
    def rearm(self) -> None:
        """Write the guard words round the arena again, as load() does, and make the copies of hold() again."""
    def hold(self, i: int, /) -> int:
        """Let step i read a copy of its constants in RAM until deinit().
        Returns the copy's bytes, 0 where there is nothing to copy. Raises MemoryError, and then nothing has changed."""
    def reset_state(self) -> None:
        """Set the state tensors back to their zero points, as after load."""
    def put_state(self, kept: Buffer | None, /) -> None:
        """Set the state to what bytes(m.state) was; with None, or bytes of another size, do nothing. Never raises."""
    def deinit(self) -> None: ...

arena: Arena  # the static one

def cores(n: int = ..., /) -> int:
    """Runs steps on n cores, 1 or 2; returns on how many they do run: 1 where there is no second core,
    or a thread has it."""

def sample(scores: Buffer, scale: float, temperature: int, top_k: int, state: Buffer, /) -> int:
    """A token by its score, int8. temperature: in thousandths, 0 for the largest; state: 4 bytes, changed."""

def learn(op: int, numbers: Buffer, work: Buffer, blocks: tuple[bytearray, ...], arg: int, /) -> bool:
    """One operation of a head: 0 teach the example to class arg, 1 step arg of learning, 2 find its class.
    See mica.learn.

    numbers: array("i") of kind, width, keep, setting, and what 2 finds: class, score, margin. The example is the second
    half of `work`. Returns whether 1 has more to do.
    """

@overload
def pdm(ratio: int, gain: int, /) -> bytearray:
    """A filter for a PDM microphone. ratio: bits of a sample, 64, 128 or 256; gain: 1 to 64."""

@overload
def pdm(filter: bytearray, bits: Buffer, samples: Buffer, address: int, /) -> int:
    """Filter what DMA has written to a ring of bits, up to an address, into a ring of samples;
    return their number so far, modulo 2^24."""

def see(numbers: Buffer, frame: Buffer, table: Buffer, begin: int, end: int, out: Buffer, /) -> None:
    """Rows [begin, end) of a frame as a picture. numbers: array("H"), see mica.pictures;
    table: 256 int8 for each channel."""

def info() -> Info: ...
def load(buf: Buffer, arena: Arena | Buffer | None = None, *, missing_kernels: bool = False) -> Model:
    """Load a file. With `missing_kernels` also one that needs kernels this firmware lacks: such a step wants
    replace()."""

Operand = tuple[Buffer, Sequence[int], int, float]  # buffer, shape, zero point, scale

def run_kernel(
    kernel: str,
    out: Operand,
    inputs: Sequence[Operand],
    constants: Sequence[Buffer],
    typecodes: str,
    params: Sequence[int],
    /,
) -> tuple[str, int] | None:
    """A kernel of int8 on any buffers: see mica.kernels. None, or why not, and which constant (0 to 5)
    or parameter (from 6 on) is wrong."""
