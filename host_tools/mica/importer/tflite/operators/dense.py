"""Products of matrices.

FULLY_CONNECTED(x, w [N,K], b)     =>   Gemm(x as [M,K], w, b, transB), activation, in the output's shape
FULLY_CONNECTED(x, computed w)     =>   Add(MatMul(x, Transpose(w)), b)
BATCH_MATMUL(a, b)                 =>   MatMul(a, b), transposed first with adj_x, adj_y
EMBEDDING_LOOKUP(rows, table)      =>   Gather(table, rows)
"""

import math

from mica.importer.tflite import schema
from mica.importer.tflite.net import Net
from mica.importer.tflite.operators.form import Form, Op
from mica.importer.tflite.operators.weights import bias_of, weights_of


def _fully_connected(net: Net, op: Op) -> None:
    x, w = op.i(0), op.i(1)
    ws = net.shape(w)
    if len(ws) != 2 or min(ws) < 1 or math.prod(net.shape(x)) % ws[1] or op["weights_format"] != 0:
        raise ValueError(f"weights of shape {list(ws)} for an input of {list(net.shape(x))}")
    rows = math.prod(net.shape(x)) // ws[1]
    if math.prod(net.shape(op.y)) != rows * ws[0]:
        raise ValueError(f"an output of {list(net.shape(op.y))}; {rows} rows of {ws[0]} are computed")
    flat = net.reshape(net.x(x), (rows, ws[1]))
    if net.tensor(w).data is None:
        y = net.node("MatMul", [flat, net.transpose(net.x(w), (1, 0))])
        if op.i(2) >= 0:
            y = net.node("Add", [y, *bias_of(net, op.i(2), x, None, ws[0])])
    else:
        weights, scales = weights_of(net, w, (0, 1))
        y = net.node("Gemm", [flat, weights, *bias_of(net, op.i(2), x, scales, ws[0])], transB=1)
    y = net.activation(net.reshape(y, net.shape(op.y)), op["activation"])
    net.done(op.y, y, positive=schema.ACTIVATIONS.get(op.integer("activation"), "") in ("RELU", "RELU6"))


def _batch_matmul(net: Net, op: Op) -> None:
    parts = []
    for k, swapped in ((0, op["adj_x"]), (1, op["adj_y"])):
        rank = len(net.shape(op.i(k)))
        if rank < 2:
            raise ValueError(f"an operand of {rank} dimensions")
        x = net.x(op.i(k))
        parts.append(net.transpose(x, [*range(rank - 2), rank - 1, rank - 2]) if swapped else x)
    net.done(op.y, net.node("MatMul", parts))


FORMS = {
    "BATCH_MATMUL": Form(_batch_matmul, "BatchMatMulOptions", (2, 2)),
    "EMBEDDING_LOOKUP": Form(
        lambda net, op: net.done(op.y, net.node("Gather", [net.x(op.i(1)), net.x(op.i(0))], axis=0)), "", (2, 2)
    ),
    "FULLY_CONNECTED": Form(_fully_connected, "FullyConnectedOptions", (2, 3)),
}
