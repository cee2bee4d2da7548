"""Steps that read or make int16: one for each operator that `passes/wide.py` leaves in 16 bits."""

import numpy as np

from mica.format.schema import SHIFT_MIN
from mica.format.values import HIGH16, LOW16, clip_s16
from mica.ir.graph import Graph, Node, Quant
from mica.kernels.wide import EXP_BITS, LUT_BITS, REACH_LIMIT, reach_of
from mica.quantise.kernels.arithmetic import requant_params
from mica.quantise.kernels.common import StepQuantiser, act, emit, quant, reshape, window_params
from mica.quantise.kernels.linear import given_integers, weight_scales
from mica.quantise.kernels.pooling import divisors
from mica.quantise.params import quantise_multiplier
from mica.reference import functions, unary
from mica.reference.functions import ceil_log2

ONE_PIXEL = {"kernel_h": 1, "kernel_w": 1, "stride_h": 1, "stride_w": 1, "dilation_h": 1, "dilation_w": 1}
NO_MEAN: list[np.ndarray] = [np.zeros(0, np.int32), np.zeros(0, np.int8)]  # constants of a pool that takes the largest
TIE = 2.0**-30  # more than a multiplier rounds: a mean half-way between two integers is not below that
WITHOUT_TABLE = ("affine", "clip", "quantise", "quantise16")  # functions of one variable that binary_s16 computes
LAST = 0.499  # of a step, that rounds to the last integer
CLOSE = 0.15  # steps that lines between the entries of a table may be off, before rounding


def factors16(real: np.ndarray, reach: np.ndarray, short: bool) -> tuple[np.ndarray, np.ndarray]:
    """mult and shift of factors whose products with sums up to `reach` fit 64 bits.

    short: mult has the 15 bits that TensorFlow Lite's reference convolutions leave of it,
    so that answers are equal to theirs.
    """
    mult, shift = (a.astype(np.int64) for a in quantise_multiplier(real))
    if short:
        mult = np.minimum((mult + 2**15) >> 16, 2**15 - 1) << 16
    most = REACH_LIMIT // ((reach >> 16) + 1)
    while np.any(over := (mult > most) & (shift > SHIFT_MIN)):
        mult, shift = np.where(over, (mult + 1) >> 1, mult), np.where(over, shift - 1, shift)
    if np.any(mult > most):
        raise ValueError(f"a scale ratio of {float(np.max(real)):.3g} is too large to compute with")
    return mult.astype(np.int32), shift.astype(np.int8)


def linear(g: Graph, out: Graph, node: Node, x: str, weights: np.ndarray, params: dict[str, int]) -> None:
    """weights [Cout, KH, KW, Cin / groups], float; the constants of conv2d_s16."""
    qx, qy = quant(out, x), quant(out, node.outputs[0])
    b = np.asarray(g.data(node.inputs[2]), np.float64)
    rows = weights.reshape(weights.shape[0], -1).astype(np.float64)
    given = node.attrs.get("weight_steps")
    if given is None:
        steps = weight_scales(rows, np.zeros_like(b), qx, qy)
        q = np.rint(rows / steps[:, None]).astype(np.int8)
    else:
        q = given_integers(rows, given)
        steps = np.where(np.any(q, axis=1), given, weight_scales(rows, b, qx, qy))  # zeros are zeros on any scale
    bias = np.rint(b / (qx.scale * steps))
    if np.any(np.abs(bias) >= 2.0**31):
        raise ValueError("a bias that 32 bits do not hold, in steps of its input and weights")
    whole = bias.astype(np.int32)
    mult, shift = factors16(qx.scale * steps / qy.scale, reach_of(q, whole), node.op != "FullyConnected")
    blobs = [q.reshape(weights.shape), whole, mult, shift]
    emit(out, node, "conv2d_s16", [x], blobs, {**params, **act(qy, node.attrs["clip"])})


def _conv(g: Graph, out: Graph, node: Node) -> None:
    w = np.asarray(g.data(node.inputs[1]))
    params = window_params(node, (w.shape[1], w.shape[2]))
    linear(g, out, node, node.inputs[0], w, {**params, "groups": node.attrs["groups"]})


def _depthwise(g: Graph, out: Graph, node: Node) -> None:
    """Emit a convolution of as many groups as there are channels."""
    w = np.asarray(g.data(node.inputs[1]))
    params = window_params(node, (w.shape[1], w.shape[2]))
    groups = g.value(node.inputs[0]).shape[3]
    linear(g, out, node, node.inputs[0], w[..., None], {**params, "groups": groups})


