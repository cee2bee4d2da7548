"""TensorFlow Lite file -> Graph, by the way of an ONNX model in memory; no TensorFlow is needed.

    bytes -> flatbuffer -> model (tensors, operators) -> composites -> operators/ (ONNX nodes)
    -> the ONNX importer -> Graph

`schema.py` has the file format's numbers, `operators/` a row for every operator that mica takes.
"""

from pathlib import Path

import onnx

from mica.errors import MicaError, Unsupported
from mica.importer.onnx_file import import_proto
from mica.importer.tflite import composites, signal
from mica.importer.tflite.flatbuffer import Damaged, NotForUs
from mica.importer.tflite.model import Model
from mica.importer.tflite.model import read as read_model
from mica.importer.tflite.net import Net
from mica.importer.tflite.operators import write
from mica.ir.graph import Graph, Node, Value
from mica.printable import printable

MOST_REASONS = 20


def import_tflite(path: str | Path) -> Graph:
    """Reads `path`. Its variable tensors are `states` of the graph. Raises MicaError and Unsupported."""
    path = Path(path)
    net = _read(path)
    g = import_proto(path, net.proto(path.stem), net.opset)
    if net.front_end_found is not None:
        _insert_front_end(g, net, net.front_end_found)
    for name, shape in net.shapes.items():
        if name in g.values and g.value(name).shape != shape:
            raise MicaError(
                f"{path}: damaged: '{name}' has the shape {list(shape)}; its operator gives {list(g.value(name).shape)}"
            )
    g.states = net.states
    g.coarser = list(net.coarser.values())
    return g


def as_onnx(path: str | Path) -> onnx.ModelProto:
    """The model as an ONNX file would have it, rounded where its integers round. Raises MicaError and Unsupported."""
    net = _read(Path(path))
    if net.front_end_found is not None:
        raise Unsupported(f"{path}: ONNX has no operators for its features of sound; what runs it is the packed model")
    net.nodes = _needed(net)
    proto = net.proto(Path(path).stem)
    for node in proto.graph.node:
        node.name = node.output[0]  # ONNX Runtime takes each name once
        for a in [a for a in node.attribute if a.name in ("cell_bits", "cell_scale", "ties_down")]:  # mica's own
            node.attribute.remove(a)
    return proto


def _needed(net: Net) -> list[onnx.NodeProto]:
    """The nodes that outputs depend on. Nodes that compute a shape drop out, because the file says all shapes."""
    names, found = set(net.outputs), []
    for node in reversed(net.nodes):
        if not names.isdisjoint(node.output):
            names.update(node.input)
            found.append(node)
    return found[::-1]


def _insert_front_end(g: Graph, net: Net, front_end_found: signal.Found) -> None:
    """Samples -> LogMel -> Reshape -> features, in the place of the features as an input."""
    f, features = front_end_found.front_end, g.value(net.features)
    samples = g.values[net.name(front_end_found.samples)] = Value(
        net.name(front_end_found.samples), net.shape(front_end_found.samples)
    )
    rows = g.value(g.new_value(f"{net.features}.rows", (1, f.frames, f.columns)))
    features.quant = rows.quant = front_end_found.quant
    layer = Node("LogMel", rows.name, [samples.name], [rows.name], {"front_end": f})
    g.nodes[:0] = [layer, Node("Reshape", features.name, [rows.name], [features.name])]
    kept = [name for name in g.inputs if name != features.name]
    at = list(net.model.inputs).index(front_end_found.samples)
    g.inputs = [*kept[:at], samples.name, *kept[at:]]
    g.warnings.append(
        f"nothing in the model says how many samples a second its sound has, or how far frames lie apart; {f.rate:,} "
        f"and {f.hop} samples are taken"
    )
    if front_end_found.coarse:
        g.warnings.append("its features are rounded in a way of their own: some differ from the file's by one step")


def _read(path: Path) -> Net:
    try:
        model = composites.inlined(read_model(path))
    except OSError as e:
        raise MicaError(f"{path}: cannot be read: {e.strerror}") from None
    except NotForUs as e:
        raise Unsupported(f"{path}: {e}", [str(e)]) from None
    except Damaged as e:
        raise MicaError(f"{path}: damaged: {printable(str(e))}") from None
    return _written(path, model)


def _written(path: Path, model: Model) -> Net:
    try:
        front_end_found = signal.find(model)
    except ValueError as e:
        raise Unsupported.because(f"{path}: cannot be packed", [str(e)]) from None
    net = Net(model, front_end_found)
    net.write = write
    reasons: list[str] = []
    try:
        net.add_inputs()
    except ValueError as e:
        raise Unsupported(f"{path}: {e}", [str(e)]) from None
    for op in model.operators:
        if front_end_found is not None and op.index in front_end_found.operators:
            continue
        problem = write(net, op)
        if problem:
            reasons.append(problem)
            for y in op.outputs:  # what reads it is no problem of its own
                net.real.setdefault(y, "unknown")
    if reasons:
        more = [f"and {len(reasons) - MOST_REASONS} more"] if len(reasons) > MOST_REASONS else []
        raise Unsupported.because(f"{path}: cannot be packed", reasons, reasons[:MOST_REASONS] + more)
    try:
        net.keep_variables()
        net.add_outputs()
    except ValueError as e:
        raise Unsupported(f"{path}: {e}", [str(e)]) from None
    return net
