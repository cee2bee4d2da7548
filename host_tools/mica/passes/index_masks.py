"""A row of numbers compared with an input that is one whole number: a row of a table, for each number one.

GreaterOrEqual(constant of 0..127, length)     =>   Gather(constant [129, 128], length)
Less, LessOrEqual, Greater, Equal              =>   likewise, and with the operands exchanged

Such are the masks of language models: what lies behind the tokens that were seen is left out.
The input stays a row number (`index_inputs`), which may be read as such elsewhere too.
Numbers beyond the constant's largest all give one row, the last.
"""

from collections.abc import Callable

import numpy as np

from mica.ir.graph import Graph, Node
from mica.passes.index_inputs import whole_number

_COMPARE: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "Equal": np.equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
}
_MOST = 1 << 20  # elements of a table


def run(g: Graph) -> Graph:
    producers = g.producers()
    for node in list(g.nodes):
        if node.op not in _COMPARE:
            continue
        for k, x in enumerate(node.inputs):
            data = g.data(node.inputs[1 - k])
            if data is None or data.dtype.kind not in "iu" or data.size == 0 or data.min() < 0:
                continue
            rows = int(data.max()) + 2
            if rows * data.size <= _MOST and g.value(x).size == 1 and whole_number(g, x, producers):
                _look_up(g, node, k, data, rows)
                break
    return g


def _look_up(g: Graph, node: Node, k: int, data: np.ndarray, rows: int) -> None:
    """The comparison of operand k, a number, with `data` becomes a row of a table."""
    x, out = node.inputs[k], node.outputs[0]
    numbers = np.arange(rows).reshape(-1, *[1] * data.ndim)
    operands = (numbers, data[None]) if k == 0 else (data[None], numbers)
    table = g.new_const(f"{out}.table", _COMPARE[node.op](*operands).astype(np.float32))
    row = g.new_value(f"{out}.row", (*g.value(x).shape, *data.shape), "bool")
    shape = g.new_const(f"{out}.shape", np.array(g.value(out).shape, np.int64))
    g.insert_before(node, Node("Gather", node.name, [table, x], [row], {"axis": 0}))
    node.op, node.inputs, node.attrs = "Reshape", [row, shape], {}
