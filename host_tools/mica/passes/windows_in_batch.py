"""Windows of one picture that a model puts into the batch axis are stacked, so that one convolution computes them all.

y = Conv(x), x [N, C, H, ..]   =>   s = Conv(the windows below each other, each with its pads)
                                    y = the first rows of each window in s
y = ConvTranspose(x)           =>   the same with rows of zeros between windows, so that their outputs do not overlap

Swin, TinyViT and EfficientViT write such windows, SPACE_TO_BATCH_ND of TensorFlow Lite makes them, and Conv-TasNet has
a voice in each. Functions behind the Conv are moved before the cut. Rows between two windows are computed and dropped.
"""

import numpy as np

from mica.ir.graph import Graph, Node
from mica.passes.drop_identity import bypass
from mica.passes.lower.convolution import pads_before
from mica.passes.lower.windows import window

MOST_WINDOWS = 256
_FUNCTIONS = ("Clip", "HardSwish", "LeakyRelu", "Relu", "Sigmoid", "Tanh", "Unary")


def run(g: Graph) -> Graph:
    if any(g.value(name).shape[:1] != (1,) for name in g.inputs):  # several samples of the caller's
        return g
    for node in list(g.nodes):
        stack = {"Conv": _stack, "ConvTranspose": _stack_transposed}.get(node.op)
        x = g.value(node.inputs[0]).shape
        if stack and len(x) in (3, 4) and 1 < x[0] <= MOST_WINDOWS and g.is_const(node.inputs[1]):
            stack(g, node, x)
    return g


def _stack(g: Graph, node: Node, shape: tuple[int, ...]) -> None:
    (n, _, rows, *width), (_, out_channels, out_rows, *out_width) = shape, g.value(node.outputs[0]).shape
    kernel = g.value(node.inputs[1]).shape[2:]
    sides = window(node, shape[2:], (out_rows, *out_width), kernel)
    first = 2 - len(kernel)  # of the two axes of a window; a row of numbers is a picture of one line
    above, below = sides["pads"][first], sides["pads"][2 + first]
    stride, reach = sides["strides"][first], (kernel[0] - 1) * sides["dilations"][first] + 1
    height = -(-(rows + above + below) // stride) * stride  # of a window, so that the next one's outputs begin at a row
    _below_each_other(g, node, above, height)
    beside = [sides["pads"][1], sides["pads"][3]] if width else []
    node.attrs |= {"auto_pad": "NOTSET", "pads": [0, *beside[:1], max(0, reach - stride), *beside[1:]]}
    _cut(g, node, (out_channels, n, height // stride, *out_width), 0, out_rows)


def _stack_transposed(g: Graph, node: Node, shape: tuple[int, ...]) -> None:
    (n, _, rows, *_), (_, out_channels, out_rows, *out_width) = shape, g.value(node.outputs[0]).shape
    kernel = g.value(node.inputs[1]).shape[2:]
    strides, dilations = (list(node.attrs.get(a, [1] * len(kernel))) for a in ("strides", "dilations"))
    first, *beside = pads_before(node, shape[2:], (out_rows, *out_width), kernel, strides, dilations)
    whole = max((rows - 1) * strides[0] + (kernel[0] - 1) * dilations[0] + 1, first + out_rows)
    height = -(-whole // strides[0])
    _below_each_other(g, node, 0, height)
    for sizes in ("output_padding", "output_shape"):  # the output's own shape has them
        node.attrs.pop(sizes, None)
    node.attrs |= {"auto_pad": "NOTSET", "pads": [0, *beside, 0, *beside]}
    _cut(g, node, (out_channels, n, height * strides[0], *out_width), first, out_rows)


def _below_each_other(g: Graph, node: Node, above: int, height: int) -> None:
    """Windows [N, C, rows, ..] that `node` reads => [1, C, N * height, ..], with `above` rows of zeros before each."""
    n, channels, rows, *width = g.value(node.inputs[0]).shape
    swap = [1, 0, *range(2, len(width) + 3)]
    x = _before(g, node, "Transpose", [node.inputs[0]], (channels, n, rows, *width), perm=swap)
    if height != rows:
        none = [0] * len(width)
        pads = np.array([0, 0, above, *none, 0, 0, height - rows - above, *none])
        inputs = [x, g.new_const(f"{x}.pads", pads), g.new_const(f"{x}.zero", np.zeros((), np.float32))]
        x = _before(g, node, "Pad", inputs, (channels, n, height, *width))
    node.inputs[0] = _reshaped(g, node, x, (1, channels, n * height, *width))


def _cut(g: Graph, conv: Node, apart: tuple[int, ...], start: int, rows: int) -> None:
    """Gives readers of `conv`, and of the functions behind it, the rows of each window.
    apart: the shape before the cut."""
    functions = _functions(g, conv)
    for f in functions:
        bypass(g, f)
    y, stacked = conv.outputs[0], (1, apart[0], apart[1] * apart[2], *apart[3:])
    x = conv.outputs[0] = g.new_value(f"{y}.windows", stacked)
    last = Node("Transpose", conv.name, [], [y], {"perm": [1, 0, *range(2, len(apart))]})
    g.nodes.insert(g.index(conv) + 1, last)
    for f in functions:
        f.inputs[0], x = x, g.new_value(f"{y}.windows", stacked)
        f.outputs = [x]
        g.insert_before(last, f)
    x = _reshaped(g, last, x, apart)
    ends = [g.new_const(f"{y}.rows", np.array([v])) for v in (start, start + rows, 2)]
    last.inputs = [_before(g, last, "Slice", [x, *ends], (*apart[:2], rows, *apart[3:]))]


def _functions(g: Graph, conv: Node) -> list[Node]:
    """Functions of single elements that alone read `conv`, also behind transposes."""
    found, x, consumers = [], conv.outputs[0], g.consumers()
    while (after := g.sole_consumer(x, consumers)) is not None:
        if after.op in _FUNCTIONS and all(g.is_const(i) for i in after.inputs[1:] if i):
            found.append(after)
        elif after.op != "Transpose":
            break
        x = after.outputs[0]
    return found


def _reshaped(g: Graph, node: Node, x: str, shape: tuple[int, ...]) -> str:
    return _before(g, node, "Reshape", [x, g.new_const(f"{x}.shape", np.array(shape))], shape)


def _before(g: Graph, node: Node, op: str, inputs: list[str], shape: tuple[int, ...], **attrs: object) -> str:
    """A new operator in front of a node; its output."""
    y = g.new_value(f"{inputs[0]}.{op}", shape)
    g.insert_before(node, Node(op, node.name, inputs, [y], attrs))
    return y