def _fully_connected(g: Graph, out: Graph, node: Node) -> None:
    """Reshape, a convolution of a row of pixels by a window of one, Reshape."""
    x, y = node.inputs[0], node.outputs[0]
    w = np.asarray(g.data(node.inputs[1]))
    n, k = w.shape
    rows = g.value(x).size // k
    row = _like(out, f"{y}.row", (1, 1, rows, k), quant(out, x))
    made = _like(out, f"{y}.made", (1, 1, rows, n), quant(out, y))
    out.nodes.append(Node("Reshape", node.name, [x], [row]))
    inner = Node(node.op, node.name, node.inputs, [made], node.attrs)
    linear(g, out, inner, row, w.reshape(n, 1, 1, k), {**ONE_PIXEL, "pad_top": 0, "pad_left": 0, "groups": 1})
    out.nodes.append(Node("Reshape", node.name, [made], [y]))


def _like(out: Graph, name: str, shape: tuple[int, ...], q: Quant) -> str:
    name = out.new_value(name, shape, q.dtype)
    out.value(name).quant = q
    return name


def _max_pool(g: Graph, out: Graph, node: Node) -> None:
    qy = quant(out, node.outputs[0])
    params = {**window_params(node, node.attrs["kernel"]), "largest": 1, **act(qy, node.attrs["clip"])}
    emit(out, node, "pool_s16", node.inputs[:1], NO_MEAN, params)


def _average_pool(g: Graph, out: Graph, node: Node) -> None:
    x, y = node.inputs[0], node.outputs[0]
    qx, qy = quant(out, x), quant(out, y)
    mult, shift = quantise_multiplier(qx.scale / (qy.scale * divisors(g, node)) * (1 + TIE))
    params = {**window_params(node, node.attrs["kernel"]), "largest": 0, **act(qy, node.attrs["clip"])}
    emit(out, node, "pool_s16", [x], [mult, shift], params)


def binary_params(a: float, b: float, ab: float) -> dict[str, int]:
    """Parameters of binary_s16, without its clamp: real factors of a, b and a * b, each mult * 2**-shift."""
    largest = max(abs(a), abs(b), abs(ab))
    shift = min(30 - ceil_log2(largest), 62) if largest > 0 else 1
    if shift < 1:
        raise ValueError(f"the scales of its operands and its result differ by {largest:.3g}")
    names = {"mult_a": a, "mult_b": b, "mult_ab": ab}
    return {**{name: int(np.rint(f * 2.0**shift)) for name, f in names.items()}, "shift": shift}


def operand(g: Graph, out: Graph, name: str) -> str:
    """An activation, or a constant as int16, which the file keeps as a tensor."""
    data = g.data(name)
    if data is None:
        return name
    largest = float(np.abs(data).max())
    q = Quant(float(np.float32(largest / HIGH16)) or 1.0, 0, 16)
    name = out.new_const(name, q.quantise(data))
    out.value(name).quant = q
    return name


def _add(g: Graph, out: Graph, node: Node) -> None:
    names = [operand(g, out, i) for i in node.inputs]
    (a, b), qy = (quant(out, n) for n in names), quant(out, node.outputs[0])
    signs = node.attrs["signs"]
    params = binary_params(signs[0] * a.scale / qy.scale, signs[1] * b.scale / qy.scale, 0)
    emit(out, node, "binary_s16", names, [], {**params, **act(qy, node.attrs["clip"])})


def _mul(g: Graph, out: Graph, node: Node) -> None:
    names = [operand(g, out, i) for i in node.inputs]
    (a, b), qy = (quant(out, n) for n in names), quant(out, node.outputs[0])
    params = binary_params(0, 0, a.scale * b.scale / qy.scale)
    emit(out, node, "binary_s16", names, [], {**params, **act(qy, node.attrs["clip"])})


def rescaled(out: Graph, node: Node, x: str, factor: float, clamp: dict[str, int]) -> None:
    emit(out, node, "binary_s16", [x, x], [], {**binary_params(factor, 0, 0), **clamp})


def _between(g: Graph, out: Graph, node: Node) -> None:
    """The same real numbers as other integers."""
    x, y = node.inputs[0], node.outputs[0]
    qx, qy = quant(out, x), quant(out, y)
    if qx.bits == qy.bits:
        rescaled(out, node, x, qx.scale / qy.scale, act(qy, (None, None)))
        return
    params = {**requant_params(qx.scale / qy.scale), **act(qy, (None, None))}
    emit(out, node, "narrow_s8" if qx.bits == 16 else "widen_s16", [x], [], params)


