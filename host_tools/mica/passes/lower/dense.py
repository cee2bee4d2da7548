"""Matrix products that `passes/dense.py` left: those of two tensors, and with constants of other forms.

y = MatMul(a, b)                    =>   y = MatMul(a, b), batched; a vector is a matrix of one row or column
y = Gemm(a, b, c, alpha, beta)      =>   y = Add(MatMul(a, b) * alpha, c * beta), a transposed first with transA
y = Gemm(a, constant b), transA     =>   y = FullyConnected(Transpose(a)), + c where that is no constant row
"""

import numpy as np

from mica.ir.graph import Graph, Node
from mica.passes import prequantised_weights
from mica.passes.builder import Builder, Lowering
from mica.passes.lower.arithmetic import CLIP, finite_constants


def _matmul(g: Graph, node: Node, b: Builder) -> None:
    finite_constants(g, node)
    left, right = node.inputs
    out, factor = node.outputs[0], float(node.attrs.get("factor", 1.0))
    if g.is_const(right) and len(b.shape(right)) == 2 and len(b.shape(left)) == 1:
        row = b.reshape(left, (1, *b.shape(left)))
        b.emit_to(out, "Reshape", [_dense(g, b, row, np.asarray(g.data(right)) * factor, None, {})])
        return
    if len(b.shape(left)) == 1:
        left = _matrix(g, b, left, (1, *b.shape(left)))
    if len(b.shape(right)) == 1:
        right = _matrix(g, b, right, (*b.shape(right), 1))
    m, n = b.shape(left)[-2], b.shape(right)[-1]
    shape = (*np.broadcast_shapes(b.shape(left)[:-2], b.shape(right)[:-2]), m, n)
    attrs = {"transpose_b": False, "factor": factor, **CLIP}
    b.emit_to(out, "Reshape", [b.emit("MatMul", [left, right], shape, attrs)])


def _matrix(g: Graph, b: Builder, x: str, shape: tuple[int, ...]) -> str:
    """x, constant or not, in another shape."""
    data = g.data(x)
    if data is None:
        return b.reshape(x, shape)
    name = g.new_const(f"{x}.matrix", data.reshape(shape))
    g.value(name).quant = g.value(x).quant
    return name


def _dense(g: Graph, b: Builder, x: str, matrix: np.ndarray, bias: np.ndarray | None, attrs: dict) -> str:
    """x [M, K] times a constant [K, N]."""
    n = matrix.shape[1]
    weights = g.new_const(f"{b.origin}.dense", np.ascontiguousarray(matrix.T, np.float32))
    shift = g.new_const(f"{b.origin}.bias", np.zeros(n, np.float32) if bias is None else bias.astype(np.float32))
    return b.emit("FullyConnected", [x, weights, shift], (*b.shape(x)[:-1], n), {**CLIP, **attrs})


def _broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    """True if ONNX's unidirectional broadcasting extends `shape` to `to`."""
    if len(shape) > len(to):
        return False
    return all(n in (1, m) for n, m in zip(shape[::-1], to[::-1], strict=False))


def _gemm(g: Graph, node: Node, b: Builder) -> None:
    finite_constants(g, node)
    left, right, c = ([*node.inputs, ""])[:3]
    out = node.outputs[0]
    alpha, beta = float(node.attrs.get("alpha", 1.0)), float(node.attrs.get("beta", 1.0))
    if c and not _broadcasts(b.shape(c), b.shape(out)):
        raise ValueError(f"what is added has the shape {list(b.shape(c))}, the product {list(b.shape(out))}")
    if node.attrs.get("transA", 0):
        data = g.data(left)
        left = b.transpose(left, (1, 0)) if data is None else g.new_const(f"{left}.transposed", data.T.copy())
    c_data = g.data(c) if c else None
    matrix = g.data(right)
    if matrix is not None and not g.is_const(left):
        matrix = matrix.T if node.attrs.get("transB", 0) else matrix
        row = None
        if c_data is not None and (c_data.ndim < 2 or c_data.shape[0] == 1):
            row, c = np.broadcast_to(c_data.reshape(-1) * beta, (matrix.shape[1],)), ""
        product = _dense(g, b, left, matrix * alpha, row, prequantised_weights.attributes(node, alpha))
        sign = 1.0
    else:
        shape = (b.shape(left)[0], b.shape(out)[1])
        attrs = {"transpose_b": bool(node.attrs.get("transB", 0)), "factor": abs(alpha), **CLIP}
        product = b.emit("MatMul", [left, right], shape, attrs)
        sign = -1.0 if alpha < 0 else 1.0
    if c and beta != 0:
        b.emit_to(out, "Add", [product, c], {"signs": (sign, beta), **CLIP})
    elif sign < 0:
        b.emit_to(out, "Unary", [product], {"function": "affine", "arguments": (-1.0, 0.0)})
    else:
        b.emit_to(out, "Reshape", [product])


LOWERINGS: dict[str, Lowering] = {"Gemm": _gemm, "MatMul": _matmul}
