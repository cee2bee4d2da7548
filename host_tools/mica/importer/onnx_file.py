"""Reads an ONNX file into a Graph whose shapes are all known and whose constants are all folded.

Nodes are taken in the file's order (ONNX demands that it is topological). A node whose inputs are all constant is
evaluated on the spot by ONNX's own reference evaluator, and `Shape` of a known shape is a constant, so the shape
arithmetic that exporters leave behind never enters the graph. Every other node gets its output shapes from ONNX's
shape inference, one node at a time with the constants at hand, which also resolves what whole-model inference cannot.

Nodes keep their ONNX operator names and semantics (NCHW, attributes as in ONNX with defaults left out); the passes
turn them into the core operators.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.inliner
import onnx.shape_inference
from google.protobuf.message import DecodeError
from onnx import helper, numpy_helper

from mica.custom import NO_CUSTOM, CustomOps, Operator, define
from mica.errors import MicaError, Unsupported
from mica.format.names import clean
from mica.format.schema import MAX_INPUTS
from mica.importer import loops, neighbours, precision, tidy_names
from mica.importer.bounds import Bound, range_size
from mica.importer.evaluate import evaluate
from mica.importer.expand import ml, transformers
from mica.importer.expand.attention import by_length
from mica.importer.expand.definitions import expanded_definition
from mica.importer.expand.operators import Expander
from mica.importer.integers import STEPPED_MOVES, dequantised, moved_weight_scale
from mica.importer.mend import mend
from mica.ir import settle
from mica.ir.graph import Graph, Node, Value
from mica.ir.ops import DEFINED_BY_ONNX, MICROSOFT_OPS, MOVES, NOT_SUPPORTED
from mica.passes.supported import ONNX_OPS

OLDEST_OPSET = 7
# A constant larger than this takes no part in shape inference: it is data, not a shape.
SHAPE_CONSTANT_BYTES = 4096
SHAPE_OPS = frozenset(("Shape", "Size"))
INITIALIZERS_APART = 4  # the first IR version in which an initializer need not be an input too
INTEGER_TYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool")
# ONNX's inference knows these by their function bodies, and does not get to the end of them.
SAME_SHAPE = frozenset(("GroupNormalization", "MeanVarianceNormalization", "TensorScatter"))
# On integers these mean what they mean on real numbers; sums and products of ONNX integers wrap and truncate.
INTEGER_OPS = MOVES.union(
    ("Cast", "Clip", "Concat", "ConvInteger", "DynamicQuantizeLinear", "MatMulInteger", "Max", "Min", "Pad"),
    ("QuantizeLinear", "Scatter", "ScatterElements", "ScatterND", "Trilu", "Where"),
    # These compare, or count places: their results are integers, whatever they read.
    ("And", "ArgMax", "ArgMin", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Not", "Or", "Xor"),
)


def import_onnx(
    path: str | Path,
    shapes: Mapping[str, int] | None = None,
    custom: CustomOps = NO_CUSTOM,
    front_end: bool = False,
) -> Graph:
    """Reads `path`; batch dimensions become 1, other symbolic dimensions are looked up in `shapes`. custom: the user's operators.
    front_end: one will make the input.

    Operators that mica does not know stay in the graph, for the passes to refuse together with what they cannot take.
    Raises MicaError where the file cannot be read, Unsupported where no graph can be made of it.
    """
    path = Path(path)
    model = _read(path)
    newest = onnx.defs.onnx_opset_version()
    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), newest)
    if not OLDEST_OPSET <= opset <= newest:
        raise Unsupported(
            f"{path}: ONNX opset {opset}",
            todo=f"mica reads {OLDEST_OPSET} to {newest}. Export the model with another opset.",
        )
    settle.without(model)
    if model.functions:
        model = onnx.inliner.inline_local_functions(model)
    tidy_names.tidy_names(model.graph)
    return import_proto(path, model, opset, shapes, custom, front_end)


def import_proto(
    path: Path,
    model: onnx.ModelProto,
    opset: int,
    shapes: Mapping[str, int] | None = None,
    custom: CustomOps = NO_CUSTOM,
    front_end: bool = False,
) -> Graph:
    """The graph of a model that has been read and checked; path: what errors call it."""
    return _Importer(path, model, opset, dict(shapes or {}), custom, front_end).run()


def external_files(path: str | Path) -> list[Path]:
    """The files beside an ONNX file in which it keeps its weights; none where it cannot be read."""
    try:
        model = onnx.load(str(path), format="protobuf", load_external_data=False)
    except (OSError, DecodeError):
        return []
    found = {e.value for t in model.graph.initializer for e in t.external_data if e.key == "location"}
    return [Path(path).parent / name for name in sorted(found)]


def file_sha256(path: str | Path) -> str:
    """SHA-256 of a file, hexadecimal, for the metadata."""
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        while block := f.read(1 << 20):  # a model may be large
            digest.update(block)
    return digest.hexdigest()


def _read(path: Path) -> onnx.ModelProto:
    if not path.exists():
        raise MicaError(f"{path}: no such file")
    if path.is_dir():
        raise MicaError(f"{path}: is a folder", todo="give the .onnx file")
    invalid: Exception | None = None
    by_name = True
    try:
        onnx.checker.check_model(str(path))  # the file: to check a loaded model takes its memory two times more
    except TypeError:
        by_name = False  # a name that is no text
    except Exception as e:  # what cannot even be read is told apart below
        invalid = e
    try:
        model = onnx.load(str(path), format="protobuf")  # whatever the file is called
    except DecodeError:
        raise MicaError(f"{path}: not an ONNX file (its bytes are not a protobuf model)") from None
    except (OSError, ValueError, onnx.checker.ValidationError) as e:
        gone = [file for file in external_files(path) if not file.exists()]
        if gone:
            todo = "copy it as well, as the exporter wrote both, or export into one file"
            raise MicaError(f"{path}: its weights are in {gone[0].name}, which is not beside it", todo=todo) from None
        raise MicaError(f"{path}: cannot be read: {_first_line(e)}") from None
    if not model.graph.node and not model.graph.output:
        raise MicaError(f"{path}: not an ONNX file (it holds no graph)")
    if invalid is not None and any([transformers.name_domain(model), mend(model)]):
        by_name, invalid = False, None
    if not by_name:
        try:
            onnx.checker.check_model(model)
        except (onnx.checker.ValidationError, ValueError) as e:
            invalid = e
    if invalid is not None:
        raise MicaError(f"{path}: not a valid ONNX model: {_first_line(invalid)}")
    return model


def _first_line(e: Exception) -> str:
    lines = [line.strip() for line in str(e).splitlines() if line.strip()]
    return lines[0] if lines else type(e).__name__


def _each_once(places: np.ndarray | None, axis: int) -> bool:
    """Whether a Gather picks features of a row, none of them twice: `passes/picked_features.py`."""
    return places is not None and places.ndim == 1 and axis in (-1, 1) and len(np.unique(places)) == len(places)


class _Importer:
    """The state of one import: the graph as far as it has grown."""

    def __init__(
        self,
        path: Path,
        model: onnx.ModelProto,
        opset: int,
        shapes: dict[str, int],
        custom: CustomOps,
        front_end: bool,
    ) -> None:
        self.path = path
        self.model = model
        self.opset = opset
        self.shapes = shapes
        self.custom = custom
        self.front_end = front_end
        self.used_shapes: set[str] = set()
        self.graph = Graph(model.graph.name or path.stem)
        self.problems: list[str] = []
        self.fatal = False  # a problem that leaves no graph behind, so that the passes cannot name it with theirs
        self.unknown: set[str] = set()  # activations behind a problem: their shapes are not known
        self.names = {name for n in model.graph.node for name in (*n.input, *n.output)}
        self.expander = Expander(
            opset, self._fresh, self._constant, self._add_scale, self._add_rows, self._name_classes, self._is_input,
            self.graph.warnings.append, self._shape,
        )  # fmt: skip
        # With external data, which is in the model by now.
        self.bound = Bound(max(path.stat().st_size, model.ByteSize()))

    def run(self) -> Graph:
        g, proto = self.graph, self.model.graph
        for init in proto.initializer:
            self._add_constant(init.name, numpy_helper.to_array(init))
        for sparse in proto.sparse_initializer:
            self._stop(f"initializer '{sparse.values.name}': sparse tensors; store it dense")
        for i in proto.input:
            if i.name not in g.values:
                self._add_input(i)
        g.features = set(g.inputs) if self.front_end else set()
        unknown = set(self.shapes) - self.used_shapes
        if unknown:
            raise MicaError(
                f"{self.path}: --shape {sorted(unknown)[0]}: the model has no such dimension",
                todo=self._dimension_hint(),
            )
        self._raise_problems()
        found, idle = neighbours.find(proto)
        for k, n in enumerate(proto.node):
            if n.output and (f := found.get(n.output[0])) is not None:
                self._add_neighbours(n.name, f)
            elif k not in idle:
                for part in self._expanded(n):
                    self._add_node(part)
        self._raise_problems()
        for o in proto.output:
            self._add_output(o.name)
        self._raise_problems()
        if not g.inputs or not g.outputs:
            raise Unsupported(f"{self.path}: the model has no {'outputs' if g.inputs else 'inputs'}")
        del (
            self.expander
        )  # it knows the importer: both, and the file, would stay in memory until the collector comes by
        return g

    def _stop(self, problem: str) -> None:
        self.problems.append(problem)
        self.fatal = True

    def _raise_problems(self) -> None:
        if self.fatal:
            raise Unsupported.because(f"{self.path}: cannot be packed", self.problems)

    # Values

    def _add_constant(self, name: str, array: np.ndarray) -> None:
        array = precision.single(array)
        self.graph.values[name] = Value(name, tuple(array.shape), str(array.dtype), array)

    def _constant(self, name: str) -> np.ndarray | None:
        return self.graph.values[name].data if name in self.graph.values else None

    def _add_scale(self, name: str, array: np.ndarray) -> str:
        """A constant that keeps its float64, or its integers."""
        dtype = "float32" if array.dtype.kind == "f" else str(array.dtype)
        self.graph.values[name] = Value(name, tuple(array.shape), dtype, array)
        return name

    def _fresh(self, base: str) -> str:
        """A name that no value of the file has or will get."""
        name, k = base, 0
        while name in self.names or name in self.graph.values:
            k += 1
            name = f"{base}.{k}"
        self.names.add(name)
        return name

    def _add_input(self, info: onnx.ValueInfoProto) -> None:
        tensor = info.type.tensor_type
        if not info.type.HasField("tensor_type"):
            self._stop(f"input '{info.name}' is not a tensor")
            return
        dtype = precision.single_name(_dtype_name(tensor.elem_type))
        if dtype == "object":  # numpy's word for texts
            self._stop(f"input '{info.name}' takes texts; export the model behind what makes numbers of them")
            return
        if dtype not in ("float32", "int8", "uint8", "int32", "int64", "bool"):
            self._stop(f"input '{info.name}' is {dtype}; mica takes float32 inputs, and integers")
            return
        if not tensor.HasField("shape"):
            self._stop(f"input '{info.name}' has no shape; export the model with a fixed input shape")
            return
        dims: list[int] = []
        for axis, d in enumerate(tensor.shape.dim):
            fixed = d.dim_value if d.HasField("dim_value") and d.dim_value > 0 else 0
            symbol = _symbol(info, axis)
            if not fixed and symbol in self.shapes:
                self.used_shapes.add(symbol)
                fixed = self.shapes[symbol]
                if fixed < 1:
                    raise MicaError(f"{self.path}: --shape {symbol}={fixed}: a dimension is 1 or more")
            if not fixed and axis == 0:
                fixed = 1  # the batch
            if not fixed:
                self._stop(
                    f"input '{info.name}' {_shape_text(tensor.shape)}: dimension {axis} is dynamic; "
                    f"give its size with --shape {symbol}=N"
                )
                fixed = 1
            dims.append(fixed)
        try:
            self.bound.activation(dims)
        except ValueError as e:
            self._stop(f"input '{info.name}': {e}")
        self.graph.values[info.name] = Value(info.name, tuple(dims), dtype)
        self.graph.inputs.append(info.name)

    def _dimension_hint(self) -> str:
        names = [
            _symbol(i, axis)
            for i in self.model.graph.input
            for axis, d in enumerate(i.type.tensor_type.shape.dim)
            if d.dim_value <= 0
        ]
        return f"its dynamic dimensions are: {', '.join(dict.fromkeys(names))}" if names else "all are fixed"

    def _add_output(self, name: str) -> None:
        g = self.graph
        if name not in g.values:
            raise MicaError(f"{self.path}: output '{name}' is made by no node")
        if name in g.outputs:
            self._stop(f"output '{name}' is listed twice")
        if g.is_const(name):
            self._stop(f"output '{name}' is constant, it depends on no input")
        g.outputs.append(name)

    # Nodes

    def _expanded(self, proto: onnx.NodeProto) -> list[onnx.NodeProto]:
        """The nodes of a quantised operator; any other node as it is."""
        of_ml = proto.domain == ml.DOMAIN and proto.op_type in ml.FORMS
        if proto.domain not in ("", "ai.onnx") and not of_ml and (proto.domain, proto.op_type) not in _MICROSOFT:
            return [proto]
        unknown = [i for i in proto.input if i and i not in self.graph.values]
        if proto.domain == transformers.DOMAIN and proto.op_type in transformers.FORMS and unknown:
            return [
                helper.make_node("Identity", unknown[:1], [o]) for o in proto.output if o
            ]  # what stops there is said once
        try:
            return self.expander.spell(proto)
        except ValueError as e:
            self._stop(f"{_where(proto)}: {e}")
            return []

    def _add_node(self, proto: onnx.NodeProto) -> None:
        g = self.graph
        name, where = _name(proto), _where(proto)
        operator = self.custom.operators.get(proto.op_type)
        if operator is not None and proto.domain not in ("", "ai.onnx"):
            self._add_custom(proto, operator, name, where)
        elif proto.domain not in ("", "ai.onnx"):
            self._stop(
                f"{where}: operator of the domain '{proto.domain}'; mica knows ONNX's own operators, and yours with --custom"
            )
        elif proto.op_type == "If" and (condition := self._constant(proto.input[0])) is not None:
            self._add_branch(proto, bool(condition.any()))
        elif proto.op_type in ("Loop", "Scan"):
            self._add_loop(proto, where)
        elif any(a.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS) for a in proto.attribute):
            self._stop(f"{where}: control flow; export the model without it")
        elif all(not i or i in g.values for i in proto.input):
            self._add_plain_node(proto, name, where)
        elif self.unknown.isdisjoint(proto.input) or proto.op_type in SHAPE_OPS:
            return  # arithmetic on the shape of something unknown: not a problem of its own
        elif proto.op_type not in ONNX_OPS:
            self.problems.append(f"{where}: {NOT_SUPPORTED}")
        self.unknown.update(o for o in proto.output if o and o not in g.values)

    def _add_custom(self, proto: onnx.NodeProto, operator: Operator, name: str, where: str) -> None:
        """An operator of the user's own: one core node already, whose shape the user's file says."""
        g = self.graph
        values = [g.values.get(i) for i in proto.input]
        shapes = [v.shape for v in values if v is not None and v.data is None]
        if len(shapes) < len(values):
            self._stop(f"{where}: a constant input; give it as an attribute")
        elif not 1 <= len(shapes) <= MAX_INPUTS or len(proto.output) != 1:
            self._stop(f"{where}: {len(shapes)} inputs, {len(proto.output)} outputs; expected 1 to {MAX_INPUTS}, and 1")
        else:
            try:
                attributes = _attributes(proto)
                definition = define(operator.name, attributes)
                shape = operator.output_shape(attributes, shapes)
            except ValueError as e:
                self._stop(f"{where}: {e}")
                return
            g.values[proto.output[0]] = Value(proto.output[0], shape, "float32")
            attrs = {"definition": definition, "operator": operator}
            g.nodes.append(Node("Custom", name, list(proto.input), list(proto.output), attrs))

    def _add_rows(self, op: str, proto: onnx.NodeProto, out: str, width: int, attrs: dict[str, Any]) -> str:
        """An operator on rows of features that ONNX has no definition of: [..., F] -> [..., width], or the same shape."""
        g, x = self.graph, proto.input[0]
        if x not in g.values:
            self.unknown.add(out)
            return out
        if g.is_const(x):
            raise ValueError("its input is constant")
        shape = g.values[x].shape
        g.values[out] = Value(out, (*shape[:-1], width or shape[-1]) if shape else (width or 1,), "float32")
        g.nodes.append(Node(op, _name(proto), [x], [out], attrs))
        return out

    def _add_neighbours(self, name: str, f: neighbours.Found) -> None:
        if f.vectors is None:  # another name of what is there already
            self._add_node(helper.make_node("Identity", [f.x], [f.y], name))
        else:
            reads = helper.make_node(neighbours.OP, [f.x], [f.y], name)
            self._add_rows(neighbours.OP, reads, f.y, f.vectors.results, {"vectors": f.vectors})

    def _is_input(self, x: str) -> bool:
        """Whether a value is an input of the model, but for constants that scale it or stand in for what is missing."""
        g = self.graph
        producers = g.producers()
        while (node := producers.get(x)) is not None and node.op in ("Add", "Div", "Gather", "Imputer", "Mul", "Sub"):
            open_inputs = [i for i in node.inputs if not g.is_const(i)]
            if len(open_inputs) != 1 or (node.op in ("Div", "Gather") and open_inputs[0] != node.inputs[0]):
                return False
            if node.op == "Gather" and not _each_once(g.data(node.inputs[1]), node.attrs.get("axis", 0)):
                return False
            x = open_inputs[0]
        return g.is_given(x) and g.values[x].dtype == "float32"

    def _shape(self, x: str) -> tuple[int, ...]:
        return self.graph.values[x].shape if x in self.graph.values else ()

    def _name_classes(self, names: list[str]) -> None:
        self.graph.labels = self.graph.labels or names

    def _add_branch(self, proto: onnx.NodeProto, taken: bool) -> None:
        """The nodes of the branch that an If with a known condition takes; names are unique across branches in ONNX."""
        expected = "then_branch" if taken else "else_branch"
        branch = next(a.g for a in proto.attribute if a.name == expected)
        for init in branch.initializer:
            self._add_constant(init.name, numpy_helper.to_array(init))
        for n in branch.node:
            for part in self._expanded(n):
                self._add_node(part)
        for inner, outer in zip(branch.output, proto.output, strict=True):
            self._add_node(helper.make_node("Identity", [inner.name], [outer], proto.name))

    def _add_loop(self, proto: onnx.NodeProto, where: str) -> None:
        g = self.graph

        def add(node: onnx.NodeProto) -> bool:
            before = len(self.problems)
            for part in self._expanded(node):
                self._add_node(part)
            return len(self.problems) == before and self.unknown.isdisjoint(node.output)

        if any(i and i not in g.values for i in proto.input):
            return  # behind something unknown
        place = loops.Place(
            self.opset, self._fresh, self._constant, lambda x: g.values[x].shape, self._add_constant, add
        )
        try:
            loops.unroll(proto, place)
        except ValueError as e:
            self._stop(f"{where}: {e}")
        self.fatal |= any(o and o not in g.values for o in proto.output)

    def _add_plain_node(self, proto: onnx.NodeProto, name: str, where: str) -> None:
        g = self.graph
        if proto.op_type in SHAPE_OPS:
            whole = np.array(g.values[proto.input[0]].shape, np.int64)
            attrs = _attributes(proto)
            part = whole[attrs.get("start", 0) : attrs.get("end", len(whole))]
            self._add_constant(proto.output[0], part if proto.op_type == "Shape" else np.array(whole.prod()))
            return
        if proto.op_type == "DynamicQuantizeLinear":
            # Its scale follows the data; ours is fixed. With scale 1 and zero point 0 "integers" that are the real
            # numbers themselves give the same products, and the quantiser chooses a scale of its own.
            self._add_constant(proto.output[1], np.array(1, np.float32))
            self._add_constant(proto.output[2], np.array(0, np.uint8))
        proto = precision.with_single(proto)
        if proto.op_type == "Concat":  # nothing comes of what is empty
            full = [i for i in proto.input if 0 not in g.values[i].shape]
            if full and len(full) < len(proto.input):
                proto = helper.make_node(
                    "Concat", full, proto.output, proto.name, axis=_attributes(proto).get("axis", 1)
                )
        if proto.op_type == "CastLike":  # the second input is there for its type only
            to = _elem_type(g.values[proto.input[1]].dtype)
            proto = helper.make_node("Cast", proto.input[:1], proto.output, proto.name, to=to)
        known = {i: data for i in proto.input if i and (data := g.values[i].data) is not None}
        if proto.op_type == "DequantizeLinear" and len(known) == len({i for i in proto.input if i}):
            self._add_dequantised(proto, where)
            return
        if len(known) == len({i for i in proto.input if i}) and not _is_random(proto.op_type):
            self._fold(proto, known, where)
            return
        if proto.op_type in DEFINED_BY_ONNX:
            if not self._add_attention(proto):
                self._add_definition(proto, where)
            return
        supported = proto.op_type in ONNX_OPS
        if not supported:
            self.problems.append(f"{where}: {NOT_SUPPORTED}")
        try:
            shapes = self._infer(proto)
        except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError, ValueError, RuntimeError) as e:
            self._stop(f"{where}: {_inference_reason(e)}")
            return
        for o in proto.output:
            if o in shapes and o not in g.values:
                shape, dtype = shapes[o]
                if proto.op_type == "Split" and 0 in shape and g.values[proto.input[0]].shape.count(0) == 0:
                    # The rest of a whole: ONNX's definition of RotaryEmbedding takes it off, and puts it back.
                    self._add_constant(o, np.zeros(shape, np.float32))
                    continue
                g.values[o] = Value(o, shape, dtype)
                try:
                    self.bound.activation(shape)
                    inputs = [g.values[i].shape if i else () for i in proto.input]
                    self.bound.windows(proto.op_type, inputs, shape, _attributes(proto))
                except ValueError as e:
                    self._stop(f"{where}: {e}")
                if min(shape, default=1) < 1:
                    self._stop(f"{where}: its output would have the shape {list(shape)}; its input is too small for it")
                elif supported and dtype in INTEGER_TYPES and proto.op_type not in INTEGER_OPS and o == proto.output[0]:
                    self._stop(f"{where}: computes with {dtype} numbers; mica reads float32 models")
        if next(o for o in proto.output if o) not in g.values:  # an LSTM may leave out its first output
            self.fatal = True
            if supported:
                self.problems.append(f"{where}: the shape of its output depends on data")
            return
        outputs = [o if o in g.values and not g.is_const(o) else "" for o in proto.output]
        attrs = _attributes(proto)
        if proto.op_type in ("LogSoftmax", "Softmax") and self.opset < 13:
            attrs = {"axis": attrs.get("axis", 1), "flatten": 1}
        g.nodes.append(Node(proto.op_type, name, list(proto.input), outputs, attrs))

    def _fold(self, proto: onnx.NodeProto, known: Mapping[str, np.ndarray], where: str) -> None:
        """A node whose inputs are all constant becomes constants, of a size that is known before they are made."""
        in_the_file = proto.op_type == "Constant" and not any(a.name == "sparse_value" for a in proto.attribute)
        if not in_the_file:
            try:
                if proto.op_type == "Range":  # ONNX's inference wants scalars, which exporters do not all write
                    self.bound.check({proto.output[0]: range_size(*(known[i] for i in proto.input))})
                else:
                    self.bound.check(self._infer(proto))
            except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError, ValueError, RuntimeError) as e:
                self._stop(f"{where}: {_inference_reason(e)}")
                return
        try:
            results = evaluate(proto, known, self.opset)
            if not in_the_file:
                self.bound.take(results)
        except Exception as e:
            # The evaluator raises whatever its numpy code raises; any of it means that this node is unusable.
            self._stop(f"{where}: its constant inputs cannot be evaluated: {_first_line(e)}")
            return
        for o, r in zip((o for o in proto.output if o), results, strict=True):
            self._add_constant(o, r)
        self._move_steps(proto)

    def _add_attention(self, proto: onnx.NodeProto) -> bool:
        """Attention over as many rows as an input says. Whether it is that."""
        values = self.graph.values
        if proto.op_type != "Attention" or len(proto.input) < 7 or self._constant(proto.input[6]) is not None:
            return False
        if any(i not in values for i in (*proto.input[:3], proto.input[6])) or values[proto.input[6]].size != 1:
            return False
        parts = by_length(proto, [values[i].shape for i in proto.input[:3]], self._fresh, self._add_constant)
        for part in parts or ():
            self._add_node(part)
        return parts is not None

    def _add_definition(self, proto: onnx.NodeProto, where: str) -> None:
        values = [self.graph.values.get(i) for i in proto.input]
        types = [
            helper.make_tensor_type_proto(_elem_type(v.dtype), v.shape) if v is not None else onnx.TypeProto()
            for v in values
        ]
        try:
            parts = expanded_definition(proto, self.opset, types, self._fresh)
        except (ValueError, RuntimeError, onnx.onnx_cpp2py_export.defs.SchemaError) as e:
            self._stop(f"{where}: {_first_line(e)}")
            return
        for part in parts:
            self._add_node(part)

    def _add_dequantised(self, proto: onnx.NodeProto, where: str) -> None:
        q, scale, zero = (self._constant(i) for i in (*proto.input, "", "")[:3])
        assert q is not None
        assert scale is not None
        try:
            value = dequantised(proto.output[0], q, scale, zero, _attributes(proto))
        except ValueError as e:
            self._stop(f"{where}: {e}")
            return
        self.graph.values[value.name] = value

    def _move_steps(self, proto: onnx.NodeProto) -> None:
        """A constant that came as integers is still one after a Transpose."""
        source = self.graph.values.get(proto.input[0]) if proto.input else None
        if source is None or source.weight_scale is None or proto.op_type not in STEPPED_MOVES:
            return
        rest = {i: self._constant(i) for i in proto.input[1:] if i}
        result = self.graph.values[proto.output[0]]
        result.weight_scale = moved_weight_scale(
            source, lambda a: evaluate(proto, {source.name: a, **rest}, self.opset)[0]
        )
        result.quant = source.quant

    def _infer(self, proto: onnx.NodeProto) -> dict[str, tuple[tuple[int, ...], str]]:
        """Output shapes of one node by ONNX's inference, given its inputs' shapes and small constants."""
        g = self.graph
        if proto.op_type in SAME_SHAPE:
            like = g.values[proto.input[0]]
            return {proto.output[0]: (like.shape, like.dtype)}
        infos, inits = [], []
        for i in dict.fromkeys(proto.input):
            if not i:
                continue
            v = g.values[i]
            if v.data is not None and v.data.nbytes <= SHAPE_CONSTANT_BYTES:
                inits.append(numpy_helper.from_array(np.asarray(v.data, np.dtype(v.dtype), order="C"), i))
            else:
                infos.append(helper.make_tensor_value_info(i, _elem_type(v.dtype), v.shape))
        outs = [helper.make_empty_tensor_value_info(o) for o in proto.output if o]
        one = helper.make_model(
            helper.make_graph([proto], "one", infos, outs, inits),
            opset_imports=[helper.make_opsetid("", self.opset)],
            ir_version=max(self.model.ir_version, INITIALIZERS_APART),
        )
        inferred = onnx.shape_inference.infer_shapes(one, strict_mode=True, data_prop=True)
        found = {}
        for info in (*inferred.graph.output, *inferred.graph.value_info):
            t = info.type.tensor_type
            if t.HasField("shape") and t.elem_type and all(d.HasField("dim_value") for d in t.shape.dim):
                dims = tuple(d.dim_value for d in t.shape.dim)
                if proto.op_type in ("AveragePool", "MaxPool"):
                    dims = _without_idle_windows(dims, g.values[proto.input[0]].shape, _attributes(proto))
                found[info.name] = (dims, _dtype_name(t.elem_type))
        return found


def _without_idle_windows(y: tuple[int, ...], x: tuple[int, ...], attrs: Mapping[str, Any]) -> tuple[int, ...]:
    """Shape of a pool's output without the windows that ceil_mode begins in the padding behind x.

    The operators' text, ONNX Runtime and PyTorch ignore those; ONNX's inference counts them.
    """
    n = len(x) - 2
    if not attrs.get("ceil_mode"):
        return y
    strides = attrs.get("strides", [1] * n)
    pads = attrs.get("pads", [0] * n) if attrs.get("auto_pad", "NOTSET") == "NOTSET" else [0] * n
    idle = [(y[2 + i] - 1) * strides[i] >= x[2 + i] + pads[i] for i in range(n)]
    return (*y[:2], *(d - w for d, w in zip(y[2:], idle, strict=True)))


_MICROSOFT = {(transformers.DOMAIN, op) for op in (*MICROSOFT_OPS, *transformers.FORMS)}


def _name(proto: onnx.NodeProto) -> str:
    return clean(proto.name or next((o for o in proto.output if o), proto.op_type), tidy_names.MOST)


def _where(proto: onnx.NodeProto) -> str:
    return f"node '{_name(proto)}' ({proto.op_type})"


def _inference_reason(e: Exception) -> str:
    """What ONNX's inference says, without its prefixes: "... [ShapeInferenceError] Incompatible dimensions"."""
    return _first_line(e).rsplit("[ShapeInferenceError] ", 1)[-1]


