"""The float model, run by ONNX Runtime: what all accuracy is compared with."""

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mica.errors import MicaError
from mica.ir.axes import Front
from mica.reference import axes

_NUMPY = {
    "tensor(int32)": np.int32,
    "tensor(int64)": np.int64,
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
}


class FloatModel:
    """An ONNX or TensorFlow Lite file with one float32 input. Raises MicaError where ONNX Runtime refuses it.

    front_end: what its features are made with, of samples of sound or of other sensors.
    """

    def __init__(self, path: str | Path, front_end: Front | None = None) -> None:
        import onnxruntime  # slow to import, and only needed here

        from mica.importer import kinds, tflite

        is_tflite = kinds.read_as(path) == "tflite"
        model = tflite.as_onnx(path).SerializeToString() if is_tflite else str(path)
        options = onnxruntime.SessionOptions()
        # x86 without VNNI: the default int8 kernels of QDQ models add pairs of products in 16 bits and saturate.
        options.add_session_config_entry("session.x64quantprecision", "1")
        options.log_severity_level = 3
        try:
            self.session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        except Exception as e:  # its exception classes are not public
            raise MicaError(f"{path}: ONNX Runtime cannot run it: {str(e).splitlines()[0]}") from None
        self._path = path
        self.front_end = front_end
        self.shape = [d if isinstance(d, int) else 1 for d in self.session.get_inputs()[0].shape]
        self.inputs = [i.name for i in self.session.get_inputs()]
        self.types = [_NUMPY.get(i.type, np.float32) for i in self.session.get_inputs()]

    def predict(self, x: np.ndarray, place: int = 0) -> np.ndarray:
        """float32 [n, 1, ...input] -> [n, ...output] of the output at `place`, one sample at a time;
        of classes their numbers from 0 on."""
        if self.front_end is not None:
            f, shape = self.front_end, tuple(self.shape)
            x = np.stack([f.laid(axes.compute(f, sample), shape) for sample in x])
        name = self.session.get_outputs()[place].name
        try:
            answers = [self.session.run([name], {self.inputs[0]: sample.astype(self.types[0])})[0] for sample in x]
        except Exception as e:  # its exception classes are not public
            raise MicaError(f"{self._path}: ONNX Runtime cannot run it: {str(e).splitlines()[0]}") from None
        return np.stack([self._numbers(a) for a in answers])

    def _numbers(self, answer: Any) -> np.ndarray:
        """An output as numbers: a ZipMap's probabilities in the order of their classes,
        a class as its place among the model's."""
        if isinstance(answer, list):
            return np.array([[row[key] for key in sorted(row)] for row in answer], np.float32)
        a = np.asarray(answer)
        if a.dtype.kind == "f":
            return a.astype(np.float32)
        if a.dtype.kind == "b":
            return a
        values = a.reshape(-1).tolist()
        if strange := [v for v in values if isinstance(v, str) and v not in self._classes]:
            raise MicaError(f"{self._path}: answers with '{strange[0]}', which is none of its classes")
        return np.array([self._classes.get(str(v), v) for v in values]).reshape(a.shape)

    @functools.cached_property
    def _classes(self) -> Mapping[str, int]:
        """The model's own names or numbers of its classes, empty where they are 0, 1, 2 ..."""
        from mica.importer import import_model

        try:
            labels = import_model(self._path).labels
        except MicaError:  # what ONNX Runtime alone can read has no such numbers that are known
            labels = []
        return {label: k for k, label in enumerate(labels)}
