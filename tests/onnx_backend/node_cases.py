"""ONNX's own backend node tests, made ready for a quantised engine.

The official cases feed every operand of a node as a graph input, also weights, axes and shapes, which every exported
model stores as constants, and ask for every output. Each case is therefore tried as it is, then with integer operands
as constants, then with all operands but the first as constants. A case with several outputs is also tried with the
first alone (the others are for training). `Outcome.adapted` keeps the change that was needed.

Rules. Integer results must be equal. A float result must equal the float operator on the dequantised inputs, within 1.5
steps of the output's scale. That operator is ONNX's reference evaluator, which is not ours. ONNX, or our importer by
ONNX's definition, splits some cases into several nodes, and each node rounds. If such a case is off by more than 1.5
steps, but by no more than 1.5 for each node, it counts as "rough": neither passed nor failed.
"""

from __future__ import annotations

import dataclasses
import functools
import warnings
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import RuntimeImplementationError

from mica.backend import MicaRep, as_stored
from mica.errors import MicaError, Unsupported
from mica.format.values import dequantise_output
from mica.ir.ops import DEFINED_BY_ONNX
from mica.quantise.room import FULL

TYPES = {"float32", "float64", "float16", "int8", "uint8", "int16", "int32", "int64", "bool"}
STEPS = 1.5  # largest error of a float case, in steps of the output's scale
FEEDS = ("none", "integers", "parameters")  # what is made constant

# Operators whose further outputs, which training wants, are made by so many nodes of their own.
SIDE_OUTPUTS = {"LayerNormalization": 4}
SPELLED_OUT = "(spelled out)"

Arrays = list[np.ndarray]


@dataclasses.dataclass
class Outcome:
    """Outcome of one case: "pass", "rough", "fail", "crash" or "refused", the reason, and how the case was adapted."""

    name: str
    op: str
    result: str
    reason: str = ""
    adapted: str = ""
    kernels: str = ""  # of the packed model, without repetitions, in alphabetical order
    error: float = 0.0  # largest error in output steps


@functools.cache
def cases() -> dict[str, Any]:
    """All node cases of the installed onnx package, by name."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {case.name: case for case in load_model_tests(kind="node")}


def operator(case: Any) -> str:
    """The operator a case is about; "(spelled out)" where a function was expanded into nodes."""
    nodes = case.model.graph.node
    return str(nodes[0].op_type) if len(nodes) == 1 and "_expanded" not in case.name else SPELLED_OUT


def run_case(case: Any) -> Outcome:
    """Tries the ways to feed a case until one is accepted; any exception but a refusal is a crash."""
    outcome = Outcome(case.name, operator(case), "refused")
    inputs, outputs = ([plain(a) for a in arrays] for arrays in case.data_sets[0])
    odd = [a for a in (*inputs, *outputs) if isinstance(a, str)]
    if odd:
        outcome.reason = f"operands of type {odd[0]}"
        return outcome
    given = inputs
    if any(a.dtype == np.float64 for a in inputs) and len(case.model.graph.node) == 1:
        case, inputs, outputs = as_float32(case, inputs, outputs)
    if any(a.size == 0 for a in (*inputs[:1], *outputs)):
        outcome.reason = "a tensor without elements"
        return outcome
    for first in (False, True)[: 1 + (len(outputs) > 1)]:
        for constants in FEEDS:
            ways = {"float32": inputs is not given, constants: constants != "none", "first output": first}
            outcome.adapted = ", ".join(way for way, used in ways.items() if used)
            try:
                return run_adapted(case, outcome, inputs, outputs, constants, first)
            except Unsupported as e:
                refusal = str(e).split("cannot be packed:")[-1].strip().splitlines()[0]
            except MicaError as e:
                refusal = str(e)
            except Exception as e:
                outcome.result, outcome.reason = "crash", f"{type(e).__name__}: {str(e).splitlines()[0]}"
                return outcome
            if not (first and refusal.startswith("not a valid")):  # not all operators have outputs to leave out
                outcome.reason = refusal  # the last one: of all operands that can be constants being such
    outcome.adapted = ""
    return outcome


def as_float32(case: Any, inputs: Arrays, outputs: Arrays) -> tuple[Any, Arrays, Arrays]:
    """A case of float64 numbers as one of float32, as mica asks of exported models."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    for info in (*model.graph.input, *model.graph.output):
        if info.type.tensor_type.elem_type == onnx.TensorProto.DOUBLE:
            info.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    for attribute in (a for node in model.graph.node for a in node.attribute):
        if attribute.t.data_type == onnx.TensorProto.DOUBLE:  # thresholds of trees
            values = numpy_helper.to_array(attribute.t).astype(np.float32)
            attribute.t.CopyFrom(numpy_helper.from_array(values, attribute.t.name))
    narrow = [[a.astype(np.float32) if a.dtype == np.float64 else a for a in arrays] for arrays in (inputs, outputs)]
    return dataclasses.replace(case, model=model, data_sets=[(narrow[0], narrow[1])]), narrow[0], narrow[1]


