"""Names of classes: a text file with one on each line, as every editor writes it, and as many as the model has classes."""

from __future__ import annotations

import codecs
from pathlib import Path

from mica.errors import MicaError
from mica.format import joins
from mica.format.codec import ModelFile

# A mark at the beginning says what the encoding is; that of UTF-32 begins as that of UTF-16 does.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
MOST_BYTES = 1 << 20


def read(path: Path) -> list[str]:
    """The lines of a file in UTF-8, or in UTF-16 with its mark. Raises MicaError."""
    if not path.is_file():
        raise MicaError(f"{path}: no such file")
    if path.stat().st_size > MOST_BYTES:
        raise MicaError(f"{path}: has {path.stat().st_size:,} bytes", todo="expected one class name on each line")
    data = path.read_bytes()
    encoding = next((name for mark, name in _MARKS if data.startswith(mark)), "utf-8")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as e:
        raise MicaError(f"{path}: is not in UTF-8 (byte {e.start})", todo="save it with that encoding") from None
    if "\0" in text:
        raise MicaError(f"{path}: is not in UTF-8 (it holds zeros)", todo="save it with that encoding")
    lines = text.replace("\r\n", "\n").replace("\r", "\n").strip("\n").split("\n")
    if lines == [""]:
        raise MicaError(f"{path}: holds no names", todo="expected one class name on each line")
    return lines


def check(labels: list[str], model: ModelFile, path: Path) -> None:
    """Raises MicaError where no output has as many classes as there are names.

    Classes are all values of an output or those along one dimension, as in a segmented picture. How many classes an ArgMax
    chose from its result does not say, and one number may stand for two.
    """
    outputs = joins.read(model)
    for join in outputs:
        if (
            model.tensors[model.outputs[join.first]].dtype == "int32"
            or len(labels) in (joins.size(join), *join.shape)
            or (joins.size(join) == 1 and len(labels) == 2)
        ):
            return
    sizes = ", ".join(f"'{join.name}' has {joins.size(join)}" for join in outputs)
    raise MicaError(f"{path}: {len(labels)} names", todo=f"expected one for each value of an output: {sizes}")
