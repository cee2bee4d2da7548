"""A convolution before a global pool in groups of channels: its output,
of all channels at once the largest tensor of many networks, is then there one group at a time.

    y = conv(x), z = global pool(y)   =>   y0 = conv(x, channels 0-63), z0 = pool(y0), y1 = conv(x, channels 64-127),
                                           ...
                                           z = Join(z0, z1, ...)

Each output channel is computed as before, so z has the same bytes.
"""

from mica.format.schema import BLOB_ALIGN
from mica.ir.graph import Graph, Node

SIZES = (512, 256, 128, 64)  # channels of a group; below, kernels lose more than the memory is worth


def cuttable(g: Graph) -> list[tuple[Node, Node]]:
    """(convolution, global pool) whose tensor between them has no other reader."""
    found = []
    consumers, makers = g.consumers(), g.producers()
    for pool in g.nodes:
        if pool.op != "average_pool2d_s8":
            continue
        x, y = g.value(pool.inputs[0]).shape, g.value(pool.outputs[0]).shape
        conv = makers.get(pool.inputs[0])
        if conv is None or conv.op != "conv2d_s8" or conv.attrs["groups"] != 1:
            continue
        if y[1:3] == (1, 1) != x[1:3] and g.sole_consumer(pool.inputs[0], consumers) is pool:
            found.append((conv, pool))
    return found


def in_groups(g: Graph, channels: int) -> Graph | None:
    """A graph with such convolutions in groups of so many channels (a multiple of 4); None if none has more."""
    assert channels % BLOB_ALIGN == 0
    pairs = [(conv, pool) for conv, pool in cuttable(g) if g.value(conv.outputs[0]).shape[3] > channels]
    if not pairs:
        return None
    pools = {id(pool): conv for conv, pool in pairs}
    convs = {id(conv) for conv, _ in pairs}
    out = Graph(g.name, g.inputs, g.outputs)
    out.values = dict(g.values)
    for node in g.nodes:
        if id(node) in convs:
            del out.values[node.outputs[0]]
        elif id(node) in pools:
            out.nodes += _pieces(g, out, pools[id(node)], node, channels)
        else:
            out.nodes.append(node)
    return out


def _pieces(g: Graph, out: Graph, conv: Node, pool: Node, channels: int) -> list[Node]:
    """The nodes of one pair; adds their values to `out`."""
    nodes, parts = [], []
    between, pooled = g.value(conv.outputs[0]), g.value(pool.outputs[0])
    n = between.shape[3]
    for begin in range(0, n, channels):
        end = min(begin + channels, n)
        rows = slice(begin, end)
        constants = []
        for name in conv.inputs[1:]:
            data = g.data(name)
            assert data is not None and len(data) == n
            constants.append(out.new_const(f"{name}.{begin}", data[rows]))
            out.value(constants[-1]).bits = g.value(name).bits
        y = out.new_value(f"{between.name}.{begin}", (*between.shape[:3], end - begin), between.dtype)
        z = out.new_value(f"{pooled.name}.{begin}", (*pooled.shape[:3], end - begin), pooled.dtype)
        out.value(y).quant, out.value(z).quant = between.quant, pooled.quant
        which = f"channels {begin}-{end - 1}"
        nodes.append(Node(conv.op, f"{conv.name} {which}", [conv.inputs[0], *constants], [y], conv.attrs))
        nodes.append(Node(pool.op, f"{pool.name} {which}", [y, *pool.inputs[1:]], [z], pool.attrs))
        parts.append(z)
    return [*nodes, Node("Join", pool.name, parts, pool.outputs)]
