"""A clamp goes into the operator that makes its input.

Unary(Conv2d(x), clip)          =>   Conv2d(x, clip); every operator that `clips` in the table
Unary(MaxPool2d(Conv2d(x)), clip)  =>   MaxPool2d(Conv2d(x, clip)): the maximum commutes with the clamp, and the
                                     convolution's output then needs a smaller range
"""

from mica.ir.graph import Graph
from mica.ir.ops import CORE_BY_NAME

Clip = tuple[float | None, float | None]


def run(g: Graph) -> Graph:
    changed = True
    while changed:
        changed = False
        producers, consumers = g.producers(), g.consumers()
        for node in g.nodes:
            if node.op != "Unary" or node.attrs["function"] != "clip":
                continue
            target = producers.get(node.inputs[0])
            if (
                target is None
                or not CORE_BY_NAME[target.op].clips
                or g.sole_consumer(node.inputs[0], consumers) is None
            ):
                continue
            if not _may_vanish(g, node.inputs[0], node.outputs[0]):
                continue
            while target.op == "MaxPool2d":
                above = producers.get(target.inputs[0])
                if above is None or not CORE_BY_NAME[above.op].clips:
                    break
                if g.sole_consumer(target.inputs[0], consumers) is None or g.value(target.inputs[0]).quant is not None:
                    break
                target = above
            target.attrs["clip"] = intersect(target.attrs["clip"], node.attrs["arguments"])
            producers[node.inputs[0]].outputs = node.outputs  # it makes the clamped value itself
            g.remove(node)
            changed = True
            break
    return g


def _may_vanish(g: Graph, x: str, y: str) -> bool:
    """True where the model does not say how x is rounded, or says the same of y: then clamping integers is the same."""
    return g.value(x).quant is None or g.value(x).quant == g.value(y).quant


def intersect(a: Clip, b: Clip) -> Clip:
    """Clamping to a, then to b, as one clamp."""

    def clamp(v: float) -> float:
        low, high = b
        v = v if low is None else max(v, low)
        return v if high is None else min(v, high)

    low = b[0] if a[0] is None else clamp(a[0])
    high = b[1] if a[1] is None else clamp(a[1])
    return low, high
