"""The four reference models, packed for boards, as jobs of the bench."""

import zlib
from functools import cache
from pathlib import Path

import bare_metal
import numpy as np
from bare_metal import Job

from mica.compile import Compiled, compile_file
from mica.data.calibration import load_calibration
from mica.file.codec import ModelFile, encode
from mica.importer import import_onnx
from mica.ir import knobs

MODEL_FOLDERS = {"kws": "kws", "res": "ic", "vww": "vww", "ad": "ad"}


def files(folder: Path, name: str) -> tuple[Path, Path]:
    """A reference model and its samples."""
    return folder / name / "model.onnx", folder / name / "calib.npz"


def compiled(onnx: Path, calib: Path) -> Compiled:
    """A model with its own samples; its weights are the nearest integers."""
    imported = import_onnx(onnx, {"N": 1})
    sizes = {i: imported.value(i).shape for i in imported.inputs}
    calibration = load_calibration(str(calib), imported.inputs, sizes)
    return compile_file(onnx, calibration, {"N": 1}, plain=True)


def whole_models(folder: Path, board: str) -> list[Job]:
    """The four models as packed for a board, each with one random input. Each comes twice: with all channels of the
    ONNX file, and without the channels that never change, under a name with a prefix.

    Their ranges come from the calibration data, their weights are the nearest integers: tuning them changes no count.
    """
    jobs = []
    for name, model in compiled_models(folder):
        data = bare_metal.for_board(model, board)
        rng = np.random.default_rng(zlib.crc32(name.removeprefix("lean ").encode()))
        jobs.append(Job(name, data, [bare_metal.random_input(model.tensors[i], rng) for i in model.inputs]))
    return jobs


@cache
def compiled_models(folder: Path) -> list[tuple[str, ModelFile]]:
    """The same, for any board."""
    found = []
    for name, sub in MODEL_FOLDERS.items():
        for keep, prefix in ((True, ""), (False, "lean ")):
            knobs.KEEP_DEAD_CHANNELS = keep
            found.append((prefix + name, compiled(*files(folder, sub)).model))
    return found


def packed_file(folder: Path, name: str, to: Path) -> Path:
    """A model packed for any board, NAME.mica."""
    path = to / f"{name}.mica"
    path.write_bytes(encode(compiled(*files(folder, MODEL_FOLDERS[name])).model))
    return path