def _symbol(info: onnx.ValueInfoProto, axis: int) -> str:
    """The name by which --shape calls a dimension: its own, or input and axis."""
    return info.type.tensor_type.shape.dim[axis].dim_param or f"{info.name}.{axis}"


def _is_random(op: str) -> bool:
    return op.startswith("Random") or op in ("Multinomial", "Bernoulli")


def _attributes(proto: onnx.NodeProto) -> dict[str, Any]:
    """ONNX attributes as plain Python values: bytes become str, tensors become arrays."""
    attrs: dict[str, Any] = {}
    for a in proto.attribute:
        v = helper.get_attribute_value(a)
        if isinstance(v, bytes):
            v = v.decode("utf-8", "replace")
        elif isinstance(v, onnx.TensorProto):
            v = numpy_helper.to_array(v)
        elif isinstance(v, (list, tuple)) or hasattr(v, "_values"):
            v = [s.decode("utf-8", "replace") if isinstance(s, bytes) else s for s in v]
        attrs[a.name] = v
    return attrs


def _dtype_name(elem_type: int) -> str:
    try:
        return str(helper.tensor_dtype_to_np_dtype(elem_type))
    except KeyError:
        return f"type {elem_type}"


def _elem_type(dtype: str) -> int:
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def _shape_text(shape: onnx.TensorShapeProto) -> str:
    return "[" + ", ".join(d.dim_param or (str(d.dim_value) if d.dim_value else "?") for d in shape.dim) + "]"
