"""Sound for a model that takes samples of it: its rate and length, files, and folders that are named after labels."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mica.data import sounds
from mica.errors import MicaError
from mica.file.codec import ModelFile
from mica.link.board import Say
from mica.run import labels
from mica.run.evaluation import Dataset


@dataclass(frozen=True)
class SoundInput:
    """name: of the input; rate: samples a second; samples: that it takes at once; step: one as a number."""

    name: str
    rate: int
    samples: int
    step: float


def input_of(model: ModelFile, what: str) -> SoundInput:
    """The input that takes sound. what: a file that is to be given to it. Raises MicaError where there is none."""
    tensors = [model.tensors[t] for t in model.inputs]
    rate = model.metadata.get("sample_rate", "")
    if len(tensors) != 1 or tensors[0].dtype != "int16" or not rate.isdecimal() or int(rate) < 1:
        raise MicaError(
            f"{what}: is sound, and this model takes none", todo="mica pack --frontend puts a front end before a model"
        )
    dims = tensors[0].dims
    if int(np.prod(dims)) != dims[-1]:
        raise MicaError(
            f"{what}: is sound, and this model takes rows of {dims[-1]} numbers", todo="expected an .npz of int16 rows"
        )
    return SoundInput(tensors[0].name, int(rate), int(np.prod(tensors[0].dims)), tensors[0].scale)


def read(path: str | Path, model: ModelFile, say: Say) -> dict[str, np.ndarray]:
    """The pieces of a file, int16 [pieces, samples], by the name of the model's input.
    say: is told what is strange about it. Raises MicaError."""
    given = input_of(model, str(path))
    if line := sounds.clipped(sounds.read(path, given.rate)):
        say(f"warning: {path}: {line}")
    if line := sounds.padding([path], given.rate, given.samples):
        say(line)
    return {given.name: sounds.pieces(path, given.rate, given.samples)}


def read_folder(folder: str | Path, model: ModelFile, say: Say) -> Dataset:
    """All sound files of the folders in `folder` that are named as the model's labels.
    say: is told how many were padded. Raises MicaError."""
    given = input_of(model, str(folder))
    files = labels.labelled(folder, model, sounds.is_sound, "sound files (.wav, .flac, .ogg)")
    if line := sounds.padding([path for path, _ in files], given.rate, given.samples):
        say(line)
    parts, y = [], []
    for path, k in files:
        parts.append(sounds.pieces(path, given.rate, given.samples))
        y += [k] * len(parts[-1])
    return Dataset(
        np.concatenate(parts).astype(np.float32) * np.float32(given.step), np.array(y, np.int64), "top1", numbered=True
    )
