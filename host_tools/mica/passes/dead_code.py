"""Nodes whose results nobody reads, and values that nobody mentions, go."""

from mica.ir.graph import Graph


def run(g: Graph) -> Graph:
    live = set(g.outputs)
    kept = []
    for node in reversed(g.nodes):
        if live.intersection(o for o in node.outputs if o):
            live.update(i for i in node.inputs if i)
            kept.append(node)
    g.nodes = kept[::-1]
    mentioned = live | set(g.inputs) | {o for n in g.nodes for o in n.outputs if o}
    g.values = {name: v for name, v in g.values.items() if name in mentioned}
    return g
