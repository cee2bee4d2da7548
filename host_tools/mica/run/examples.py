"""Labelled examples for a model whose classes are not its own: a folder for each label, a table, or arrays x and y.

A folder without folders in it is one label, its own name. Recordings that are longer than the model's input are cut
into pieces.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from mica.data import calibration, sounds
from mica.data import pictures as picture_files
from mica.errors import MicaError
from mica.file.codec import ModelFile, TensorRecord
from mica.format.values import quantise_input
from mica.run import evaluation, pictures, sound
from mica.run.given import odd

WHAT = "sound files, pictures, or .npz and .npy files"


@dataclass(frozen=True)
class Example:
    """The integers of the model's input, and their label."""

    x: np.ndarray
    label: str


def read(path: str | Path, model: ModelFile, say: Callable[[str], None]) -> list[Example]:
    """All examples of a file or folder, those of a label together. say: is told what is strange. Raises MicaError."""
    if len(model.inputs) != 1:
        raise MicaError(f"the model has {len(model.inputs)} inputs; examples feed one")
    path = Path(path)
    found = _folder(path, model, say) if path.is_dir() else _file(path, model)
    if not found:
        raise MicaError(f"{path}: holds no examples", todo=f"expected a folder for each label, with {WHAT}")
    return found


def _file(path: Path, model: ModelFile) -> list[Example]:
    t = model.tensors[model.inputs[0]]
    data = evaluation.load(path, evaluation.table_inputs(model))
    if data.metric == "mse":
        raise MicaError(f"{path}: its labels are numbers to predict", todo="expected names or numbers of classes")
    if t.dtype == "int16":
        data = replace(data, x=sounds.as_reals(data.x, t.scale))
    order = np.argsort(data.y, kind="stable")
    windows = list(data.inputs(t.dims, t.name))
    return [Example(quantise_input(x, t), str(data.y[k])) for k in order for x in windows[k]]


def _folder(folder: Path, model: ModelFile, say: Callable[[str], None]) -> list[Example]:
    inside = sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))
    found = []
    for label in inside or [folder.resolve()]:
        if not label.name.isprintable():  # nor is half a character, as Python reads a name that is no UTF-8
            raise MicaError(f"{folder}: a folder named {label.name!a}", todo="expected a label that can be shown")
        for file in sorted(label.iterdir()):
            found += [Example(x, label.name) for x in _recording(file, model, say)]
    return found


def _recording(file: Path, model: ModelFile, say: Callable[[str], None]) -> list[np.ndarray]:
    """A file as inputs; none where it is of another kind. Raises MicaError."""
    t = model.tensors[model.inputs[0]]
    if sounds.is_sound(file):
        return [x.reshape(t.dims) for x in next(iter(sound.read(file, model, say).values()))]
    if picture_files.is_picture(file):
        seen = pictures.input_of(model, str(file))
        return [quantise_input(seen.quantised(seen.load(file)), t)]
    if file.suffix not in (".npz", ".npy"):
        return []
    x = calibration.decode(calibration.read_arrays(file), str(file))
    if odd(x, evaluation.MISSING in model.metadata):
        raise MicaError(f"{file}: holds NaN or infinity", todo="leave such samples out")
    if t.dtype == "int16":
        x = sounds.as_reals(x, t.scale)
    return [quantise_input(piece, t) for piece in _cut(file, x, t)]


def _cut(file: Path, x: np.ndarray, t: TensorRecord) -> np.ndarray:
    """An array as inputs [n, ...]: whole ones, or rows that are cut into as many as there are. Raises MicaError."""
    if x.size % int(np.prod(t.dims)) == 0 and x.shape[-1:] == t.dims[-1:]:
        return x.reshape(-1, *t.dims)
    columns = t.dims[-1] if len(t.dims) > 2 else 1
    rows = x.reshape(-1, columns) if x.size % columns == 0 else x[:0]
    each = int(np.prod(t.dims)) // columns
    if len(rows) < each or (columns > 1 and x.shape[-1] != columns):
        raise MicaError(f"{file}: an array of {list(x.shape)}", todo=f"the model takes {list(t.dims)}")
    return rows[: len(rows) // each * each].reshape(-1, *t.dims)
