"""Resize and Upsample.

nearest, by a whole factor    =>   y = Remap(x), which repeats (or skips) elements
nearest, otherwise            =>   y = Gather(Gather(x)), one axis each
linear, cubic                 =>   y = Transpose(ResizeLinear(Transpose(x))), two axes at a time, x as [1, H, W, rest]
"""

import numpy as np

from mica.ir.graph import Graph, Node
from mica.passes.builder import TO_NCHW, TO_NHWC, Builder
from mica.passes.lower.movement import pick
from mica.passes.resize_tables import Axis, nearest, weighted


def _floats(b: Builder, node: Node, index: int, name: str) -> np.ndarray | None:
    """A constant input, or an attribute of the same name; None where it is absent or empty."""
    if name in node.attrs:
        return np.asarray(node.attrs[name], np.float64)
    if len(node.inputs) <= index or not node.inputs[index]:
        return None
    data = b.constant(node.inputs[index], name)
    return data.astype(np.float64) if data.size else None


def _axes(node: Node, b: Builder) -> dict[int, Axis]:
    """The axes that change, by their number."""
    shape, wide = b.shape(node.inputs[0]), b.shape(node.outputs[0])
    rank = len(shape)
    old = node.op == "Upsample" or len(node.inputs) == 2  # up to opset 10: scales come second, and there is one mode
    scales = _floats(b, node, 1 if old else 2, "scales")
    roi = None if old else _floats(b, node, 1, "roi")
    sizes = None if old else _floats(b, node, 3, "sizes")
    axes = [int(a) % rank for a in node.attrs.get("axes", range(rank))]
    if scales is not None:
        found = dict(zip(axes, scales.tolist(), strict=True))
    else:
        assert sizes is not None
        found = {a: float(s) / shape[a] for a, s in zip(axes, sizes, strict=True)}
        policy = node.attrs.get("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            one = min(found.values()) if policy == "not_larger" else max(found.values())
            found = dict.fromkeys(axes, one)
    mode = "asymmetric" if old else node.attrs.get("coordinate_transformation_mode", "half_pixel")
    region = dict.fromkeys(axes, (0.0, 1.0))
    if roi is not None and mode == "tf_crop_and_resize":
        region = {a: (float(roi[k]), float(roi[len(axes) + k])) for k, a in enumerate(axes)}
    return {
        a: Axis(shape[a], wide[a], scale, mode, region[a])
        for a, scale in found.items()
        if scale != 1 or shape[a] != wide[a] or (mode == "tf_crop_and_resize" and region[a] != (0.0, 1.0))
    }


def _resize(g: Graph, node: Node, b: Builder) -> None:
    x, out = node.inputs[0], node.outputs[0]
    axes = _axes(node, b)
    mode = node.attrs.get("mode", "nearest")
    if mode not in ("nearest", "linear", "bilinear", "cubic"):
        raise ValueError(f"mode '{mode}'")
    if mode == "nearest":
        old = node.op == "Upsample" or len(node.inputs) == 2
        rounding = "floor" if old else node.attrs.get("nearest_mode", "round_prefer_floor")
        for a, axis in axes.items():
            x = pick(g, b, x, a, nearest(axis, rounding))
        b.emit_to(out, "Reshape", [x])
        return
    cubic = float(node.attrs.get("cubic_coeff_a", -0.75)) if mode == "cubic" else None
    antialias = bool(node.attrs.get("antialias", 0))
    exclude = cubic is not None and bool(node.attrs.get("exclude_outside", 0))
    tables = {a: weighted(axis, cubic, antialias, exclude) for a, axis in axes.items()}
    numbers = sorted(tables)
    for k in range(0, len(numbers), 2):
        x = _resize_two(g, b, x, numbers[k : k + 2], tables)
    b.emit_to(out, "Reshape", [x])


def _resize_two(g: Graph, b: Builder, x: str, axes: list[int], tables: dict[int, tuple[np.ndarray, np.ndarray]]) -> str:
    """One or two axes of x resized: x as an image whose rows and columns they are, everything else in the channels."""
    shape = b.shape(x)
    rest = [a for a in range(len(shape)) if a not in axes]
    perm = [*axes, *rest]
    moved = [shape[a] for a in perm]
    plain = len(shape) == 4 and axes == [2, 3] and shape[0] == 1
    sizes = (moved[0], 1) if len(axes) == 1 else (moved[0], moved[1])
    channels = int(np.prod(moved[len(axes) :], dtype=np.int64))
    image = b.transpose(x, TO_NHWC) if plain else b.reshape(b.transpose(x, perm), (1, *sizes, channels))
    constants, wide = [], []
    for what, k in (("rows", 0), ("columns", 1)):
        first, weights = tables[axes[k]] if k < len(axes) else (np.zeros(1, np.int64), np.ones((1, 1)))
        constants.append(g.new_const(f"{b.origin}.{what}", first.astype(np.int32)))
        constants.append(g.new_const(f"{b.origin}.{what}.weights", weights.astype(np.float32)))
        wide.append(len(first))
    y = b.emit("ResizeLinear", [image, *constants], (1, *wide, channels))
    if plain:
        return b.transpose(y, TO_NCHW)
    result = [*wide[: len(axes)], *moved[len(axes) :]]
    return b.transpose(b.reshape(y, result), np.argsort(perm).tolist())


LOWERINGS = {"Resize": _resize, "Upsample": _resize}
