"""Functions that all quantisers of steps share."""

from collections.abc import Callable, Sequence

import numpy as np

from mica.ir.graph import Graph, Node, Quant
from mica.kernels import KERNEL_BY_NAME
from mica.quantise.histogram import Range
from mica.quantise.params import from_range
from mica.reference.functions import ceil_log2

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


def reshape(g: Graph, out: Graph, node: Node) -> None:
    """Append a Reshape, which is no step: another name for the same bytes."""
    out.nodes.append(Node("Reshape", node.name, node.inputs[:1], list(node.outputs)))


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


FACTOR_BITS = 21  # |mult| < 2**21: 128 * (a + b) + |offset| then stays below 2**31


def operand(g: Graph, out: Graph, name: str) -> str:
    """An activation, or a constant quantised like one, which the file keeps as a tensor. Its name in `out`."""
    data = g.data(name)
    if data is None:
        return name
    q = g.value(name).quant or from_range(Range(float(data.min()), float(data.max())))
    name = out.new_const(name, q.quantise(data))
    out.value(name).quant = q
    return name


def common_factors(factors: Sequence[float]) -> tuple[list[int], int]:
    """Integers with one shift: factor ~ mult * 2**-shift. Raises ValueError if one is too large."""
    largest = max(abs(f) for f in factors)
    shift = int(np.clip(FACTOR_BITS - 1 - ceil_log2(largest), 0, 30)) if largest > 0 else 0
    mults = [int(np.rint(f * 2.0**shift)) for f in factors]
    if max(abs(m) for m in mults) >= 2**FACTOR_BITS:
        raise ValueError(f"the scales of its operands and its result differ by {largest:.3g}")
    return mults, shift


def temporary(g: Graph, out: Graph, node: Node, like: str, what: str, q: Quant) -> str:
    """A new activation of `out`, with the shape of `like`, between two kernels of one node."""
    name = out.new_value(f"{node.outputs[0]}.{what}", g.value(like).shape, "int8")
    out.value(name).quant = q
    return name


def table(out: Graph, node: Node, x: str, y: str, real: np.ndarray) -> None:
    """y = what `real` gives for each of x's 256 values."""
    emit(out, Node(node.op, node.name, [x], [y]), "lut_s8", [x], [quant(out, y).quantise(real)], {})