def _unary(g: Graph, out: Graph, node: Node) -> None:
    x, y = node.inputs[0], node.outputs[0]
    qx, qy = quant(out, x), quant(out, y)
    function, arguments = node.attrs["function"], node.attrs["arguments"]
    if function in ("quantise", "quantise16"):
        _between(g, out, node)
    elif function == "clip":
        rescaled(out, node, x, qx.scale / qy.scale, act(qy, arguments))
    elif function == "affine":
        _affine(g, out, node, *arguments)
    else:
        looked_up(out, node, x, table_of(ideal_of(function, arguments, qx, qy))[0])


def looked_up(out: Graph, node: Node, x: str, table: np.ndarray) -> None:
    emit(out, node, "lut_s16", [x], [table], {"bits": bits_of(table)})


def _affine(g: Graph, out: Graph, node: Node, factor: float, shift: float) -> None:
    """A product with a number and a sum with another, rounded once."""
    x, y = node.inputs[0], node.outputs[0]
    qy = quant(out, y)
    more, step = x, 0.0
    if shift:
        number = g.new_const(f"{y}.shift", np.full((1,) * len(g.value(x).shape), shift))
        more = operand(g, out, number)
        step = quant(out, more).scale / qy.scale
    params = binary_params(factor * quant(out, x).scale / qy.scale, step, 0)
    emit(out, node, "binary_s16", [x, more], [], {**params, **act(qy, (None, None))})


def ideal_of(function: str, arguments: tuple[float, ...], qx: Quant, qy: Quant) -> np.ndarray:
    """[2**16 + 1]: the function of each int16, and of the integer behind them, in steps of y."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        real = np.asarray(unary.apply(function, np.arange(-(2**15), 2**15 + 1) * qx.scale, arguments), np.float64)
        return np.clip(np.nan_to_num(real) / qy.scale, LOW16 - LAST, HIGH16 + LAST)


def off_by(values: np.ndarray, ideal: np.ndarray) -> np.ndarray:
    """[2**16]: lines between the values, less what they stand for."""
    at = (len(ideal) - 1) // (len(values) - 1)
    u = np.arange(len(ideal) - 1)
    lines: np.ndarray = np.interp(u, np.arange(len(values)) * at, values) - ideal[:-1]
    return lines


def values_of(ideal: np.ndarray, bits: int, bends: np.ndarray | None = None) -> np.ndarray:
    """[2**bits + 1]: ends of lines. Where the function bends, lines between values of its own lie on one side of it,
    so these move by half of what is missing. bends [2**bits]: along which lines that is so."""
    at = 1 << (16 - bits)
    middle = off_by(ideal[::at], ideal)[at // 2 :: at]
    if bends is not None:
        middle = np.where(bends, middle, 0)
    moved: np.ndarray = ideal[::at] - (np.append(middle[:1], middle) + np.append(middle, middle[-1:])) / 4
    return moved


def table_of(ideal: np.ndarray) -> tuple[np.ndarray, bool]:
    """int16 [2**bits + 1]: as few entries as lines between them are close to the function, at all integers;
    whether they are."""
    for bits in range(LUT_BITS[0] + 4, LUT_BITS[1] + 1):
        values = values_of(ideal, bits)
        close = bool(np.abs(off_by(values, ideal)).max() < CLOSE)
        if close:
            break
    return clip_s16(np.rint(values)).astype(np.int16), close


def bits_of(table: np.ndarray) -> int:
    return (len(table) - 1).bit_length() - 1


def _softmax(g: Graph, out: Graph, node: Node) -> None:
    x = node.inputs[0]
    scale, length = quant(out, x).scale, g.value(x).shape[-1]
    places = min(EXP_BITS, 31 - int(length - 1).bit_length())
    d = np.arange(256.0)
    table = np.concatenate([2.0**EXP_BITS * functions.exp(-256 * scale * d), 2.0**places * functions.exp(-scale * d)])
    emit(out, node, "softmax_s16", [x], [np.rint(table).astype(np.uint32)], {})


STEPS: dict[str, StepQuantiser] = {
    "Add": _add,
    "AveragePool2d": _average_pool,
    "Conv2d": _conv,
    "DepthwiseConv2d": _depthwise,
    "FullyConnected": _fully_connected,
    "MaxPool2d": _max_pool,
    "Mul": _mul,
    "Reshape": reshape,
    "Softmax": _softmax,
    "Unary": _unary,
}
