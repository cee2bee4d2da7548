"""A front end that an exporter wrote as a graph becomes a layer: LogMel, which reads samples of sound.

x [.., S] -> Pad -> STFT, or Conv or MatMul with cosines and sines -> squares,
sizes -> MatMul -> + or limit -> Log -> MatMul
    =>   x -> LogMel -> Transpose -> Reshape

Each value is followed by its meaning (`values`, `operators`), so the order of axes, and where a factor stands,
do not matter. Whatever is not of that kind stays as it is behind the last logarithm;
a spectrum that ends in no logarithm is refused, by the name of what it meets.
The input then takes int16 samples, each worth 2^-15.
"""

import numpy as np

from mica.errors import Unsupported
from mica.ir.front_end import FrontEnd
from mica.ir.graph import Graph, Node
from mica.kernels.audio import MOST_POINTS
from mica.passes import dead_code
from mica.passes.lower import sums
from mica.sound.recognise import operators, tables
from mica.sound.recognise.values import Bands, Lines, Logs, Recognised, Samples

UNIT = 2.0**-15  # of the graph's numbers: what a step of int16 is worth
USUAL_RATE = 16000
TRANSFORMS = ("STFT", "DFT")
REMEDY = "or export the model from its features on, and pack it with --frontend logmel:..."


def run(g: Graph) -> Graph:
    """An imported graph. Raises Unsupported where a spectrum cannot become a layer, naming the node."""
    if found(g) is not None or not _may(g):
        return g
    for name in list(g.inputs):
        v = g.value(name)
        if v.dtype == "float32" and v.quant is None and v.size == max(v.shape, default=0) > 1:
            _from(g, name)
    if left := [n for n in dead_code.run(g).nodes if n.op in TRANSFORMS and not sums.is_small(g, n)]:
        reasons = [f"node '{n.name}' ({n.op}): {_why_not(g, n)}; {REMEDY}" for n in left]
        raise Unsupported.because("cannot be packed", reasons)
    return g


def found(g: Graph) -> tuple[str, FrontEnd] | None:
    """The input that is sound, and its front end; None where there is none."""
    for node in g.nodes:
        if node.op == "LogMel" and node.inputs[0] in g.inputs:
            return node.inputs[0], node.attrs["front_end"]
    return None


def _may(g: Graph) -> bool:
    """True if the graph has a logarithm or a transform. Other graphs have no front end to look for."""
    ops = {n.op for n in g.nodes}
    return "Log" in ops or bool(ops & set(TRANSFORMS))


def _follow(g: Graph, name: str) -> dict[str, Recognised]:
    shape = g.value(name).shape
    known: dict[str, Recognised] = {name: Samples(np.arange(g.value(name).size).reshape(shape), np.ones(shape))}
    for node in g.nodes:
        if any(i in known for i in node.inputs):
            for o, v in zip(node.outputs, operators.apply(g, node, known) or (), strict=False):
                if o and g.value(o).quant is None:
                    known[o] = v
    return known


def _from(g: Graph, name: str) -> None:
    """Layers in the place of what is known of sound; where one of them cannot be,
    nothing is changed but for a reason that is kept."""
    known = _follow(g, name)
    ends = _ends(g, known)
    if not ends:
        return
    made: list[tuple[str, list[Node]]] = []
    values = set(g.values)
    try:
        for end in ends:
            made.append((end, _layer(g, name, end, known[end])))
    except ValueError as e:
        for new in set(g.values) - values:
            del g.values[new]
        _refuse_transform(g, known, str(e))
        return
    makers = g.producers()
    for end, nodes in made:
        g.remove(makers[end])
        g.nodes[:0] = nodes
    dead_code.run(g)
    others = [n for n in g.consumers().get(name, []) if n.op != "LogMel"]
    if others or name in g.outputs:
        what = f"node '{others[0].name}' ({others[0].op})" if others else "an output"
        raise Unsupported.because(
            "cannot be packed",
            [f"node '{n.name}' (LogMel): '{name}' is sound, which {what} takes as numbers" for n in made[0][1][:1]],
        )


def _refuse_transform(g: Graph, known: dict[str, Recognised], why: str) -> None:
    """Refuse the transform of a graph that has one, which no other way leads past; a net whose weights merely look
    like one is a net."""
    for node in g.nodes:
        if node.op in TRANSFORMS and node.outputs[0] in known:
            raise Unsupported.because("cannot be packed", [f"node '{node.name}' ({node.op}): {why}"])


