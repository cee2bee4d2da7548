"""Picture files for a model that takes pictures: the file says how their bytes become the input, as on a board."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mica.data import pictures
from mica.errors import MicaError
from mica.file.codec import ModelFile, TensorRecord
from mica.file.pictures import Desired, read
from mica.run import labels
from mica.run.evaluation import Dataset

WHAT = f"pictures ({', '.join(pictures.ENDINGS)})"


@dataclass(frozen=True)
class PictureInput:
    """The input of a model, and the picture that it wants there."""

    tensor: TensorRecord
    desired: Desired

    def load(self, path: str | Path) -> np.ndarray:
        """A file as bytes, uint8 in the input's shape. Raises MicaError."""
        w = self.desired
        made = pictures.resized(path, w.colours, w.height, w.width)
        return np.ascontiguousarray(made.transpose(2, 0, 1) if w.planes else made).reshape(self.tensor.dims)

    def _looked_up(self, table: np.ndarray, x: np.ndarray) -> np.ndarray:
        p = x.astype(np.uint8)
        if len(table) == 1:
            return np.asarray(table[0][p])
        axis = -3 if self.desired.planes else -1
        parts = [table[k][part] for k, part in enumerate(np.moveaxis(p, axis, 0))]
        return np.ascontiguousarray(np.stack(parts, axis=axis))

    def quantised(self, x: np.ndarray) -> np.ndarray:
        """Bytes as the numbers of the int8 that the board makes of them, float32."""
        q = self._looked_up(self.desired.table, x).astype(np.int32)
        return np.asarray((q - self.tensor.zero_point) * np.float32(self.tensor.scale), np.float32)

    def real(self, x: np.ndarray) -> np.ndarray:
        """Bytes as what a float model takes, float32."""
        return self._looked_up(self.desired.real(self.tensor), x)


def input_of(model: ModelFile, what: str) -> PictureInput:
    """The input that takes pictures. what: a file that is to be given to it. Raises MicaError where there is none."""
    desired = read(model)
    if desired is None:
        raise MicaError(
            f"{what}: is a picture, and the model does not say which it takes",
            todo="pack it with pictures as --calib, or with --picture grey or rgb",
        )
    return PictureInput(model.tensors[model.inputs[0]], desired)


def read_folder(folder: str | Path, model: ModelFile) -> Dataset:
    """All pictures of the folders in `folder` that are named as the model's labels; x is bytes. Raises MicaError."""
    given = input_of(model, str(folder))
    found = labels.labelled(folder, model, pictures.is_picture, WHAT)
    label = dict(found)
    read = pictures.readable([path for path, _ in found], given.load)
    x = np.stack([x for _, x in read]).astype(np.float32)
    return Dataset(x, np.array([label[path] for path, _ in read], np.int64), "top1", numbered=True)
