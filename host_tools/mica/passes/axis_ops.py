"""Operators that treat each axis by itself: they commute with transposes; what they say of an axis moves with it."""

from collections.abc import Mapping, Sequence
from typing import Any

from mica.ir.graph import Node
from mica.ir.strided_copy import AxisMap, same

AXIS_OPS = ("Remap", "Pad", "Gather")


def changed_axes(node: Node, shape: Sequence[int]) -> list[int]:
    """The axes of its input that an operator does not leave as they are."""
    if node.op == "Gather":
        return [node.attrs["axis"]]
    if node.op == "Pad":
        return [i for i in range(len(shape)) if node.attrs["begins"][i] or node.attrs["ends"][i]]
    return [i for i, n in enumerate(shape) if node.attrs["axes"][i] != same(n)]


def axes_moved(
    node: Node, places: Mapping[int, int], shape: Sequence[int], y: Sequence[int]
) -> tuple[dict[str, Any], list[int]]:
    """Attributes and output shape for an input of another `shape`, where old axis i is now axis places[i].

    y: the old output's shape. Every changed axis has a place.
    """
    wide = list(shape)
    for axis, k in places.items():
        wide[k] = y[axis]
    if node.op == "Gather":
        return {"axis": places[node.attrs["axis"]]}, wide
    if node.op == "Pad":
        begins, ends = [0] * len(shape), [0] * len(shape)
        for axis, k in places.items():
            begins[k], ends[k] = node.attrs["begins"][axis], node.attrs["ends"][axis]
        return {**node.attrs, "begins": tuple(begins), "ends": tuple(ends)}, wide
    axes: list[AxisMap] = [same(n) for n in shape]
    for axis, k in places.items():
        axes[k] = node.attrs["axes"][axis]
    return {"axes": tuple(axes)}, wide
