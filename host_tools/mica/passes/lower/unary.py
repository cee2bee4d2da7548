"""Functions of one variable: all become Unary, one lookup table each.

y = Relu(x)    =>   y = Unary(x, clip 0..)
y = Clip(x, low, high), computed bounds       =>   y = MinMax(MinMax(x, low), high)
y = Cast(x) to a boolean, to whole numbers    =>   y = Unary(x, not_zero), Unary(x, truncate)
"""

import numpy as np

from mica.ir.graph import Graph, Node
from mica.passes.builder import Builder, Lowering

BOOL = 9  # of TensorProto
SIGNED = (3, 5, 6, 7)


def _clip(low: float | None, high: float | None) -> dict[str, object]:
    return {"function": "clip", "arguments": (low, high)}


def _lower_clip(g: Graph, node: Node, b: Builder) -> None:
    bounds: list[float | None] = [node.attrs.get("min"), node.attrs.get("max")]
    computed = ["", ""]
    for k, name in enumerate(node.inputs[1:3]):
        if name and not g.is_const(name):
            computed[k] = name
        elif name:
            bounds[k] = float(np.asarray(g.data(name)).reshape(-1)[0])
    low, high = bounds
    if low is not None and high is not None and low > high:
        low = high  # ONNX: all results are max then
    x, out = node.inputs[0], node.outputs[0]
    if not any(computed):
        b.emit_to(out, "Unary", [x], _clip(low, high))
        return
    for name, larger, bound in ((computed[0], True, (low, None)), (computed[1], False, (None, high))):
        if name:
            x = b.emit("MinMax", [x, name], b.shape(x), {"larger": larger, "clip": (None, None)})
        elif bound != (None, None):
            x = b.emit("Unary", [x], b.shape(x), _clip(*bound))
    b.emit_to(out, "Reshape", [x])


def _unary(function: str, *arguments: tuple[str, float]) -> Lowering:
    """A lowering to Unary; `arguments` are (attribute, default) in the function's order."""

    def lower(g: Graph, node: Node, b: Builder) -> None:
        args = tuple(float(node.attrs.get(name, default)) for name, default in arguments)
        b.emit_to(node.outputs[0], "Unary", node.inputs[:1], {"function": function, "arguments": args})

    return lower


def _gelu(g: Graph, node: Node, b: Builder) -> None:
    function = "gelu_tanh" if node.attrs.get("approximate", "none") == "tanh" else "gelu"
    b.emit_to(node.outputs[0], "Unary", node.inputs[:1], {"function": function, "arguments": ()})


def _cast(g: Graph, node: Node, b: Builder) -> None:
    to = node.attrs.get("to")
    if to == BOOL:
        function = "not_zero"
    elif to in SIGNED:
        function = "truncate"
        if node.outputs[0] in g.outputs:  # int8 may hold them on a scale of its own
            raise ValueError("a cast to another type than float gives an output; leave the numbers real")
    else:
        raise ValueError("a cast to another type than float; the network must be float throughout")
    b.emit_to(node.outputs[0], "Unary", node.inputs[:1], {"function": function, "arguments": ()})


# Functions without arguments, which have the same name in lower case.
PLAIN = (
    *("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Erf", "Exp", "Floor", "Log"),
    *("Mish", "Round", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh"),
)
LOWERINGS: dict[str, Lowering] = {
    **{name: _unary(name.lower()) for name in PLAIN},
    "Cast": _cast,
    "Celu": _unary("celu", ("alpha", 1.0)),
    "Clip": _lower_clip,
    "Elu": _unary("elu", ("alpha", 1.0)),
    "Gelu": _gelu,
    "HardSigmoid": _unary("hard_sigmoid", ("alpha", 0.2), ("beta", 0.5)),
    "HardSwish": _unary("hard_swish"),
    "LeakyRelu": _unary("leaky_relu", ("alpha", 0.01)),
    "Reciprocal": lambda g, node, b: b.emit_to(
        node.outputs[0], "Unary", node.inputs[:1], {"function": "reciprocal", "arguments": (1.0,)}
    ),
    "Relu": lambda g, node, b: b.emit_to(node.outputs[0], "Unary", node.inputs[:1], _clip(0.0, None)),
    "Selu": _unary("selu", ("alpha", 1.67326319217681884765625), ("gamma", 1.05070102214813232421875)),
    "Shrink": _unary("shrink", ("bias", 0.0), ("lambd", 0.5)),
    "Swish": _unary("swish", ("alpha", 1.0)),
    "ThresholdedRelu": _unary("thresholded_relu", ("alpha", 1.0)),
}
