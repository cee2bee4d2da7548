"""Two nodes that compute the same thing become one.

    a = Transpose(x); b = Transpose(x)    =>   readers of b read a

Constants are compared by content, so equal weights stored twice are found too.
"""

import hashlib
from collections.abc import Hashable
from typing import Any

import numpy as np

from mica.ir.graph import Graph


def run(g: Graph) -> Graph:
    const_of: dict[Hashable, str] = {}
    for value in list(g.values.values()):
        if value.data is not None:
            content: Hashable = (value.shape, str(value.data.dtype), _digest(value.data), value.quant)
            first = const_of.setdefault(content, value.name)
            if first != value.name and value.name not in g.outputs:
                g.replace_uses(value.name, first)
    seen: dict[Hashable, list[str]] = {}
    for node in list(g.nodes):
        # Shapes too: two Reshapes of one value differ in nothing else, nor do two pools that round their size apart.
        # And how a quantised model rounds the result.
        shapes = tuple((g.value(o).shape, g.value(o).quant) for o in node.outputs if o)
        attrs = tuple(sorted((k, _frozen(v)) for k, v in node.attrs.items()))
        key = (node.op, tuple(node.inputs), attrs, shapes)
        if key not in seen:
            seen[key] = node.outputs
        elif not any(o in g.outputs for o in node.outputs):  # an output keeps its own name
            for old, new in zip(node.outputs, seen[key], strict=True):
                g.replace_uses(old, new)
            g.remove(node)
    return g


def _digest(a: np.ndarray) -> bytes:
    """Key of an array's content: its bytes, or their hash if they are many, which saves memory."""
    if a.nbytes <= 64:
        return a.tobytes()
    return hashlib.blake2b(np.ascontiguousarray(a).view(np.uint8).data, digest_size=32).digest()


def _frozen(v: Any) -> Hashable:
    if isinstance(v, np.ndarray):
        return (v.shape, str(v.dtype), _digest(v))
    if isinstance(v, (list, tuple)):
        return tuple(_frozen(x) for x in v)
    return repr(v)
