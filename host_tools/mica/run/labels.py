"""Names of classes: a text file with one on each line, as every editor writes it, and as many as the model has classes."""

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

    Classes are all values of an output or those along one dimension, as in a segmented picture. How many classes an ArgMax
    chose from its result does not say, and one number may stand for two.
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
