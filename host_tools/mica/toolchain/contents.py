"""The parts of mica in firmware and native modules: `--for` leaves out those that no model needs,
`--family` those of other families.

A part is a module of the runtime with those that only its users need, code of the engine, or both.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from mica.boards import BoardSpec
from mica.errors import MicaError
from mica.file import codec, pictures
from mica.file.codec import ModelFile
from mica.format import weights
from mica.kernels import CODES4, CUSTOM, FAMILIES, LEARN, LINES, PDM, PICTURE, RAW, STRIPS, THREES, TOKENS, WINDOWS
from mica.resources import data_dir
from mica.toolchain import tree_code


def _motion(m: ModelFile) -> bool:
    """Rows of a sensor, [1, n, axes]."""
    return any(len(m.tensors[i].dims) == 3 for i in m.inputs)


def _lines(m: ModelFile) -> bool:
    """Depthwise convolutions that are not 3x3."""
    sizes = {(s.params["kernel_h"], s.params["kernel_w"]) for s in m.steps if s.kernel == "depthwise_conv2d_s8"}
    return bool(sizes - {(3, 3)})


def _windows(m: ModelFile) -> bool:
    """Return whether there are depthwise convolutions other than 3x3 of stride 1 or 2, a channel of each."""
    steps = [s for s in m.steps if s.kernel == "depthwise_conv2d_s8"]
    shapes = {
        tuple(s.params[f"{what}_{way}"] for what in ("kernel", "dilation", "stride") for way in "hw") for s in steps
    }
    several = any(m.tensors[s.inputs[0]].dims[-1] != m.tensors[s.outputs[0]].dims[-1] for s in steps)
    return several or bool(shapes - {(3, 3, 1, 1, 1, 1), (3, 3, 1, 1, 2, 2)})


def _threes(m: ModelFile) -> bool:
    """Return whether there are convolutions three wide, of stride 1, over several rows."""
    params = [s.params for s in m.steps if s.kernel == "conv2d_s8"]
    return any((p["kernel_w"], p["stride_w"]) == (3, 1) and p["kernel_h"] > 1 for p in params)


class Part(NamedTuple):
    """A part. needed: whether a model needs it. modules: of firmware/mica. code: the part of `mica.kernels.PARTS`."""

    name: str  # as --with takes it
    needed: Callable[[ModelFile], bool]
    modules: tuple[str, ...] = ()
    code: str = ""


FALLBACK = "fallback"
PARTS = (
    Part(FALLBACK, lambda m: False),  # the kernels in MicroPython, in a folder of their own
    Part("kernels", lambda m: False, ("kernels",), RAW),
    Part("text", lambda m: m.tokens is not None, ("text", "classes"), TOKENS),
    Part("strips", lambda m: bool(m.strips), ("strips",), STRIPS),
    Part("output_groups", lambda m: "joins" in m.metadata, ("output_groups",)),
    Part("pictures", lambda m: pictures.KEY in m.metadata, ("pictures", "camera", "dvp"), PICTURE),
    Part("boxes", lambda m: any(len(m.tensors[i].dims) == 3 for i in m.outputs), ("boxes",)),
    Part("audio", lambda m: _motion(m) or "sample_rate" in m.metadata, ("audio", "analog", "gate", "pio_i2s", "wav")),
    Part("pdm", lambda m: "sample_rate" in m.metadata, ("pdm",), PDM),
    Part("motion", _motion, ("motion",)),
    Part("codes4", lambda m: any(s.layout == weights.CODES4.code for s in m.steps), code=CODES4),
    Part("lines", _lines, code=LINES),
    Part("windows", _windows, code=WINDOWS),
    *(Part(name, _threes, code=name) for name in THREES),
    Part("learn", lambda m: False, ("learn", "heads"), LEARN),
)

# Families of models with a native module each: files of `mica.kernels`, and parts.
# Other plain layers run in MicroPython.
_NETWORK = ("conv", "dense", "pool", "elementwise", "softmax", "movement", "reduce")
FAMILY = {
    "vision": ((*_NETWORK, "resize"), ("strips", "pictures", "boxes", "output_groups", "codes4", "windows", *THREES)),
    "sound": (
        (*_NETWORK, "recurrent", "tabular", "vectors", "audio", "pcen", "axes"),
        ("audio", "pdm", "motion", "lines", "windows", *THREES),
    ),
    "language": (("dense", "elementwise", "softmax", "movement", "reduce", "norm", "attention"), ("text", "codes4")),
}


@dataclass(frozen=True)
class Contents:
    """kernels: those of `mica.kernels.PARTS` that are in, None: all.
    modules: those that are left out, and what their import says.
    code: C code of the models' decision trees, for native modules."""

    kernels: frozenset[str] | None = None
    modules: dict[str, str] = field(default_factory=dict)
    fallback: bool = True
    code: str = ""


