"""Operators of the domain com.microsoft that ONNX Runtime's optimiser of transformers writes, by ONNX's own operators.

    y = Gelu(x), BiasGelu, FastGelu, QuickGelu           =>   the functions that they stand for
    y = FusedMatMul(a, b)                                =>   y = MatMul(a or its transpose, b likewise) * alpha
    y, , , s = SkipLayerNormalization(x, skip)           =>   s = x + skip; y = LayerNormalization(s)
    y = SimplifiedLayerNormalization(x), Skip...         =>   y = x / Sqrt(ReduceMean(x * x) + epsilon) * scale
    y = RotaryEmbedding(x, positions, cosines, sines)    =>   rows of the tables by position,
                                                              halves turned against each other
    y, k', v' = GroupQueryAttention(q, k, v, k0, v0, p)  =>   k' = TensorScatter(k0, k, p), v' likewise;
                                                              y = attention over places 0 to p

ONNX Runtime documents them (docs/ContribOperators.md there).
GroupQueryAttention takes one token a step, of one batch, over caches of a fixed length that it writes in place,
as ONNX Runtime does where past and present share their buffer.
"""

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import onnx

from mica.importer.expand.writer import Writer

DOMAIN = "com.microsoft"
_SIMPLE_NORM = "SimplifiedLayerNormalization"


def _number(n: Writer, value: float) -> str:
    return n.constant("number", np.array(value, np.float32))


def _integers(n: Writer, *values: int) -> str:
    return n.constant("shape", np.array(values, np.int64))


def _integer(n: Writer, name: str, default: int = 0) -> int:
    return int(n.attrs.get(name, default))


def _float(n: Writer, name: str, default: float) -> float:
    return float(n.attrs.get(name, default))


# ---- functions


def _error_gelu(n: Writer, x: str) -> None:
    inner = n.emit("Erf", [n.emit("Div", [x, _number(n, math.sqrt(2))])])
    n.emit("Mul", [n.emit("Mul", [x, n.emit("Add", [inner, _number(n, 1)])]), _number(n, 0.5)], n.output(0))


def _fast_gelu(n: Writer) -> None:
    x = n.emit("Add", n.i[:2]) if n.i[1] else n.i[0]
    cubed = n.emit("Mul", [n.emit("Mul", [n.emit("Mul", [x, x]), x]), _number(n, 0.044715)])
    inner = n.emit("Tanh", [n.emit("Mul", [n.emit("Add", [x, cubed]), _number(n, math.sqrt(2 / math.pi))])])
    n.emit("Mul", [n.emit("Mul", [x, n.emit("Add", [inner, _number(n, 1)])]), _number(n, 0.5)], n.output(0))


def _quick_gelu(n: Writer) -> None:
    x = n.i[0]
    n.emit("Mul", [x, n.emit("Sigmoid", [n.emit("Mul", [x, _number(n, _float(n, "alpha", 1.702))])])], n.output(0))


# ---- products and norms


def _matmul(n: Writer) -> None:
    operands = []
    for x, operand in zip(n.i[:2], "AB", strict=True):
        perm = [*range(len(n.shape(x)))]
        if n.attrs.get(f"transBatch{operand}"):  # [rows, batch.., columns] => [batch.., rows, columns]
            perm.insert(-1, perm.pop(0))
        if n.attrs.get(f"trans{operand}") and len(perm) > 1:
            perm[-2:] = perm[:-3:-1]
        operands.append(n.emit("Transpose", [x], perm=perm) if perm != sorted(perm) else x)
    alpha = _float(n, "alpha", 1.0)
    y = n.emit("MatMul", operands, "" if alpha != 1 else n.output(0))
    if alpha != 1:
        n.emit("Mul", [y, _number(n, alpha)], n.output(0))


def _norm(n: Writer, x: str, gamma: str, beta: str, epsilon: float, simple: bool) -> None:
    """Over the last axis. simple: without the mean."""
    if not simple:
        mean = n.mean(x)
        x = n.emit("Sub", [x, mean])
    spread = n.mean(n.emit("Mul", [x, x]))
    root = n.emit("Sqrt", [n.emit("Add", [spread, _number(n, epsilon)])])
    y = n.emit("Mul", [n.emit("Div", [x, root]), gamma], "" if beta else n.output(0))
    if beta:
        n.emit("Add", [y, beta], n.output(0))


