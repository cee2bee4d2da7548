"""Scalers of a model's input, and imputers, become one operator that reads the input as float32.

Affine(x), a scale for each feature                =>   Features(x)
Imputer(x)                                         =>   Features(x), which takes a value of its own for a NaN
Affine(Imputer(x))                                 =>   likewise, in one
TreeEnsemble(Affine(x)), TreeEnsemble(Imputer(x))  =>   left alone: `lower` puts both into the thresholds;
                                                        VectorEnsemble too

x is an input of the model, [F] or [1, F]. So a feature of 0.001 beside one of 1000 keeps all its bits.
missing is NaN where the model has no value for a missing feature.
"""

from collections.abc import Mapping

import numpy as np

from mica.ir.graph import Graph, Node
from mica.ir.ops import CORE_BY_NAME

ENSEMBLES = ("TreeEnsemble", "VectorEnsemble")  # read an input as it is, whatever scales stand in front of it


def run(g: Graph) -> Graph:
    producers, consumers = g.producers(), g.consumers()
    for node in list(g.nodes):
        if node.op == "Imputer" and not _is_row(g, node.inputs[0]):
            continue
        if node.op == "Imputer":
            readers = consumers.get(node.outputs[0], [])
            if readers and node.outputs[0] not in g.outputs and all(r.op in ("Affine", *ENSEMBLES) for r in readers):
                continue  # they take it over
            n = g.value(node.inputs[0]).shape[-1]
            _become(g, node, node.inputs[0], np.ones(n), np.zeros(n), np.broadcast_to(node.attrs["values"], (n,)))
        elif node.op == "Affine" and node.attrs["axis"] == len(g.value(node.inputs[0]).shape) - 1:
            readers = consumers.get(node.outputs[0], [])
            if readers and node.outputs[0] not in g.outputs and all(r.op in ENSEMBLES for r in readers):
                continue
            maker = producers.get(node.inputs[0])
            scale, shift = (np.asarray(node.attrs[name], np.float64) for name in ("scale", "shift"))
            if maker is not None and maker.op == "Imputer" and _is_row(g, maker.inputs[0]):
                values = np.broadcast_to(maker.attrs["values"], scale.shape)
                _become(g, node, maker.inputs[0], scale, shift, values * scale + shift)
            elif _is_row(g, node.inputs[0]):
                _become(g, node, node.inputs[0], scale, shift, np.where(scale == 0, shift, np.nan))
    return g


def in_front(g: Graph, x: str) -> tuple[str, tuple[np.ndarray, np.ndarray] | None, np.ndarray | None]:
    """Return (the value in front of scalers and imputers of x, (scale, shift) [F] of a scaler,
    values [F] for missing features)."""
    producers, shape = g.producers(), g.value(x).shape
    maker, affine, values = producers.get(x), None, None
    if maker is not None and maker.op == "Affine" and maker.attrs["axis"] in (None, len(shape) - 1):
        scale, shift = (
            np.broadcast_to(maker.attrs[name], shape[-1:]).astype(np.float64) for name in ("scale", "shift")
        )
        affine, x = (scale, shift), maker.inputs[0]
        maker = producers.get(x)
    if maker is not None and maker.op == "Imputer":
        values, x = np.broadcast_to(np.asarray(maker.attrs["values"], np.float64), shape[-1:]), maker.inputs[0]
    return x, affine, values


def _is_row(g: Graph, name: str) -> bool:
    """True if a value is an input of the model that is one row of features and may be float32."""
    v = g.value(name)
    return g.is_given(name) and v.quant is None and len(v.shape) in (1, 2) and v.size == v.shape[-1] > 1


def _become(g: Graph, node: Node, x: str, factor: np.ndarray, shift: np.ndarray, missing: np.ndarray) -> None:
    parts = {"factor": factor, "shift": shift, "missing": missing}
    node.op, node.attrs = "Features", {}
    node.inputs = [x, *(g.new_const(f"{node.name}.{what}", np.array(a, np.float64)) for what, a in parts.items())]


def others(g: Graph) -> Graph:
    """An input that stays float32 for some of its readers: the others read it through a Features of their own.

    Ranks(x), Add(x, y)                =>   Ranks(x), Add(Features(x), y)
    Mul(Gather(x, a), Gather(x, b))    =>   Mul(Gather(Features(x), a), ..), x a row: `quantise.rows` scales all
    """
    producers = g.producers()
    multiplied = {factors[0] for n in g.nodes if (factors := gathered_factors(g, n, producers)) is not None}
    for name in g.inputs:
        readers = g.consumers().get(name, [])
        rest = [n for n in readers if CORE_BY_NAME[n.op].reads != "float32"]
        if (len(rest) == len(readers) and name not in multiplied) or (not rest and name not in g.outputs):
            continue
        v = g.value(name)
        n = v.shape[-1]
        y = g.new_value(f"{name}.features", v.shape)
        constants = [
            g.new_const(f"{y}.{what}", a)
            for what, a in (("factor", np.ones(n)), ("shift", np.zeros(n)), ("missing", np.full(n, np.nan)))
        ]
        for node in rest:
            node.inputs = [y if i == name else i for i in node.inputs]
        g.nodes.insert(0, Node("Features", y, [name, *constants], [y]))
    return g


def gathered_factors(g: Graph, node: Node, producers: Mapping[str, Node]) -> tuple[str, str, np.ndarray] | None:
    """Return (x, z, numbers of z that are multiplied [factors, numbers]) of a product of `passes.products`."""
    if node.op not in ("Gather", "Mul"):
        return None
    if node.op == "Mul":
        made = [gathered_factors(g, producers[i], producers) if i in producers else None for i in node.inputs]
        known = [m for m in made if m is not None]
        same = len(known) == 2 and known[0][1] == known[1][1] and known[0][2].shape[1] == known[1][2].shape[1]
        return (*known[0][:2], np.concatenate([m[2] for m in known])) if same else None
    z, places = node.inputs[0], g.data(node.inputs[1])
    maker = producers.get(z)
    joined = maker is not None and maker.op == "Concat" and len(maker.inputs) == 2 and g.is_const(maker.inputs[1])
    x = maker.inputs[0] if maker is not None and joined else z
    maker = producers.get(x)
    row = _is_row(g, x) or (maker is not None and maker.op == "Features" and _is_row(g, maker.inputs[0]))
    return (x, z, places.reshape(1, -1)) if row and places is not None and len(g.value(x).shape) == 2 else None