ALL = Contents()


def usual(board: BoardSpec) -> Contents:
    """Return the contents of a firmware for which nothing is chosen: all, and so no kernels in MicroPython.

    Machines that are no board, only an emulator or a program, have those too: there they are tested.
    """
    return replace(ALL, fallback=board.flasher == "none")


def chosen(models: Sequence[str], names: Collection[str] = (), family: str | None = None) -> Contents:
    """Return the needs of these .mica files, or of a family, and the parts `names`; where neither is given, everything
    but kernels in MicroPython, which need to be among `names`."""
    if family:
        if models:
            raise MicaError("give either --family or --for")
        if family not in FAMILY:
            raise MicaError(f"--family {family}", todo=f"known are {', '.join(FAMILY)}")
        files, own = FAMILY[family]
        kernels = {k.name for file in files for k in FAMILIES[file]}
        return _contents(kernels, {FALLBACK, *own, *names}, family)
    if not models:
        return replace(ALL, fallback=FALLBACK in names)
    found = [_read(path) for path in models]
    purpose = ", ".join(Path(path).stem for path in models) if len(models) < 4 else f"{len(models)} models"
    return replace(model_contents(found, names, purpose), code=tree_code.source(found))


def model_contents(found: Sequence[ModelFile], names: Collection[str] = (), purpose: str = "") -> Contents:
    """Return the needs of some models, and the parts `names`."""
    kernels = {s.kernel for m in found for s in m.steps} - {CUSTOM.name}  # which is in no firmware
    parts = {part.name for part in PARTS if any(part.needed(m) for m in found)}
    return _contents(kernels, parts | set(names), purpose)


def _contents(kernels: set[str], kept: Collection[str], purpose: str) -> Contents:
    code = {part.code for part in PARTS if part.code and part.name in kept}
    modules = {
        module: f"this firmware was built for {purpose} and has no mica.{module}: build it --with {part.name}"
        for part in PARTS
        for module in part.modules
        if part.name not in kept
    }
    return Contents(frozenset(kernels | code), modules, FALLBACK in kept)


def _read(path: str) -> ModelFile:
    try:
        return codec.decode(Path(path).read_bytes())
    except OSError as error:
        raise MicaError(f"cannot read {path}: {error.strerror}") from None
    except codec.FormatError as error:
        raise error.at(path) from None


def stub(says: str) -> str:
    """The source of a module that is left out."""
    return f"raise ImportError({says!r})\n"


def packages() -> list[str]:
    """Packages of MicroPython that a firmware has only where they are asked for: "fleet" is firmware/mica_fleet."""
    return sorted(p.name.removeprefix("mica_") for p in data_dir("firmware").glob("mica_*") if p.is_dir())


def check_names(names: Collection[str]) -> list[str]:
    """Return which of the names of --with are packages; others are parts. Raises MicaError where one is not known."""
    parts = [part.name for part in PARTS]
    if unknown := set(names) - set(known := [*packages(), *parts]):
        raise MicaError(f"--with {min(unknown)}", todo=f"known are {', '.join(known)}")
    return sorted(set(names) - set(parts))