def _skip_norm(n: Writer, simple: bool = False) -> None:
    if n.output(1) or n.output(2):
        raise ValueError("mean and deviation as outputs; the norm and the sum are supported")
    x, skip, gamma = n.i[:3]
    beta, bias = ("", n.i[3]) if simple else n.i[3:5]
    total = n.emit("Add", [x, skip], "" if bias else n.output(3))
    if bias:
        total = n.emit("Add", [total, bias], n.output(3))
    _norm(n, total, gamma, beta, _float(n, "epsilon", 1e-12), simple)


def _simple_norm(n: Writer) -> None:
    _last_axis(n)
    _norm(n, n.i[0], n.i[1], "", _float(n, "epsilon", 1e-5), True)


def _layer_norm(n: Writer) -> None:
    _last_axis(n)
    _norm(n, n.i[0], n.i[1], n.i[2], _float(n, "epsilon", 1e-5), False)


def _last_axis(n: Writer) -> None:
    rank = len(n.shape(n.i[0]))
    if _integer(n, "axis", -1) not in (-1, rank - 1):
        raise ValueError(f"axis {_integer(n, 'axis', -1)}; the last one is supported")
    if n.output(1):
        raise ValueError("the deviation as an output; the norm is supported")


# ---- positions and attention


def _turned(
    n: Writer, x: str, shape: tuple[int, int, int], tables: tuple[str, str], rows: str, output: str = ""
) -> str:
    """x [1, S, heads * size], shape is (S, heads, size), its heads turned by what the tables have in `rows` [1, S];
    the other numbers of a head stay."""
    length, heads, size = shape
    half = n.shape(tables[0])[-1]
    cosines, sines = (
        n.emit("Reshape", [n.emit("Gather", [t, rows], axis=0), _integers(n, 1, length, 1, half)]) for t in tables
    )
    whole = x = n.emit("Reshape", [x, _integers(n, 1, *shape)])
    if 2 * half < size:
        x = _part(n, whole, 0, 2 * half)
    if n.attrs.get("interleaved", n.attrs.get("rotary_interleaved", 0)):
        pairs = n.emit("Reshape", [x, _integers(n, 1, length, heads, half, 2)])
        x = n.emit(
            "Reshape", [n.emit("Transpose", [pairs], perm=[0, 1, 2, 4, 3]), _integers(n, 1, length, heads, 2 * half)]
        )
    a, b = _part(n, x, 0, half), _part(n, x, half, 2 * half)
    first = n.emit("Sub", [n.emit("Mul", [a, cosines]), n.emit("Mul", [b, sines])])
    second = n.emit("Add", [n.emit("Mul", [a, sines]), n.emit("Mul", [b, cosines])])
    y = n.emit("Concat", [first, second], axis=3)
    if n.attrs.get("interleaved", n.attrs.get("rotary_interleaved", 0)):
        pairs = n.emit("Reshape", [y, _integers(n, 1, length, heads, 2, half)])
        y = n.emit(
            "Reshape", [n.emit("Transpose", [pairs], perm=[0, 1, 2, 4, 3]), _integers(n, 1, length, heads, 2 * half)]
        )
    if 2 * half < size:
        y = n.emit("Concat", [y, _part(n, whole, 2 * half, size)], axis=3)
    return n.emit("Reshape", [y, _integers(n, 1, length, heads * size)], output)


def _part(n: Writer, x: str, begin: int, end: int) -> str:
    return n.emit("Slice", [x, _integers(n, begin), _integers(n, end), _integers(n, 3)])


