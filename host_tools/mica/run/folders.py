"""Folders of samples, named after the model's labels."""

from collections.abc import Callable
from pathlib import Path

from mica.errors import MicaError
from mica.file.codec import ModelFile


def labelled(
    folder: str | Path, model: ModelFile, is_sample: Callable[[Path], bool], what: str
) -> list[tuple[Path, int]]:
    """All samples of the folders in `folder` and the places of their labels; what: such as .wav files. Raises MicaError."""
    folder = Path(folder)
    labels = model.metadata["labels"].split("\n") if "labels" in model.metadata else []
    if not labels:
        raise MicaError(
            f"{folder}: the model has no labels to name folders after", todo="mica pack --labels FILE adds them"
        )
    inside = sorted(p for p in folder.iterdir() if p.is_dir())
    strangers = [p.name for p in inside if p.name not in labels and any(is_sample(f) for f in p.iterdir())]
    if strangers:
        raise MicaError(
            f"{folder}: '{strangers[0]}' is none of the model's labels",
            todo=f"expected folders named {', '.join(labels)}",
        )
    found = [
        (path, k) for k, label in enumerate(labels) for path in sorted((folder / label).glob("*")) if is_sample(path)
    ]
    if not found:
        raise MicaError(f"{folder}: holds no {what}", todo=f"expected folders named {', '.join(labels)} with {what}")
    return found
