"""Nodes whose inputs are all constant become constants, of a size that is known before they are made."""

from collections.abc import Mapping

import numpy as np
import onnx

from mica.importer.bounds import range_size
from mica.importer.evaluate import evaluate
from mica.importer.infer import infer
from mica.importer.integers import STEPPED_MOVES, dequantised, moved_weight_scale
from mica.importer.protos import attributes, first_line
from mica.importer.state import ImportState


def is_constant(state: ImportState, proto: onnx.NodeProto) -> bool:
    """True where all its inputs are constant, and it draws no random numbers."""
    op = proto.op_type
    is_random = op.startswith("Random") or op in ("Multinomial", "Bernoulli")
    return not is_random and all(state.constant(i) is not None for i in proto.input if i)


def fold(state: ImportState, proto: onnx.NodeProto) -> None:
    """Raises ValueError with the reason where it cannot be."""
    known = {i: data for i in proto.input if i and (data := state.constant(i)) is not None}
    if proto.op_type == "DequantizeLinear":
        _dequantise(state, proto)
        return
    in_the_file = proto.op_type == "Constant" and not any(a.name == "sparse_value" for a in proto.attribute)
    if not in_the_file:
        if proto.op_type == "Range":  # ONNX's inference wants scalars, which exporters do not all write
            state.bound.check({proto.output[0]: range_size(*(known[i] for i in proto.input))})
        else:
            state.bound.check(infer(state, proto))
    try:
        results = evaluate(proto, known, state.opset)
        if not in_the_file:
            state.bound.take(results)
    except Exception as e:
        # The evaluator raises whatever its numpy code raises; any of it means that this node is unusable.
        raise ValueError(f"its constant inputs cannot be evaluated: {first_line(e)}") from None
    for o, r in zip((o for o in proto.output if o), results, strict=True):
        state.add_constant(o, r)
    _move_steps(state, proto, known)


def _dequantise(state: ImportState, proto: onnx.NodeProto) -> None:
    q, scale, zero = (state.constant(i) for i in (*proto.input, "", "")[:3])
    assert q is not None
    assert scale is not None
    value = dequantised(proto.output[0], q, scale, zero, attributes(proto))
    state.graph.values[value.name] = value


def _move_steps(state: ImportState, proto: onnx.NodeProto, known: Mapping[str, np.ndarray]) -> None:
    """A constant that came as integers is still one after a Transpose."""
    source = state.graph.values.get(proto.input[0]) if proto.input else None
    if source is None or source.weight_scale is None or proto.op_type not in STEPPED_MOVES:
        return
    result = state.graph.values[proto.output[0]]
    result.weight_scale = moved_weight_scale(
        source, lambda a: evaluate(proto, {**known, source.name: a}, state.opset)[0]
    )
    result.quant = source.quant
