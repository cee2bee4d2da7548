"""Names of classes: a text file with one on each line, as every editor writes it, and as many as the model has classes.

And folders of samples, named after the labels.
"""

from collections.abc import Callable
from pathlib import Path

from mica.data.tables import text_of
from mica.errors import MicaError
from mica.file.codec import ModelFile
from mica.format import output_groups

MOST_BYTES = 1 << 20


def read(path: Path) -> list[str]:
    """The lines of a file in UTF-8, or in UTF-16 with its mark. Raises MicaError."""
    lines = text_of(path, MOST_BYTES, "expected one class name on each line").strip("\n").split("\n")
    if lines == [""]:
        raise MicaError(f"{path}: holds no names", todo="expected one class name on each line")
    return lines


def check(labels: list[str], model: ModelFile, path: Path) -> None:
    """Raises MicaError where no output has as many classes as there are names.

    Classes are all values of an output or those along one dimension, as in a segmented picture. How many classes an
    ArgMax chose from its result does not say, and one number may stand for two.
    """
    outputs = output_groups.read(model)
    for group in outputs:
        if (
            model.tensors[model.outputs[group.first]].dtype == "int32"
            or len(labels) in (output_groups.size(group), *group.shape)
            or (output_groups.size(group) == 1 and len(labels) == 2)
        ):
            return
    sizes = ", ".join(f"'{group.name}' has {output_groups.size(group)}" for group in outputs)
    raise MicaError(f"{path}: {len(labels)} names", todo=f"expected one for each value of an output: {sizes}")


def labelled(
    folder: str | Path, model: ModelFile, is_sample: Callable[[Path], bool], what: str
) -> list[tuple[Path, int]]:
    """All samples of the folders in `folder` and the places of their labels; what: such as .wav files.
    Raises MicaError."""
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
