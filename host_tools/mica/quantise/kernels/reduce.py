"""Reductions and normalisations."""

import math

import numpy as np

from mica.ir.graph import Graph, Node, Quant
from mica.kernels.dense import MATMUL_MOST
from mica.kernels.norm import (
    MOST_OF_FACTOR,
    NORM_MOST,
    NORM_RESULT,
    ROOT_MEAN,
    most_spread,
    norm_reach,
    norm_reach_squared,
)
from mica.kernels.reduce import REDUCE_MODES
from mica.quantise.kernels.arithmetic import requant_params
from mica.quantise.kernels.common import StepQuantiser, act, emit, quant
from mica.quantise.kernels.softmax import softmax_table
from mica.reference import functions

LN2 = math.log(2.0)
SHORT = ("deviation",)  # that norm_s8 is written of, which knows "squares" too: quantise/NOTES.md
NORM_MODES = {"deviation": 0, "squares": 1, "absolute": 2}


def _reduce(g: Graph, out: Graph, node: Node) -> None:
    x, mode, factor = node.inputs[0], node.attrs["mode"], node.attrs["factor"]
    qx, qy = quant(out, x), quant(out, node.outputs[0])
    axis, axes = node.attrs["axis"], node.attrs["axes"]
    n, most = (
        math.prod(g.value(x).shape[axis : axis + axes]),
        2**23 if mode in ("sum", "absolute", "log") else MATMUL_MOST,
    )
    if n > most:
        raise ValueError(f"{n} numbers are added up; {most} fit 32 bits")
    # What one unit of the kernel's result is worth.
    unit = {"squares": qx.scale**2, "root": qx.scale * 2.0**-15, "log": LN2 * 2.0**-16}.get(mode, qx.scale)
    # log(scale * sum) = log(scale) + log(sum), which the kernel rounds down.
    bias = (
        int(np.clip(np.rint(2.0**16 / LN2 * float(functions.log(np.array(qx.scale))) + 0.5), -(2**24), 2**24))
        if mode == "log"
        else 0
    )
    params = {"axis": axis, "axes": axes, "mode": REDUCE_MODES.index(mode), "bias": bias}
    params |= {**requant_params(unit * factor / qy.scale), **act(qy, node.attrs["clip"])}
    emit(out, node, "reduce_s8", [x], [], params)


def _extreme(g: Graph, out: Graph, node: Node) -> None:
    a, qy = node.attrs, quant(out, node.outputs[0])
    params = {"axis": a["axis"], "axes": a["axes"], "mode": REDUCE_MODES.index("max" if a["larger"] else "min")}
    params |= {"mult": 0, "shift": 0, "bias": 0, **act(qy, a["clip"])}
    emit(out, node, "reduce_s8", node.inputs[:1], [], params)


def _places(kernel: str, *names: str) -> StepQuantiser:
    """Return a step whose parameters are attributes with these names."""
    return lambda g, out, node: emit(out, node, kernel, node.inputs[:1], [], {k: int(node.attrs[k]) for k in names})


def _layer_norm(g: Graph, out: Graph, node: Node) -> None:
    """norm_s8 of a row with a mean, where 32 bits hold it to a 20th of a step of the result; else layer_norm_s8."""
    x, a = node.inputs[0], node.attrs
    qx, qy = quant(out, x), quant(out, node.outputs[0])
    gamma, beta = (np.asarray(g.data(i), np.float64) / qy.scale for i in node.inputs[1:])
    n = math.prod(g.value(x).shape[a["axis"] :])
    if a["mode"] in SHORT and a["inner"] == 1 and gamma.size == n:
        found = _norm(NORM_MODES[a["mode"]], n, qx, a["epsilon"], gamma, beta + qy.zero_point)
        if found is not None:
            params, terms = found
            emit(out, node, "norm_s8", [x], [terms], {"axis": a["axis"], **params, **act(qy, a["clip"])})
            return
    reach = float(np.max(np.abs(gamma) * norm_reach(n) + np.abs(beta))) + 1
    shift = min(30, math.floor(30.9 - math.log2(reach))) if math.isfinite(reach) else -1
    if shift < 0:
        raise ValueError("its scale or shift is infinite, or too large for the range of its result")
    # The kernel measures in steps of x: n times the deviation, and squares in units of 2**-14.
    epsilon = a["epsilon"] * 2.0**14 / qx.scale**2 * (n * n if a["mode"] == "deviation" else 1)
    whole = int(min(np.rint(epsilon), 2**62 - 1))
    low = whole & 0xFFFFFFFF
    params = {
        "axis": a["axis"],
        "inner": a["inner"],
        "channels": gamma.size,
        "mode": NORM_MODES[a["mode"]],
        "epsilon_low": low - 2**32 if low >= 2**31 else low,
        "epsilon_high": whole >> 32,
        "shift": shift,
        **act(qy, a["clip"]),
    }
    blobs = [np.rint(v * 2.0**shift).astype(np.int32) for v in (gamma, beta)]
    emit(out, node, "layer_norm_s8", [x], blobs, params)