def _rotary(n: Writer) -> None:
    x, positions, cosines, sines = n.i[:4]
    shape = n.shape(x)
    half = n.shape(cosines)[-1]
    length = shape[-2]
    if shape[0] != 1 or len(shape) not in (3, 4):
        raise ValueError(f"an input of shape {list(shape)}; a batch of 1 is supported")
    if _float(n, "scale", 1.0) != 1.0 or n.attrs.get("is_packed_batching"):
        raise ValueError("scale or is_packed_batching; positions of one text are supported")
    if math.prod(n.shape(positions)) == 1 and length > 1:  # the place of the first
        first = n.value(positions)
        if first is None:
            raise ValueError("the place of the first of several rows as an input; give the place of each, [1, rows]")
        positions = n.constant("positions", int(first.reshape(-1)[0]) + np.arange(length).reshape(1, length))
    else:
        positions = n.emit("Reshape", [positions, _integers(n, 1, length)])
    if len(shape) == 4:
        _, heads, _, size = shape
        rows = n.emit("Reshape", [n.emit("Transpose", [x], perm=[0, 2, 1, 3]), _integers(n, 1, length, heads * size)])
        y = _turned(n, rows, (length, heads, size), (cosines, sines), positions)
        y = n.emit("Reshape", [y, _integers(n, 1, length, heads, size)])
        n.emit("Transpose", [y], n.output(0), perm=[0, 2, 1, 3])
        return
    size = 2 * half
    if n.attrs.get("rotary_embedding_dim"):
        if not n.attrs.get("num_heads"):
            raise ValueError("rotary_embedding_dim without num_heads")
        size = shape[2] // _integer(n, "num_heads")
    if shape[2] % size:
        raise ValueError(f"rows of {shape[2]} in heads of {size}")
    _turned(n, x, (length, shape[2] // size, size), (cosines, sines), positions, n.output(0))


def _grouped(n: Writer) -> None:
    q, k, v, past_k, past_v, position, _, cosines, sines = n.i[:9]
    heads, groups = _integer(n, "num_heads"), _integer(n, "kv_num_heads")
    for name, plain in (("local_window_size", -1), ("softcap", 0.0), ("smooth_softmax", 0)):
        if n.attrs.get(name, plain) != plain:
            raise ValueError(f"{name} {n.attrs[name]}; attention over all rows so far is supported")
    if any(n.i[9:]):
        raise ValueError("an input behind sin_cache; none is supported")
    batch, length, wide = n.shape(q)
    if batch != 1 or length != 1:
        raise ValueError(f"queries of shape {list(n.shape(q))}; one batch and one token a step are supported")
    if not past_k or not past_v or 0 in n.shape(past_k):
        raise ValueError("no past_key and past_value of a fixed length; export the model with caches that are shared")
    rows = n.shape(past_k)[2]
    if not k:  # all in one
        size = wide // (heads + 2 * groups)
        places = np.cumsum([0, heads, groups, groups]) * size
        parts = [(q, int(a), int(b)) for a, b in pairwise(places)]
        q, k, v = (n.emit("Slice", [x, _integers(n, a), _integers(n, b), _integers(n, 2)]) for x, a, b in parts)
    else:
        size = wide // heads
    at = n.emit("Reshape", [position, _integers(n, 1)])
    if n.attrs.get("do_rotary"):
        place = n.emit("Reshape", [position, _integers(n, 1, 1)])
        q = _turned(n, q, (1, heads, size), (cosines, sines), place)
        k = _turned(n, k, (1, groups, size), (cosines, sines), place)
    shape = _integers(n, 1, groups, 1, size)
    k, v = (n.emit("Reshape", [x, shape]) for x in (k, v))
    k = n.emit("TensorScatter", [past_k, k, at], n.output(1), axis=2)
    v = n.emit("TensorScatter", [past_v, v, at], n.output(2), axis=2)
    scale = _float(n, "scale", 0.0) or 1 / math.sqrt(size)
    q = n.emit("Reshape", [q, _integers(n, 1, groups, heads // groups, size)])
    scores = n.emit("MatMul", [q, n.emit("Transpose", [k], perm=[0, 1, 3, 2])])
    scores = n.emit("Mul", [scores, _number(n, scale)])
    unseen = n.emit("Greater", [n.constant("places", np.arange(rows, dtype=np.int32)), at])
    scores = n.emit("Where", [unseen, _number(n, -np.inf), scores])
    y = n.emit("MatMul", [n.emit("Softmax", [scores], axis=-1), v])
    n.emit("Reshape", [y, _integers(n, 1, 1, heads * size)], n.output(0))


FORMS: dict[str, Callable[[Writer], None]] = {
    "BiasGelu": lambda n: _error_gelu(n, n.emit("Add", n.i[:2])),
    "FastGelu": _fast_gelu,
    "FusedMatMul": _matmul,
    "Gelu": lambda n: _error_gelu(n, n.i[0]),
    "GroupQueryAttention": _grouped,
    "LayerNormalization": _layer_norm,
    "QuickGelu": _quick_gelu,
    "RotaryEmbedding": _rotary,
    _SIMPLE_NORM: _simple_norm,
    "SkipLayerNormalization": _skip_norm,
    "SkipSimplifiedLayerNormalization": lambda n: _skip_norm(n, simple=True),
}


def name_domain(model: onnx.ModelProto) -> bool:
    """Moves ONNX Runtime's own operators out of ONNX's domain, where it registers them, too. True if there are any."""
    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 0)
    own = (_SIMPLE_NORM, "LayerNormalization") if opset < 17 else (_SIMPLE_NORM,)
    found = [n for n in model.graph.node if n.op_type in own and n.domain in ("", "ai.onnx")]
    for node in found:
        node.domain = DOMAIN
    if found and all(o.domain != DOMAIN for o in model.opset_import):
        model.opset_import.append(onnx.helper.make_opsetid(DOMAIN, 1))
    return bool(found)
