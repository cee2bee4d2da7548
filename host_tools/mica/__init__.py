"""mica: int8 neural networks on MicroPython boards. The host side: compiler, firmware builder, device tools.

    import mica
    packed = mica.pack("net.onnx", samples, board="RPI_PICO")
    packed.save("net.mica")
    mica.load("net.mica").predict(x)

`docs/library.md` shows it line by line. The command `mica` calls the same functions.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

if TYPE_CHECKING:
    from mica.compile.packed import Options, Packed, Samples
    from mica.run.model import Model
    from mica.training.run import Result

__version__ = "0.1.0"
__all__ = ["Model", "__version__", "load", "pack", "train"]


def pack(model: str | Path, samples: Samples = None, **options: Unpack[Options]) -> Packed:
    """Quantises an ONNX or TensorFlow Lite model and packs it for boards.

    samples: real inputs, for the ranges of tensors: an array [n, ...input shape] for a model with one input,
    a dict of arrays by input name, or a file or folder as for `mica pack --calib`.
    None takes made-up samples, which costs accuracy.
    options: `mica.compile.packed.Options` has them with their units.
    Raises mica.errors.MicaError for wrong input, and mica.errors.Unsupported where the model cannot be packed or does
    not fit `board`.
    """
    from mica.compile import packed

    return packed.pack(model, samples, **options)


def load(model: str | Path | bytes) -> Model:
    """A packed model that runs in this process, from a file or from its bytes. Raises mica.errors.MicaError."""
    from mica.run.model import Model

    return Model(model)


def train(data: str | Path, **options: Any) -> Result:
    """Train a model on a folder with a folder of examples for each label, or on a table.

    `result.save("x.mica")` keeps it. options: of `mica train`, as in `mica.training.run.Options`. Raises
    mica.errors.MicaError for data that nothing can be learnt from, and mica.errors.Unsupported where no network keeps
    the contract.
    """
    from mica.training import run

    return run.train(data, run.options_of(options))


def __getattr__(name: str) -> object:
    if name == "Model":  # here, since it imports NumPy and the engine
        from mica.run.model import Model

        return Model
    raise AttributeError(f"module 'mica' has no attribute '{name}'")