def _ends(g: Graph, known: dict[str, Recognised]) -> list[str]:
    """Logarithms that something else reads, each in an order of rows or columns."""
    makers, ends = g.producers(), []
    for name, v in known.items():
        if not isinstance(v, Logs):
            continue
        outside = name in g.outputs or any(not any(o in known for o in n.outputs) for n in g.consumers().get(name, []))
        if not outside:
            continue
        while tables.layout(known[name].at, len(v.matrix)) is None:
            name = next(i for i in makers[name].inputs if i in known)
            before = known[name]
            if not isinstance(before, Logs):
                return []
            v = before
        ends.append(name)
    return list(dict.fromkeys(ends))


def _layer(g: Graph, x: str, end: str, v: Recognised) -> list[Node]:
    """Nodes that make `end` of the input x. Raises ValueError where that cannot be."""
    assert isinstance(v, Logs)
    order = tables.layout(v.at, len(v.matrix))
    assert order is not None
    frames, columns, turned = order
    front_end = _front_end(g, g.value(x).size, v, frames, columns)
    shape = (1, front_end.frames, front_end.columns)
    y = g.new_value(f"{end}.rows", shape)
    nodes = [Node("LogMel", y, [x], [y], {"front_end": front_end})]
    if turned:
        other = g.new_value(f"{end}.columns", (1, shape[2], shape[1]))
        nodes.append(Node("Transpose", other, [y], [other], {"perm": [0, 2, 1]}))
        y = other
    nodes.append(Node("Reshape", end, [y], [end]))
    return nodes


def _front_end(g: Graph, samples: int, v: Logs, frames: np.ndarray, columns: np.ndarray) -> FrontEnd:
    bands = v.of
    found = tables.band_tables(bands)
    places = bands.of.places[frames]
    try:
        where = tables.places_of(places[:, found.first : found.first + len(found.window)], samples)
        window = found.window
    except ValueError:  # a window with zeros before it, of frames that begin with the sound
        where = tables.places_of(places, samples)
        window = np.zeros(places.shape[1])
        window[found.first : found.first + len(found.window)] = found.window
    fft = max(found.fft, 1 << (len(window) - 1).bit_length())
    filters = found.filters
    if fft != found.fft:
        if fft > MOST_POINTS:
            raise ValueError(f"its frames have {len(window):,} samples; expected at most {MOST_POINTS:,}")
        filters = np.zeros((len(filters), fft // 2 + 1))
        filters[:, :: fft // found.fft] = found.filters
    factor, matrix = tables.as_factor(v)
    matrix = None if matrix is None else matrix[columns]
    if matrix is None and not np.array_equal(columns, np.arange(len(v.matrix))):
        filters = filters[columns]
    shift = v.shift[columns]
    whole = 1 + (samples - len(window)) // where.hop if samples >= len(window) else 0
    rate = tables.rate_of(found)
    if not rate:
        rate = USUAL_RATE
        g.warnings.append(
            f"nothing in the model says how many samples a second its sound has; {rate:,} are taken for .wav files"
        )
    if found.between:
        g.warnings.append(
            f"the transform of frames of {len(found.window)} samples is no power of two: its lines are taken between "
            f"those of one of {fft:,} points, {fft // (1 << (len(found.window) - 1).bit_length())} times the work of "
            f"n_fft={1 << (len(found.window) - 1).bit_length()}"
        )
    return FrontEnd(
        rate=rate,
        samples=samples,
        frame=len(window),
        hop=where.hop,
        fft=fft,
        window=window,
        filters=filters,
        dct=matrix,
        power=bands.power,
        peak=False,
        preemphasis=0.0,
        floor=bands.floor or 0.0,
        limit=bands.limit,
        factor=factor,
        shift=float(shift[0]) if (shift == shift[0]).all() else shift,
        unit=UNIT,
        step=UNIT,
        least=v.least,
        most=v.most,
        pad=where.pad,
        edges=where.edges or ("" if where.pad == 0 and len(frames) == whole else "zeros"),
        rows=len(frames),
    )


def _why_not(g: Graph, node: Node) -> str:
    """The reason why a transform does not lead to features."""
    sounds = [name for name in g.inputs if g.value(name).size == max(g.value(name).shape, default=0) > 1]
    known: dict[str, Recognised] = {}
    for name in sounds:
        known |= _follow(g, name)
    if node.outputs[0] not in known:
        return (
            f"it reads no frames, of {MOST_POINTS:,} samples at most, of an input [1, samples], "
            "or its window and steps are not constant"
        )
    names, met = {node.outputs[0]}, node
    for other in g.nodes:
        if names & set(other.inputs):
            met = other
            if not any(o in known for o in other.outputs):
                break
            names |= set(other.outputs)
    last = next((known[i] for i in met.inputs if i in known), None)
    stage = {Lines: "real and imaginary parts", Bands: "energies of bands"}.get(type(last), "samples")
    return (
        f"of it {stage} go into node '{met.name}' ({met.op}); expected squares or sizes, a matrix of filters of at "
        "least 0, and a logarithm: 8 bits hold no spectrum without one"
    )
