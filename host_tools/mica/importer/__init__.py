"""Model file -> Graph: ONNX or TensorFlow Lite. The only package that imports onnx, but for `exporter`."""

from collections.abc import Mapping
from pathlib import Path

from mica.custom import NO_CUSTOM, CustomOps
from mica.errors import MicaError
from mica.importer import kinds
from mica.importer.onnx_file import import_onnx
from mica.importer.tflite import import_tflite
from mica.ir.graph import Graph

__all__ = ["import_model", "import_onnx", "import_tflite"]


def import_model(
    path: str | Path, shapes: Mapping[str, int] | None = None, custom: CustomOps = NO_CUSTOM, front_end: bool = False
) -> Graph:
    """Reads a file of any kind that mica packs. Raises MicaError.

    Of an ONNX file, shapes: sizes of dynamic dimensions; custom: operators of the user's own.
    front_end: one will make the input.
    """
    if kinds.read_as(path) != "tflite":
        return import_onnx(path, shapes, custom, front_end)
    if shapes:
        raise MicaError(f"{path}: --shape {next(iter(shapes))}: a .tflite file has fixed shapes")
    g = import_tflite(path)
    g.features = set(g.inputs) if front_end else set()
    return g
