"""Every plan of small models: the planner's verifier accepts it exactly where the C loader takes it and it runs right.

The loader looks at one step at a time, so it also takes plans in which a step destroys what a later one reads. These
are the plans that give wrong answers; the verifier refuses them, and no others that load.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
from power import module
from words import Tree

from mica.engine import NativeModel
from mica.file import writer
from mica.file.model_file import FormatError, ModelFile, StepRecord, TensorRecord
from mica.ir.graph import Graph, Node, Quant
from mica.plan.lifetimes import IN_PLACE

ARENA = 32
PLACES = (0, 4, 8, 16, 24, 2)  # of tensors of 8 and 16 bytes: apart, exactly on one another, in part, outside, crooked
# Steps as "output = inputs"; one input: lut_s8, which may run in place; two: concat_s8, which may not.
MODELS = (("x",), ("a = x", "y = a")), (("x",), ("a = x", "b = x", "y = a b")), (("x",), ("a = x", "b = a", "y = a b"))
TABLES = {name: np.roll(np.arange(-128, 128), 3 + 40 * k).astype(np.int8) for k, name in enumerate("aby")}
X = np.array([5, -100, 3, 77, -8, 120, -128, 31], np.int8)


def built(inputs: tuple[str, ...], steps: tuple[str, ...]) -> tuple[Graph, dict[str, np.ndarray]]:
    """The graph, and what each tensor holds."""
    g, values = Graph("g", list(inputs)), {"x": X}
    for text in steps:
        y, xs = text.split(" = ")[0], text.split(" = ")[1].split()
        parts = [values[x] for x in xs]
        values[y] = TABLES[y][parts[0].astype(int) + 128] if len(xs) == 1 else np.concatenate(parts)
        g.nodes.append(Node("lut_s8" if len(xs) == 1 else "concat_s8", f"make {y}", xs, [y]))
    for name, v in values.items():
        g.new_value(name, v.shape, "int8")
        g.value(name).quant = Quant(1.0, 0)
    g.outputs = ["y"]
    return g, values


def packed(g: Graph, offsets: dict[str, int]) -> bytes:
    """The file, unchecked."""
    tensors = [TensorRecord(n, "int8", v.shape, offset=offsets[n]) for n, v in g.values.items()]
    number = {t.name: i for i, t in enumerate(tensors)}
    steps = [
        StepRecord(n.name, n.op, tuple(number[i] for i in n.inputs), (number[n.outputs[0]],), {},
                   {"table": TABLES[n.outputs[0]]} if n.op == "lut_s8" else {})
        for n in g.nodes
    ]  # fmt: skip
    return writer.write(ModelFile(tensors, steps, [number["x"]], [number["y"]], arena_bytes=ARENA))


def runs_right(data: bytes, expected: np.ndarray) -> bool:
    """Return True if the loader takes the file and its answer is right."""
    try:
        m = NativeModel(data)
    except FormatError:
        return False
    m.set_input(0, X)
    m.run()
    return bool(np.array_equal(m.output(0), expected))


def wrong(tree: Tree) -> Iterator[str]:
    verify = module(tree, "host_tools/mica/plan/verify.py", "proof_verify")
    for inputs, steps in MODELS:
        g, values = built(inputs, steps)
        seen = {True: 0, False: 0}
        plans = list(product(PLACES, repeat=len(values)))
        for places in plans if tree.whole else plans[::5]:
            offsets = dict(zip(values, places, strict=True))
            try:
                verify.verify(g, offsets, ARENA, IN_PLACE)
                accepted = True
            except verify.PlanError:
                accepted = False
            right = runs_right(packed(g, offsets), values["y"])
            seen[right] += 1
            if accepted != right:
                yield f"{'; '.join(steps)} at {offsets}: verified {accepted}, loaded and right {right}"
        assert all(seen.values())


def plans(tree: Tree) -> str | None:
    return next(wrong(tree), None)
