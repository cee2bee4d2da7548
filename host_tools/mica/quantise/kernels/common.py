"""Functions that all quantisers of steps share."""

from collections.abc import Callable

import numpy as np

from mica.ir.graph import Graph, Node, Quant
from mica.kernels import KERNEL_BY_NAME

OFFSET_TABLE = "offset_table"  # of an Embedding and a FullyConnected: table and weights are the same bytes of the file
# (float graph, integer graph to append to, node): raises ValueError with the reason where it cannot be done.
StepQuantiser = Callable[[Graph, Graph, Node], None]


def quant(g: Graph, name: str) -> Quant:
    q = g.value(name).quant
    assert q is not None, name
    return q


def emit(out: Graph, node: Node, kernel: str, inputs: list[str], blobs: list[np.ndarray], params: dict) -> None:
    """Appends the kernel step; blobs become constants named after the node."""
    row = KERNEL_BY_NAME[kernel]
    names = [out.new_const(f"{node.name}.{b}", a) for (b, _), a in zip(row.blobs, blobs, strict=True)]
    assert set(params) == set(row.params), (kernel, params)
    out.nodes.append(Node(kernel, node.name, inputs + names, list(node.outputs), params))


def act(q: Quant, clip: tuple[float | None, float | None]) -> dict[str, int]:
    """Fused clamp, in integers."""

    def bound(v: float | None, default: int) -> int:
        return default if v is None else int(q.quantise(np.array(v)))

    low, high = q.limits
    return {"act_min": bound(clip[0], low), "act_max": bound(clip[1], high)}


def window_params(node: Node, kernel: tuple[int, int]) -> dict[str, int]:
    a = node.attrs
    strides, dilations, pads = a["strides"], a.get("dilations", (1, 1)), a["pads"]
    return {
        "kernel_h": kernel[0],
        "kernel_w": kernel[1],
        "stride_h": strides[0],
        "stride_w": strides[1],
        "dilation_h": dilations[0],
        "dilation_w": dilations[1],
        "pad_top": pads[0],
        "pad_left": pads[1],
    }
