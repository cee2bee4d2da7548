"""Reads an ONNX file into a Graph whose shapes are all known and whose constants are all folded.

Nodes are read in the file's order (ONNX demands that it is topological). ONNX's own reference evaluator computes a
node at once if all its inputs are constant; `Shape` of a known shape is a constant, too. So the shape arithmetic that
exporters leave behind never enters the graph. Every other node gets its output shapes from ONNX's shape inference, one
node at a time. As constants are known by then, this also finds shapes that inference over the whole model does not.

Nodes keep their ONNX operator names and semantics (NCHW, attributes as in ONNX with defaults left out); the passes
turn them into the core operators.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnx.inliner
from google.protobuf.message import DecodeError
from onnx import helper

from mica.custom import NO_CUSTOM, CustomOps, Operator, define
from mica.errors import MicaError, Unsupported
from mica.format.schema import MAX_INPUTS
from mica.importer import beyond, distances, loops, precision, tidy_names
from mica.importer.bounds import FACTOR, SLACK
from mica.importer.expand import fused, ml, transformers
from mica.importer.expand.operators import spell
from mica.importer.fold import fold, is_constant
from mica.importer.infer import infer
from mica.importer.mend import mend
from mica.importer.protos import array_of, attributes, dtype_name, first_line, node_name, place_of, tensors_of
from mica.importer.special import REWRITTEN, definition, node_attributes
from mica.importer.state import ImportState
from mica.ir import exact_round, whole
from mica.ir.graph import Graph, Node, Value
from mica.ir.ops import DEFINED_BY_ONNX, MICROSOFT_OPS, MOVES, NOT_SUPPORTED
from mica.ir.vectors import machine
from mica.passes.leaf_values import given_scaled
from mica.passes.nearest_rows import OP
from mica.passes.supported import ONNX_OPS

OLDEST_OPSET = 7
SEQUENCES = (
    "ConcatFromSequence",
    "SequenceAt",
    "SequenceConstruct",
    "SequenceEmpty",
    "SequenceErase",
    "SequenceInsert",
)
SHAPE_OPS = frozenset(("Shape", "Size"))
INTEGER_TYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool")
# On integers these mean what they mean on real numbers; sums and products of ONNX integers wrap and truncate.
INTEGER_OPS = MOVES.union(
    ("Cast", "Clip", "Concat", "ConvInteger", "DynamicQuantizeLinear", "MatMulInteger", "Max", "Min", "Pad"),
    ("QuantizeLinear", "Scatter", "ScatterElements", "ScatterND", "Trilu", "Where"),
    # These compare, or count places: their results are integers, whatever they read.
    ("And", "ArgMax", "ArgMin", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Not", "Or", "Xor"),
)


def import_onnx(
    path: str | Path, shapes: Mapping[str, int] | None = None, custom: CustomOps = NO_CUSTOM, front_end: bool = False
) -> Graph:
    """Reads `path`; batch dimensions become 1, other symbolic dimensions are looked up in `shapes`.
    custom: the user's operators.
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
    beyond.check(model, path)
    exact_round.without(model)
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
    """The graph of a model that has been read and checked; path: its name in errors."""
    return _Importer(path, model, opset, shapes or {}, custom, front_end).run()


def external_files(path: str | Path) -> list[Path]:
    """Return the files beside an ONNX file in which it keeps its weights, none if it cannot be read. Raises MicaError
    where such a file is not in its folder, or all that is read of them is far more than they have."""
    try:
        model = onnx.load(str(path), format="protobuf", load_external_data=False)
    except (OSError, DecodeError):
        return []
    folder, size = Path(path).parent, 0
    found: dict[str, int] = {}
    for t in (t for g in (model.graph, *model.functions) for t in tensors_of(g)):
        if t.data_location != onnx.TensorProto.EXTERNAL:
            continue
        about = {e.key: e.value for e in t.external_data}
        name = about.get("location", "")
        if name not in found:
            found[name] = _size_beside(Path(path), name)
        length = about.get("length") or str(found[name])
        size += int(length) if length.isascii() and length.isdecimal() and len(length) < 20 else found[name]
    if size > (most := SLACK + FACTOR * sum(found.values())):
        raise MicaError(
            f"{path}: reads {size:,} bytes of {len(found)} files beside it", todo=f"expected at most {most:,}"
        )
    return [folder / name for name in sorted(found)]


