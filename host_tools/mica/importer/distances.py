"""Distances of a row to constant points, as scikit-learn's exporter writes them: a CDist, or a Scan over the points."""

from collections.abc import Callable

import numpy as np
import onnx
from onnx import helper

from mica.kernels.vectors import SQUARES, SUM

_BODIES = {
    ("Identity", "Identity", "ReduceSumSquare", "Sub"): SQUARES,
    ("Abs", "Identity", "Identity", "ReduceSum", "Sub"): SUM,
}
_CDIST = {"euclidean": (SQUARES, True), "sqeuclidean": (SQUARES, False)}


def distances(n: onnx.NodeProto, constant: Callable[[str], np.ndarray | None]) -> tuple[np.ndarray, int, bool] | None:
    """Return (points [S, F], measure, True for a root) where a node's last output is distances to a constant."""
    points = constant(n.input[1]) if n.op_type in ("CDist", "Scan") and len(n.input) == 2 else None
    if points is None or points.ndim != 2 or points.dtype.kind != "f":
        return None
    attributes = {a.name: helper.get_attribute_value(a) for a in n.attribute}
    if n.op_type == "CDist":
        kind = attributes.get("metric", b"sqeuclidean")
        measure = _CDIST.get(kind.decode() if isinstance(kind, bytes) else "")
        return (points, *measure) if measure else None
    if attributes.get("num_scan_inputs") != 1 or len(n.output) != 2:
        return None
    body = next(a.g for a in n.attribute if a.name == "body")
    kinds = tuple(sorted(node.op_type for node in body.node))
    difference = next((node for node in body.node if node.op_type == "Sub"), None)
    if kinds not in _BODIES or difference is None or set(difference.input) != {i.name for i in body.input}:
        return None
    return points, _BODIES[kinds], False