def _norm(
    mode: int, n: int, qx: Quant, epsilon: float, gamma: np.ndarray, beta: np.ndarray
) -> tuple[dict[str, int], np.ndarray] | None:
    """Parameters and terms of norm_s8; gamma and beta in steps of the result, beta counted from -128's 0.
    None: they do not fit."""
    epsilon = epsilon / qx.scale**2 * (n * n if mode == 0 else 1)
    most, reach = most_spread(mode, n, qx.zero_point), norm_reach_squared(mode, n)
    offset = np.rint((beta + 128.5) * 2.0**NORM_RESULT)
    if not most + epsilon + 1 < 2**32 or not epsilon < 2**31 - 1 or not np.max(np.abs(offset)) < 2**30:
        return None
    fraction = min(16, math.floor(math.log2(min((2**32 - 1) / (most + epsilon + 1), (2**31 - 2) / max(epsilon, 1)))))
    # An element is normal times 2**(up - 4 - fraction / 2) * root(63) * factor.
    unit, up = NORM_MOST / math.sqrt(63 * reach), 16
    limit = min(65535, MOST_OF_FACTOR // n) if mode == 0 else 65535
    while unit * 2.0 ** (4 - up + fraction / 2) < limit / 2:
        up -= 1
    factor = math.floor(min(unit * 2.0 ** (4 - up + fraction / 2), limit))
    if not factor >= 1 or up < -24:
        return None
    terms = gamma * 2.0**NORM_RESULT / (2.0 ** (up - 4 - fraction / 2) * math.sqrt(63) * factor * ROOT_MEAN)
    if not np.max(np.abs(terms)) <= 2**15 - 1:
        return None
    params = {"mode": mode, "fraction": fraction, "epsilon": round(epsilon * 2.0**fraction), "factor": factor, "up": up}
    each = bool(np.any(offset != offset[0]))
    columns = np.stack([np.rint(terms), offset], axis=1) if each else np.rint(terms)
    return params | {"each": int(each), "offset": 0 if each else int(offset[0])}, columns.astype(np.int32).reshape(-1)


def _log_softmax(g: Graph, out: Graph, node: Node) -> None:
    """x - max - log(sum of exponentials), or max + that logarithm."""
    x = node.inputs[0]
    qx, qy = quant(out, x), quant(out, node.outputs[0])
    table = softmax_table(qx.scale, g.value(x).shape[-1])
    total = node.op == "LogSumExp"
    # In steps of y: x's step, a power of two under the logarithm, and what does not change: the table's own factor
    # and, where max(x) stands alone, x's zero point.
    step, log = qx.scale / qy.scale, (LN2 if total else -LN2) / qy.scale
    constant = -log * math.log2(float(table[0])) - (qx.zero_point * step if total else 0.0)
    reach = 255 * step + 32 * abs(log) + abs(constant) + 1
    shift = min(30, math.floor(30.9 - math.log2(reach)))
    if shift < 0:
        raise ValueError(f"the scales of its input and its result differ by {step:.3g}")
    params = {
        "sum": int(total),
        "mult": round(step * 2.0**shift),
        "mult_log": round(log * 2.0**shift),
        "offset": round(constant * 2.0**shift) + ((1 << shift) >> 1),
        "shift": shift,
        **act(qy, node.attrs["clip"]),
    }
    emit(out, node, "log_softmax_s8", [x], [table], params)


STEPS = {
    "ArgMax": _places("argmax_s8", "axis", "minimum", "select_last"),
    "TopK": _places("top_k_s8", "axis", "smallest"),
    "Extreme": _extreme,
    "LayerNorm": _layer_norm,
    "LogSoftmax": _log_softmax,
    "LogSumExp": _log_softmax,
    "Reduce": _reduce,
}
