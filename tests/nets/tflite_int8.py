"""A float .tflite file with a WHILE as the full-integer quantiser writes it: activations and weights int8,
biases int32.

TensorFlow 2.21 cannot make one: its calibrator ends with a segmentation fault in the loop.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tflite_files import Tflite

from mica.importer.tflite import schema
from mica.importer.tflite.model import Model, Tensor, read
from mica.importer.tflite.operators import OPERATORS

MOVES = {"RESHAPE", "STRIDED_SLICE", "SPLIT", "GATHER", "SLICE", "CONCATENATION", "TRANSPOSE"}
SCALES = {"LOGISTIC": 1 / 256, "TANH": 1 / 128, "MUL": 1 / 128, "SUB": 1 / 128}
SIGNATURE = 7  # slot of a tensor: its shape with -1 for what a run decides
Place = tuple[int, int]  # graph, tensor


def quantised(path: Path, x: float, cell: float, gates: float = 1 / 12) -> bytes:
    """x, cell, gates: scales of the input, of states that are sums, and of other sums."""
    first = read(path)
    graphs: dict[int, Model] = {0: first, **first.loops}
    parent: dict[Place, Place] = {}

    def find(at: Place) -> Place:
        while parent.setdefault(at, at) != at:
            at = parent[at]
        return at

    ends: set[Place] = set()
    for k, g in graphs.items():
        for op in g.operators:
            if op.kind in MOVES:
                for i in (*op.inputs, *op.outputs):
                    if i >= 0 and g.tensors[i].dtype == "float32":
                        parent[find((k, i))] = find((k, op.outputs[0]))
            if op.kind == "WHILE":
                for m, part in first.loops.items():
                    for inner in (part.inputs, part.outputs if len(part.outputs) > 1 else ()):
                        for a, b, c in zip(inner, op.inputs, op.outputs, strict=False):
                            parent[find((m, a))] = parent[find((k, c))] = find((k, b))
                            ends |= {(k, b)}
    states = {find(e) for e in ends}
    grids = {find((0, first.inputs[0])): (x, 0)}
    for k, g in graphs.items():
        for op in g.operators:
            at = find((k, op.outputs[0]))
            if at not in grids and op.kind not in MOVES and g.tensors[op.outputs[0]].dtype == "float32":
                scale = SCALES.get(op.kind, cell if at in states else gates)
                grids[at] = scale, -128 if op.kind == "LOGISTIC" else 0
    nets: dict[int, Tflite] = {0: Tflite()}
    nets |= {k: nets[0].graph() for k in sorted(first.loops)}
    assert list(nets) == list(range(len(nets)))  # graphs keep their numbers
    for k, net in nets.items():
        g = graphs[k]
        biases = {op.inputs[2]: op for op in g.operators if op.kind == "FULLY_CONNECTED" and op.inputs[2] >= 0}
        steps: dict[int, float] = {}
        for t in sorted(g.tensors, key=lambda t: t.index in biases):
            if t.index in biases:
                a, w = biases[t.index].inputs[:2]
                steps[t.index] = grids[find((k, a))][0] * steps[w]
            elif t.dtype == "float32":
                steps[t.index] = grids[find((k, t.index))][0] if find((k, t.index)) in grids else _largest(t) / 127
        for t in g.tensors:
            _add(net, t, steps.get(t.index), grids.get(find((k, t.index)), (0, 0))[1], t.index in biases)
        for op in g.operators:
            options = OPERATORS[op.kind].options if op.options is not None else ""
            fields = schema.OPTIONS[options][1] if options else {}
            values = {n: op.options.number(*place) for n, place in fields.items() if op.options is not None}
            net.operator(op.kind, op.inputs, op.outputs, options, values)
            for i in op.outputs if op.kind == "SLICE" else ():  # as many rows as the counter says
                net.tensors[i][SIGNATURE] = np.full(len(g.tensors[i].shape), -1, np.int32)
        net.ends = g.inputs, g.outputs
    return nets[0].bytes(*nets[0].ends, *(nets[k] for k in sorted(first.loops)))


def _largest(t: Tensor) -> float:
    return 1.0 if t.data is None else float(np.abs(t.data).max()) or 1.0


def _add(net: Tflite, t: Tensor, scale: float | None, zero: int, bias: bool) -> None:
    if scale is None:
        net.tensor(t.shape, t.dtype, name=t.name, data=t.data)
        return
    data = None if t.data is None else np.rint(t.data / np.float32(scale)) + zero
    data = data if data is None else data.astype(np.int32) if bias else np.clip(data, -128, 127).astype(np.int8)
    net.tensor(t.shape, "int32" if bias else "int8", scale, zero, name=t.name, data=data)