def _size_beside(path: Path, name: str) -> int:
    """Return the bytes of a file that a model names as one beside it, 0 if there is none.
    Raises MicaError where it is elsewhere."""
    if (
        not 0 < len(name) < 250
        or not name.isprintable()
        or not (path.parent / name).resolve().is_relative_to(path.parent.resolve())
    ):
        raise MicaError(f"{path}: says that weights are in '{name}'", todo="expected a file in the model's own folder")
    there = path.parent / name
    return there.stat().st_size if there.is_file() else 0


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
    beside = external_files(path)
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
        gone = [file for file in beside if not file.exists()]
        if gone:
            todo = "copy it as well, as the exporter wrote both, or export into one file"
            raise MicaError(f"{path}: its weights are in {gone[0].name}, which is not beside it", todo=todo) from None
        raise MicaError(f"{path}: cannot be read: {first_line(e)}") from None
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
        raise MicaError(f"{path}: not a valid ONNX model: {first_line(invalid)}")
    return model


@dataclass
class _Importer:
    """One import; `state` has the graph as far as it has grown."""

    path: Path
    model: onnx.ModelProto
    opset: int
    shapes: Mapping[str, int]
    custom: CustomOps
    front_end: bool

    def __post_init__(self) -> None:
        self.used_shapes: set[str] = set()
        self.sequences: dict[str, list[str]] = {}  # values that are sequences: their tensors
        used = {name for n in self.model.graph.node for name in (*n.input, *n.output)}
        size = max(
            self.path.stat().st_size if self.path.is_file() else 0, self.model.ByteSize()
        )  # with external data, which is in the model by now
        self.state = ImportState(self.model.graph.name or self.path.stem, self.opset, self.model.ir_version, used, size)

    def run(self) -> Graph:
        g, proto = self.state.graph, self.model.graph
        for init in proto.initializer:
            self.state.add_constant(init.name, array_of(init))
        for sparse in proto.sparse_initializer:
            self.state.stop(f"initializer '{sparse.values.name}': sparse tensors; store it dense")
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
        for n in proto.node:
            for part in self._expanded(n):
                self._add_node(part)
        self._raise_problems()
        for name in (n for o in proto.output for n in self.sequences.get(o.name, [o.name])):
            self._add_output(name)
        self._raise_problems()
        if not g.inputs or not g.outputs:
            raise Unsupported(f"{self.path}: the model has no {'outputs' if g.inputs else 'inputs'}")
        return g

    def _raise_problems(self) -> None:
        if self.state.fatal:
            raise Unsupported.because(f"{self.path}: cannot be packed", self.state.problems)

    # Values

    def _add_input(self, info: onnx.ValueInfoProto) -> None:
        tensor = info.type.tensor_type
        if not info.type.HasField("tensor_type"):
            self.state.stop(f"input '{info.name}' is not a tensor")
            return
        dtype = precision.single_name(dtype_name(tensor.elem_type))
        if dtype == "object":  # numpy's word for texts
            self.state.stop(f"input '{info.name}' takes texts; export the model behind what makes numbers of them")
            return
        if dtype not in ("float32", "int8", "uint8", "int32", "int64", "bool"):
            self.state.stop(f"input '{info.name}' is {dtype}; mica takes float32 inputs, and integers")
            return
        if not tensor.HasField("shape"):
            self.state.stop(f"input '{info.name}' has no shape; export the model with a fixed input shape")
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
                self.state.stop(
                    f"input '{info.name}' {_shape_text(tensor.shape)}: dimension {axis} is dynamic; "
                    f"give its size with --shape {symbol}=N"
                )
                fixed = 1
            dims.append(fixed)
        try:
            self.state.bound.activation(dims)
        except ValueError as e:
            self.state.stop(f"input '{info.name}': {e}")
        self.state.graph.values[info.name] = Value(info.name, tuple(dims), dtype)
        self.state.graph.inputs.append(info.name)

    def _dimension_hint(self) -> str:
        names = [
            _symbol(i, axis)
            for i in self.model.graph.input
            for axis, d in enumerate(i.type.tensor_type.shape.dim)
            if d.dim_value <= 0
        ]
        return f"its dynamic dimensions are: {', '.join(dict.fromkeys(names))}" if names else "all are fixed"

    def _add_output(self, name: str) -> None:
        g = self.state.graph
        if name not in g.values:
            raise MicaError(f"{self.path}: output '{name}' is made by no node")
        if name in g.outputs:
            self.state.stop(f"output '{name}' is listed twice")
        if g.is_const(name):
            self.state.stop(f"output '{name}' is constant, it depends on no input")
        g.outputs.append(name)

    # Nodes

    def _expanded(self, proto: onnx.NodeProto) -> list[onnx.NodeProto]:
        """The nodes of a quantised operator; any other node as it is."""
        of_ml = proto.domain == ml.DOMAIN and proto.op_type in ml.FORMS
        if proto.domain not in ("", "ai.onnx") and not of_ml and (proto.domain, proto.op_type) not in _MICROSOFT:
            return [proto]
        unknown = [i for i in proto.input if i and i not in self.state.graph.values]
        if proto.domain == transformers.DOMAIN and proto.op_type in transformers.FORMS and unknown:
            # An error there is reported once.
            return [helper.make_node("Identity", unknown[:1], [o]) for o in proto.output if o]
        try:
            return spell(self.state, proto)
        except ValueError as e:
            self.state.stop(f"{place_of(proto)}: {e}")
            return []

    def _add_node(self, proto: onnx.NodeProto) -> None:
        g, state = self.state.graph, self.state
        place = place_of(proto)
        operator = self.custom.operators.get(proto.op_type)
        try:
            if (found := distances.distances(proto, state.constant)) and state.constant(proto.input[0]) is None:
                self._add_distances(proto, *found)
            elif operator is not None and proto.domain not in ("", "ai.onnx"):
                self._add_custom(proto, operator)
            elif proto.domain == "com.microsoft.nchwc":
                raise ValueError("ONNX Runtime saved it for one kind of processor; pack the file that it was made of")
            elif proto.domain not in ("", "ai.onnx"):
                raise ValueError(
                    f"operator of the domain '{proto.domain}'; mica knows ONNX's own operators, and yours with --custom"
                )
            elif proto.op_type == "If" and (condition := state.constant(proto.input[0])) is not None:
                self._add_branch(proto, bool(condition.any()))
            elif proto.op_type in ("Loop", "Scan"):
                self._add_loop(proto)
            elif proto.op_type in SEQUENCES or (proto.op_type == "Identity" and proto.input[0] in self.sequences):
                self._add_sequence(proto)
            elif any(a.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS) for a in proto.attribute):
                raise ValueError("control flow; export the model without it")
            elif all(not i or i in g.values for i in proto.input):
                self._add_plain_node(proto, place)
            elif state.unknown.isdisjoint(proto.input) or proto.op_type in SHAPE_OPS:
                return  # arithmetic on the shape of something unknown: not a problem of its own
            elif proto.op_type not in ONNX_OPS:
                state.problems.append(f"{place}: {NOT_SUPPORTED}")
        except ValueError as e:
            state.stop(f"{place}: {e}")
        state.unknown.update(o for o in proto.output if o and o not in g.values and o not in self.sequences)

    def _add_custom(self, proto: onnx.NodeProto, operator: Operator) -> None:
        """An operator of the user's own: one core node already, whose shape the user's file says."""
        g = self.state.graph
        values = [g.values.get(i) for i in proto.input]
        shapes = [v.shape for v in values if v is not None and v.data is None]
        if len(shapes) < len(values):
            raise ValueError("a constant input; give it as an attribute")
        if not 1 <= len(shapes) <= MAX_INPUTS or len(proto.output) != 1:
            raise ValueError(f"{len(shapes)} inputs, {len(proto.output)} outputs; expected 1 to {MAX_INPUTS}, and 1")
        attrs = attributes(proto)
        defined = {"definition": define(operator.name, attrs), "operator": operator}
        shape = operator.output_shape(attrs, shapes)
        g.values[proto.output[0]] = Value(proto.output[0], shape, "float32")
        g.nodes.append(Node("Custom", node_name(proto), list(proto.input), list(proto.output), defined))

    def _add_distances(self, proto: onnx.NodeProto, points: np.ndarray, measure: int, rooted: bool) -> None:
        """Add distances of a row that the model is given to constant points, for `passes/distance_curves.py`."""
        state, n, x, out = self.state, len(points), proto.input[0], proto.output[-1]
        if len(state.shape(x)) != 2 or state.shape(x)[0] != 1 or not given_scaled(state.graph, x):
            raise ValueError(
                "distances to rows of training data; only scalers and imputers of the input may stand in front of "
                "them. Leave out what else does (a PCA), or take a forest or an SVM behind it"
            )
        names = [state.fresh(f"{out}.{what}") for what in ("row", "root")[: 1 + rooted]]
        vectors = machine(points, measure, (), np.zeros(0), np.zeros(0))
        state.add_rows(OP, helper.make_node("", [x], names[:1], proto.name), names[0], n, {"vectors": vectors})
        shape = state.add_exact(state.fresh(f"{out}.shape"), np.array([n, 1] if proto.op_type == "Scan" else [1, n]))
        if rooted:
            self._add_node(helper.make_node("Sqrt", names[:1], names[1:], proto.name))
        self._add_node(helper.make_node("Reshape", [names[-1], shape], [out], proto.name))
        if len(proto.output) > 1 and proto.output[0]:
            self._add_node(helper.make_node("Identity", [x], proto.output[:1], proto.name))

    def _add_sequence(self, proto: onnx.NodeProto) -> None:
        """Keep a sequence as the list of its tensors; each tensor of an output is an output of its own."""
        op, out = proto.op_type, proto.output[0]
        tensors = self.sequences.get(proto.input[0], []) if proto.input else []
        if op == "SequenceConstruct":
            self.sequences[out] = list(proto.input)
        elif op in ("Identity", "SequenceEmpty"):
            self.sequences[out] = list(tensors)
        elif op == "SequenceInsert" and len(proto.input) == 2:
            self.sequences[out] = [*tensors, proto.input[1]]
        elif op == "ConcatFromSequence" and tensors and not attributes(proto).get("new_axis", 0):
            self._add_node(helper.make_node("Concat", tensors, [out], proto.name, axis=attributes(proto)["axis"]))
        else:
            raise ValueError("a sequence of tensors; stack them (torch.stack), or index a tensor")

    def _add_branch(self, proto: onnx.NodeProto, taken: bool) -> None:
        """The nodes of the branch that an If with a known condition takes; names are unique across branches in ONNX."""
        expected = "then_branch" if taken else "else_branch"
        branch = next(a.g for a in proto.attribute if a.name == expected)
        for init in branch.initializer:
            self.state.add_constant(init.name, array_of(init))
        for n in branch.node:
            for part in self._expanded(n):
                self._add_node(part)
        for inner, outer in zip(branch.output, proto.output, strict=True):
            self._add_node(helper.make_node("Identity", [inner.name], [outer], proto.name))

    def _add_loop(self, proto: onnx.NodeProto) -> None:
        state = self.state

        def add(node: onnx.NodeProto) -> bool:
            before = len(state.problems)
            for part in self._expanded(node):
                self._add_node(part)
            return len(state.problems) == before and state.unknown.isdisjoint(node.output)

        if all(
            not i or i in state.graph.values or i in self.sequences for i in proto.input
        ):  # not behind something unknown
            loops.unroll(proto, state, add)
            state.fatal |= any(o and o not in state.graph.values and o not in self.sequences for o in proto.output)

    def _add_plain_node(self, proto: onnx.NodeProto, place: str) -> None:
        proto = precision.with_single(proto)
        taken = REWRITTEN[proto.op_type](self.state, proto) if proto.op_type in REWRITTEN else proto
        if taken is None:
            return
        if is_constant(self.state, taken):
            fold(self.state, taken)
        elif taken.op_type in DEFINED_BY_ONNX:
            for part in definition(self.state, taken):
                self._add_node(part)
        else:
            self._add_computed(taken, place)

    def _add_computed(self, proto: onnx.NodeProto, place: str) -> None:
        state, g = self.state, self.state.graph
        supported = proto.op_type in ONNX_OPS
        if not supported:
            state.problems.append(f"{place}: {NOT_SUPPORTED}")
        shapes = infer(state, proto)
        for o in proto.output:
            if o in shapes and o not in g.values:
                self._add_result(proto, o, shapes[o], place)
        if next(o for o in proto.output if o) not in g.values:  # an LSTM may leave out its first output
            state.fatal = True
            if supported:
                state.problems.append(f"{place}: the shape of its output depends on data")
            return
        outputs = [o if o in g.values and not g.is_const(o) else "" for o in proto.output]
        g.nodes.append(Node(proto.op_type, node_name(proto), list(proto.input), outputs, node_attributes(state, proto)))

    def _add_result(self, proto: onnx.NodeProto, name: str, inferred: tuple[tuple[int, ...], str], place: str) -> None:
        """One output of a node, whose shape and type are inferred."""
        state, (shape, dtype) = self.state, inferred
        inputs = [state.shape(i) for i in proto.input]
        if proto.op_type == "Split" and 0 in shape and 0 not in inputs[0]:
            # The rest of a whole: ONNX's definition of RotaryEmbedding takes it off, and puts it back.
            state.add_constant(name, np.zeros(shape, np.float32))
            return
        state.graph.values[name] = Value(name, shape, dtype)
        try:
            state.bound.activation(shape)
            state.bound.windows(proto.op_type, inputs, shape, attributes(proto))
        except ValueError as e:
            state.stop(f"{place}: {e}")
        integers = dtype in INTEGER_TYPES and proto.op_type not in INTEGER_OPS and name == proto.output[0]
        if proto.op_type in whole.COMPUTED and dtype in whole.INTEGERS:
            integers = False  # passes/integer_functions.py takes or refuses it
        if min(shape, default=1) < 1:
            state.stop(f"{place}: its output would have the shape {list(shape)}; its input is too small for it")
        elif integers and proto.op_type in ONNX_OPS:
            state.stop(f"{place}: computes with {dtype} numbers; mica reads float32 models")


_MICROSOFT = {(transformers.DOMAIN, op) for op in (*MICROSOFT_OPS, *transformers.FORMS, *fused.FORMS)}


def _symbol(info: onnx.ValueInfoProto, axis: int) -> str:
    """The name by which --shape calls a dimension: its own, or input and axis."""
    return info.type.tensor_type.shape.dim[axis].dim_param or f"{info.name}.{axis}"


def _shape_text(shape: onnx.TensorShapeProto) -> str:
    return "[" + ", ".join(d.dim_param or (str(d.dim_value) if d.dim_value else "?") for d in shape.dim) + "]"
