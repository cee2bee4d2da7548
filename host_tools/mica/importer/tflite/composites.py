"""STABLEHLO_COMPOSITE, which names an operator and a graph of the file that computes it,
becomes the operators of that graph.

c = STABLEHLO_COMPOSITE(a, b), its graph z = ADD(x, y); w = RELU(z)   =>   t = ADD(a, b); c = RELU(t)
"""

from collections.abc import Sequence
from dataclasses import replace

from mica.importer.tflite import schema
from mica.importer.tflite.flatbuffer import Damaged
from mica.importer.tflite.model import MOST_OPERATORS, MOST_TENSORS, Model, Operator

MOST_DEPTH = 8  # composites inside of composites


def inlined(model: Model) -> Model:
    """The same model without composites. Raises Damaged where one differs from its graph."""
    if not model.parts:
        return model
    inliner = _Inliner(model)
    inliner.add(model.operators, range(len(model.tensors)), 0)
    operators = [replace(op, index=k) for k, op in enumerate(inliner.operators)]
    return replace(model, tensors=inliner.tensors, operators=operators, parts={})


class _Inliner:
    def __init__(self, model: Model) -> None:
        self.parts = model.parts
        self.tensors = list(model.tensors)
        self.operators: list[Operator] = []
        self.constants: dict[tuple[int, int], int] = {}  # graph, tensor in it -> its tensor in the whole model
        self.seen = 0

    def add(self, operators: Sequence[Operator], ids: Sequence[int], depth: int) -> None:
        """ids: for each tensor of the operators' graph the one of the whole model."""
        for op in operators:
            self.seen += 1
            if self.seen > MOST_OPERATORS or len(self.tensors) > MOST_TENSORS or depth > MOST_DEPTH:
                raise Damaged("its composites make far more operators than a network for a board has")
            ends = [tuple(-1 if i < 0 else ids[i] for i in end) for end in (op.inputs, op.outputs)]
            op = replace(op, inputs=ends[0], outputs=ends[1])
            if op.kind == schema.COMPOSITE_KIND:
                self._inline(op, self.parts[op.graph], depth)
            else:
                self.operators.append(op)

    def _inline(self, op: Operator, part: Model, depth: int) -> None:
        where = f"operator {op.index} ({op.kind})"
        if len(op.inputs) != len(part.inputs) or len(op.outputs) != len(part.outputs):
            ends = f"{len(op.inputs)} inputs and {len(op.outputs)} outputs"
            raise Damaged(f"{where} has {ends}; its graph has {len(part.inputs)} and {len(part.outputs)}")
        ids = dict(zip(part.inputs, op.inputs, strict=True))
        copies = []  # outputs that are an input, a constant or another output too
        for i, outer in zip(part.outputs, op.outputs, strict=True):
            if i in ids or part.tensors[i].data is not None:
                copies.append((i, outer))
            else:
                ids[i] = outer
        for i, outer in ids.items():
            a, b = part.tensors[i], self.tensors[outer]
            if outer >= 0 and (a.shape, a.dtype) != (b.shape, b.dtype):
                raise Damaged(
                    f"{where}: tensor {i} of its graph is {a.dtype} {list(a.shape)}, not {b.dtype} {list(b.shape)}"
                )
        self.add(
            part.operators,
            [ids[i] if i in ids else self._new(op.graph, i) for i in range(len(part.tensors))],
            depth + 1,
        )
        for i, outer in copies:
            source = ids[i] if i in ids else self._new(op.graph, i)
            self.operators.append(Operator(op.index, "RESHAPE", (source,), (outer,), 0, None))

    def _new(self, graph: int, i: int) -> int:
        """A tensor of a graph in the whole model: a constant once, any other for each composite."""
        t = self.parts[graph].tensors[i]
        if (graph, i) not in self.constants:
            self.tensors.append(replace(t, index=len(self.tensors)))
            if t.data is None:
                return len(self.tensors) - 1
            self.constants[graph, i] = len(self.tensors) - 1
        return self.constants[graph, i]
