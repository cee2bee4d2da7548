"""Attention: exponentials as a table over differences of int32 scores. Rotations: one rounding for two products."""

import math

import numpy as np

from mica.ir.graph import Graph, Node
from mica.kernels.attention import FALL, LARGEST, TABLE
from mica.quantise.kernels.arithmetic import OPEN, requant_params
from mica.quantise.kernels.common import emit, quant
from mica.reference import functions

REACH = 12.0  # exp(-12) is 1/5 of a step of a weight


def _attend(g: Graph, out: Graph, node: Node) -> None:
    q, k, v, length = node.inputs
    rows, width = g.value(k).shape[-2:]
    qq, qk, qv, qy = (quant(out, i) for i in (q, k, v, node.outputs[0]))
    step = qq.scale * qk.scale * node.attrs["factor"]  # what 1 of a score is worth
    limit = max(1, min(math.ceil(REACH / step), 2**31 - 1))
    falling = functions.exp(-np.arange(TABLE) * (REACH / (TABLE - 1)))
    most = min(1 << 15, (2**31 - 1) // (255 * rows))
    if most < 256:
        raise ValueError(f"attention over {rows} rows; {2**23 // 255} are supported")
    per = step / REACH * (TABLE - 1) * 256  # of a difference: steps in the table
    shift = 0
    while shift < 31 and limit * round(per * 2 ** (shift + 1)) < 2**32:
        shift += 1
    fall = round(per * 2**shift)
    while limit > 1 and (limit * fall >= 2**32 or limit * fall >> shift > FALL):
        limit -= 1
    fall = min(fall, (FALL << shift) // limit)
    params = {"rows": rows, "width": width, "k_zero": qk.zero_point, "v_zero": qv.zero_point}
    params |= {"limit": limit, "fall": fall, "fall_shift": shift, **requant_params(qv.scale / qy.scale), **OPEN}
    params["more"] = node.attrs["more"]
    if not -6 <= params["shift"] <= 8:
        raise ValueError(f"values {qv.scale / qy.scale:.3g} times as far apart as their means")
    emit(out, node, "attend_s8", [q, k, v, length], [np.rint(most * falling).astype(np.uint16)], params)


def _rotate(g: Graph, out: Graph, node: Node) -> None:
    x, c, s, y = (quant(out, i) for i in (*node.inputs, node.outputs[0]))
    by_c, by_s = x.scale * c.scale / y.scale, x.scale * s.scale / y.scale

    def fits(shift: int) -> bool:
        return LARGEST * (round(by_c * 2**shift) + round(by_s * 2**shift)) + 2 ** (shift - 1) < 2**31

    shift = 30
    while shift > 1 and not fits(shift):
        shift -= 1
    if not fits(shift):
        raise ValueError(f"a rotation of numbers {x.scale / y.scale:.3g} times as far apart as its results")
    params = {"inner": node.attrs["inner"], "c_zero": c.zero_point, "s_zero": s.zero_point}
    params |= {"mult_c": round(by_c * 2**shift), "mult_s": round(by_s * 2**shift), "shift": shift, **OPEN}
    emit(out, node, "rotate_s8", list(node.inputs), [], params)


STEPS = {"Attend": _attend, "Rotate": _rotate}
