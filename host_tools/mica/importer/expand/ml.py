"""What scikit-learn's exporter writes beside ONNX's own operators, spelled out in them.

y = Scaler(x, offset, scale)              =>   y = Mul(Sub(x, offset), scale)
y = ArrayFeatureExtractor(labels, k)      =>   y = Reshape(k), where the labels are 0, 1, 2 ...
y = ZipMap(p)                             =>   y = Identity(p): the probabilities as a tensor, in the classes' order
"""

from __future__ import annotations

from typing import Any

import numpy as np

DOMAIN = "ai.onnx.ml"


def _scaler(n: Any) -> None:
    parts = {
        name: np.asarray(n.attrs.get(name, default), np.float32) for name, default in (("offset", 0), ("scale", 1))
    }
    offset, scale = (n.constant(name, value) for name, value in parts.items())
    n.emit("Mul", [n.emit("Sub", [n.i[0], offset]), scale], n.proto.output[0])


def _array_feature_extractor(n: Any) -> None:
    labels = n.expander.constant(n.i[0])
    if (
        labels is None
        or labels.dtype.kind not in "iu"
        or not np.array_equal(labels.reshape(-1), np.arange(labels.size))
    ):
        raise ValueError(
            "class labels other than 0, 1, 2 ...; leave the label output out of the export and use the probabilities, "
            "with the names as --labels"
        )
    n.emit("Reshape", [n.i[1], n.constant("shape", np.array([1, -1]))], n.proto.output[0])


def _zip_map(n: Any) -> None:
    n.emit("Identity", [n.i[0]], n.proto.output[0])


FORMS = {"ArrayFeatureExtractor": _array_feature_extractor, "Scaler": _scaler, "ZipMap": _zip_map}
