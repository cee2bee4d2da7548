"""Noise that goes on from run to run: the state of features of speech, of energies that are divided by what they were.

x -> pcan_s8 -> y      =>      x, n -> pcan_s8 -> both: y = its rows; n' = its last four, the bytes of the noise

with n and n' paired. All have the scale of y, so that the state begins at its zero point, which is a noise of 0,
or one that is not known yet.
"""

from collections.abc import Iterable

import numpy as np

from mica.ir.graph import Graph, Node, StatePair, Value
from mica.kernels.speech import KEPT

KEEPS = ("pcan_s8", "pcen_s8")  # kernels


def keep(g: Graph, outputs: Iterable[str]) -> list[StatePair]:
    """Rewrites the layers of an integer graph that make `outputs`, and adds the states to its inputs and outputs."""
    asked = set(outputs)
    pairs: list[StatePair] = []
    for at, node in reversed(list(enumerate(g.nodes))):
        if node.op in KEEPS and node.outputs[0] in asked:
            moves, pair = split(g, node)
            g.nodes[at + 1 : at + 1] = moves
            pairs.insert(0, pair)
    g.inputs += [source for source, _ in pairs]
    g.outputs += [result for _, result in pairs]
    return pairs


def split(g: Graph, node: Node) -> tuple[list[Node], StatePair]:
    """Gives one of KEEPS its state; returns the copies behind it."""
    y = g.value(node.outputs[0])
    rows, bands = y.shape[-2:]

    def fresh(suffix: str, n: int) -> str:
        name = g.fresh(f"{y.name}.{suffix}")
        g.values[name] = Value(name, (1, n, bands), "int8", None, y.quant)
        return name

    noise, both, after = fresh("noise", KEPT), fresh("both", rows + KEPT), fresh("noise.next", KEPT)
    node.inputs.insert(1, noise)
    node.outputs[0] = both
    moves = []
    for name, result, begin, n in ((f"{y.name}.of", y.name, 0, rows), (f"{y.name}.keep", after, rows, KEPT)):
        copied = g.new_const(f"{name}.map", np.array([[n * bands, 1]], np.int32))
        moves.append(Node("move_s8", name, [both, copied], [result], {"begin": begin * bands, "rank": 1}))
    return moves, (noise, after)