def plain(a: Any) -> np.ndarray | str:
    """An operand as an array, or the name of its type where no array of ours holds it."""
    if isinstance(a, onnx.TensorProto):
        if a.data_type not in (1, 2, 3, 5, 6, 7, 9, 10, 11):
            return str(onnx.TensorProto.DataType.Name(a.data_type)).lower()
        a = numpy_helper.to_array(a)
    if not isinstance(a, (np.ndarray, np.generic)):
        return "sequence" if isinstance(a, list) else "optional" if a is None else type(a).__name__
    return np.asarray(a) if a.dtype.name in TYPES else "string" if a.dtype == object else a.dtype.name


def run_adapted(case: Any, outcome: Outcome, inputs: Arrays, outputs: Arrays, constants: str, first: bool) -> Outcome:
    """Run a case with its adaptations. Raises the compiler's errors."""
    model, arrays = bake(case.model, inputs, constants, first)
    rep = MicaRep(model)
    nodes = count_nodes(case)
    verdict(outcome, rep, model, arrays, outputs, nodes)
    if outcome.result == "fail" and outcome.error:
        # The engine sees the inputs as their integers stand for them. With few samples, what comes of those may lie
        # outside the ranges that the case itself shows: a person's calibration data has more than one sample. Of so
        # many, ranges leave no room.
        both = zip(seen(rep, arrays), arrays, strict=True)
        shown = [np.clip(a, b.min(), b.max()) if a.dtype.kind == "f" else a for a, b in both]
        samples = {n: np.stack([a, b] * (FULL // 2)) for n, a, b in zip(names(rep), arrays, shown, strict=True)}
        again = MicaRep(model, samples)
        verdict(outcome, again, model, arrays, outputs, nodes)
    return outcome


def count_nodes(case: Any) -> int:
    """Number of nodes that the tests or the importer split a case into; 1 if it is one operator for both."""
    nodes = case.model.graph.node
    if len(nodes) > 1 or nodes[0].op_type not in DEFINED_BY_ONNX:
        return len(nodes)
    other = cases().get(f"{case.name}_expanded")
    return len(other.model.graph.node) if other else 10


def names(rep: MicaRep) -> list[str]:
    return [i.name for i in rep.inputs]


def seen(rep: MicaRep, arrays: Arrays) -> Arrays:
    """The inputs as the engine sees them."""
    assert rep.compiled is not None
    model = rep.compiled.model
    tensors = {model.tensors[i].name: model.tensors[i] for i in model.inputs}
    return [
        dequantise_output(as_stored(a, tensors[n]), tensors[n]).astype(a.dtype).reshape(a.shape)
        if a.dtype.kind == "f"
        else a
        for n, a in zip(names(rep), arrays, strict=True)
    ]


def verdict(
    outcome: Outcome, rep: MicaRep, model: onnx.ModelProto, arrays: Arrays, outputs: Arrays, nodes: int
) -> None:
    """Runs and compares; sets the outcome's result, reason and error."""
    found = rep.run(arrays)
    assert rep.compiled is not None
    packed = rep.compiled.model
    try:
        with np.errstate(all="ignore"):
            expected = ReferenceEvaluator(model).run(None, dict(zip(names(rep), seen(rep, arrays), strict=True)))
    except RuntimeImplementationError:  # a deprecated operator: only the case itself says what is right
        expected = outputs[: len(found)]
    outcome.result, outcome.reason, outcome.error = "pass", "", 0.0
    outcome.kernels = " ".join(sorted({s.kernel.removesuffix("_s8") for s in packed.steps}))
    side = 0.0  # error of outputs that are spelled out while the first is not
    for k, (a, b) in enumerate(zip(found, expected, strict=True)):
        b = np.asarray(b)
        if a.shape != b.shape:
            outcome.result, outcome.reason = "fail", f"shape {a.shape}, expected {b.shape}"
        elif b.dtype.kind != "f":
            if not np.array_equal(a, b):
                outcome.result, outcome.reason = "fail", "integers differ"
        else:
            error = np.abs(a.astype(np.float64) - b.astype(np.float64)) / packed.tensors[packed.outputs[k]].scale
            error = np.where(a == b, 0.0, error)  # infinities
            worst = float(np.nan_to_num(error, nan=np.inf).max(initial=0.0))
            if k > 0 and outcome.op in SIDE_OUTPUTS:
                side = max(side, worst)
            else:
                outcome.error = max(outcome.error, worst)
    if outcome.result == "pass" and outcome.error > STEPS + 1e-3:
        rough = nodes > 1 and outcome.error <= STEPS * nodes
        outcome.result = "rough" if rough else "fail"
        outcome.reason = f"rounds at {nodes} nodes" if rough else f"off by {outcome.error:.1f} steps"
    elif outcome.result == "pass" and side > STEPS:
        roundings = SIDE_OUTPUTS[outcome.op]
        outcome.error = side
        outcome.result = "rough" if side <= STEPS * roundings else "fail"
        outcome.reason = f"rounds at {roundings} nodes for its statistics"


def bake(model: onnx.ModelProto, inputs: Arrays, constants: str, first: bool = False) -> tuple[onnx.ModelProto, Arrays]:
    """The model with some inputs turned into constants, and the arrays of those that are left.

    Dynamic dimensions get their sizes, as `--shape` would say. Operators older than opset 7 that are still the same in
    opset 7 are said to be of that.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    copy.ir_version = max(copy.ir_version, 4)  # before that a constant was an input too
    kept, left = [], []
    for k, (info, array) in enumerate(zip(list(copy.graph.input), inputs, strict=False)):
        if k > 0 and (constants == "parameters" or (constants == "integers" and array.dtype.kind in "iub")):
            constant = np.ascontiguousarray(array).reshape(array.shape)
            copy.graph.initializer.append(numpy_helper.from_array(constant, info.name))
            continue
        for d, size in zip(info.type.tensor_type.shape.dim, array.shape, strict=False):
            d.dim_value = size
        kept.append(info)
        left.append(array)
    del copy.graph.input[:]
    copy.graph.input.extend(kept)
    if first:
        del copy.graph.output[1:]
        if len(copy.graph.node) == 1:  # what was the second output may not be asked for either
            node = copy.graph.node[0]
            kept_outputs = [o if o == copy.graph.output[0].name else "" for o in node.output]
            del node.output[:]
            node.output.extend(kept_outputs[: kept_outputs.index(copy.graph.output[0].name) + 1])
    for opset in copy.opset_import:
        old = opset.domain == "" and opset.version < 7
        if old and all(_same_in_7(n.op_type, opset.version) for n in copy.graph.node):
            opset.version = 7
    return copy, left


def _same_in_7(op: str, version: int) -> bool:
    then, in_7 = (onnx.defs.get_schema(op, v).since_version for v in (version, 7))
    return bool(then == in_7)
