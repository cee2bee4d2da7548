"""Lays an integer graph and its plan out as a file. No decision is taken here."""

from collections.abc import Mapping

import numpy as np

from mica.file import codec
from mica.file.codec import ModelFile, StepRecord, TensorRecord
from mica.file.order import call_dims
from mica.format import output_groups
from mica.format.names import clean
from mica.format.schema import FEATURES, SCRATCH_LIMIT
from mica.ir.graph import Graph, Node
from mica.ir.weight_layout import layout_of
from mica.kernels import KERNEL_BY_NAME
from mica.kernels.scratch import scratch_min, scratch_want
from mica.plan.alias import ALIASES, Places
from mica.plan.plan import Plan


def pack(g: Graph, plan: Plan, metadata: Mapping[str, str], scratch_limit: int = SCRATCH_LIMIT) -> ModelFile:
    """The model's records. scratch_limit: bytes that speed may cost."""
    ids: dict[str, int] = {}
    tensors: list[TensorRecord] = []
    aliases = {n.outputs[0] for n in g.nodes if n.op in ALIASES}
    places = Places(g, g.nodes)
    read = {i for n in plan.steps for i in n.inputs} | set(g.outputs) | set(g.inputs)
    for name, value in g.values.items():
        if value.data is not None and value.quant is None:
            continue  # a blob of a step, not a tensor
        if name in aliases and name not in read:
            continue  # a name between two reshapes
        assert value.quant is not None
        root, inside = places.find(name)
        held = g.value(root).held
        ids[name] = len(tensors)
        tensors.append(
            TensorRecord(
                name=clean(name),
                dtype=value.dtype,
                dims=value.shape,
                scale=value.quant.scale,
                zero_point=value.quant.zero_point,
                space="data"
                if value.data is not None
                else "state"
                if held >= 0
                else "rows"
                if name in plan.by_rows
                else "arena",
                offset=0 if value.data is not None else held + inside if held >= 0 else plan.offsets[name],
                values=value.data,
            )
        )
    model = ModelFile(
        tensors=tensors,
        steps=[_step(g, node, ids) for node in plan.steps],
        inputs=[ids[i] for i in g.inputs],
        outputs=[ids[o] for o in g.outputs],
        metadata=dict(metadata),
        features=FEATURES["JOINS"] if output_groups.KEY in metadata else 0,
        strips=list(plan.strips),
        arena_bytes=plan.arena_bytes,
    )
    set_scratch(model, scratch_limit)
    return model


def set_scratch(model: ModelFile, limit: int) -> None:
    """Gives every step the scratch it cannot do without, and what it wants of about `limit` bytes (scratch_want)."""
    rows: dict[int, int] = {}  # step of a strip -> the most that a call of it makes
    for strip in model.strips:
        for c in strip.calls:
            rows[c.step] = max(rows.get(c.step, 0), c.rows)
    for k, s in enumerate(model.steps):
        x, y = model.tensors[s.inputs[0]].dims, model.tensors[s.outputs[0]].dims
        if k in rows:
            x, y = call_dims(s.kernel, x, y, s.params, rows[k])
        s.scratch_min = scratch_min(s.kernel, y[-1] if y else 1, s.params)
        s.scratch_want = scratch_want(s.kernel, x, y, s.params, limit, s.unpacking)


def _step(g: Graph, node: Node, ids: Mapping[str, int]) -> StepRecord:
    kernel = KERNEL_BY_NAME[node.op]
    n_inputs = len(node.inputs) - len(kernel.blobs)
    blobs = {name: np.asarray(g.data(i)) for (name, _), i in zip(kernel.blobs, node.inputs[n_inputs:], strict=True)}
    step = StepRecord(
        name=clean(node.name),
        kernel=node.op,
        inputs=tuple(ids[i] for i in node.inputs[:n_inputs]),
        outputs=tuple(ids[o] for o in node.outputs),
        params={k: int(v) for k, v in node.attrs.items()},
        blobs=blobs,
        macs=kernel.macs([g.value(i).shape for i in node.inputs[:n_inputs]], g.value(node.outputs[0]).shape, blobs),
    )
    step.flags = codec.step_flags(step)
    step.layout = layout_of(g, node).code
    return step
