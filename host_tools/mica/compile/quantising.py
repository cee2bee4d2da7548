"""Stages from the source's operators to integers: core operators, samples, ranges, bits."""

from collections.abc import Sequence

import numpy as np

from mica.compile.state import State
from mica.data.calibration import default_samples, doubts, samples_for
from mica.file.codec import ModelFile, encode
from mica.ir.front_end import FrontEnd
from mica.ir.graph import Graph, StatePair
from mica.packing.model import pack
from mica.packing.state import hold, with_state
from mica.packing.tokens import with_tokens
from mica.passes import carried, pipeline, streaming
from mica.plan.plan import apart
from mica.printable import shown
from mica.quantise import fine, layer_parts, unlike
from mica.quantise import quantise as integers
from mica.quantise.choose_bits import apply as with_bits
from mica.quantise.equalise_shared import run as spread
from mica.quantise.features import balance
from mica.quantise.margins import never_seen
from mica.quantise.params import choose_quants, undetermined
from mica.quantise.parts import split_outputs
from mica.quantise.rows import spread as spread_rows
from mica.quantise.tune import ALL, Tuned, macs, thin, tune, untouched
from mica.sound import insert as front_end


def lower(s: State) -> State:
    """graph of the source's operators -> core operators, behind the front end of --frontend"""
    told = len(s.graph.warnings)
    s.graph = carried.run(pipeline.run(s.graph), s.pairs)
    for warning in s.graph.warnings[told:]:
        s.warn(warning)
    if s.graph.coarser:
        names = shown([f"'{n}'" for n in s.graph.coarser], 3)
        s.warn(f"int16 tensors become int8, the same range in steps 256 times larger: {names}; see the quality line")
    if s.sound is not None and not s.in_graph:
        s.graph = front_end.put(s.graph, s.sound.front, s.sound.name)
    s.unknown = undetermined(s.graph)  # none in a model that is quantised already
    return s


def sample(s: State) -> State:
    """One dict of inputs for each sample, with the states that it meets; made-up ones where there are none."""
    if s.unknown and s.calibration is None:
        s.warn(_made_up(s.graph, s.unknown))
    front = None if s.sound is None else s.sound.front
    if s.unknown and s.sound is not None and isinstance(front, FrontEnd) and front.keeps and front.has_noise:
        s.warn(
            f"--frontend {s.sound.text}: its noise begins anew with each sample of calibration, and goes on in the "
            "packed model: ranges may be too wide"
        )
    s.samples = _samples(s)
    if s.unknown and s.calibration is not None:
        s.graph = balance(s.graph, s.samples, [name for pair in s.pairs for name in pair])
    return s


def split(s: State) -> State:
    """Outputs, and layers, whose parts have ranges of very different sizes become several."""
    if s.unknown and s.calibration is not None:
        s.graph = layer_parts.run(s.graph, s.samples)
    if s.unknown and s.job.embedding is None:  # one scale: distances are taken between its numbers
        s.graph, s.splits = split_outputs(s.graph, s.samples, {r for _, r in s.pairs})
    if s.calibration is not None:
        s.doubts = doubts(s.graph, s.samples, {source for source, _ in s.pairs})
        for doubt in s.doubts:
            s.warn(doubt)
    return s


def equalise(s: State) -> State:
    """Channels of one tensor made alike across layers, where samples can tell."""
    if s.unknown and s.calibration is not None and not s.job.plain:
        s.graph = fine.run(spread(unlike.run(s.graph, s.samples), s.samples, s.pairs), s.samples)
    return s


def choose_ranges(s: State) -> State:
    """The recipe, and each activation's range."""
    full = s.calibration is not None and not s.job.plain
    if not s.unknown:
        s.tuned = untouched(s.graph, s.samples)
    else:
        s.tuned = tune(s.graph, s.samples, s.job.calib_method, full, s.progress("calibrating"))
        if s.calibration is not None and not s.doubts:
            few = thin(s.samples, max(32, ALL // max(macs(s.graph), 1)))
            for line in never_seen(s.tuned.exact, few, s.labels):
                s.warn(line)
    _share_scales(s.tuned, s.pairs)
    if s.tuned.unseen is not None and s.tuned.unseen.tuned.graph is not s.tuned.graph:
        _share_scales(s.tuned.unseen.tuned, s.pairs)
    return s


def choose_bits(s: State) -> State:
    """Weights of four bits, in as many layers as the job's limit needs."""
    bits = s.job.bits
    if bits is None:
        return s
    given = s.calibration is not None
    measured = given and not (s.unknown and s.job.plain)
    handed_on = s.pairs if s.job.step is None else []
    s.tuned = with_bits(
        s.tuned, s.samples, bits, lambda t: _file_bytes(s, t, handed_on), measured, s.progress("four bits"), s.pairs
    )
    return s


def quantise(s: State) -> State:
    """float graph and ranges -> graph of kernels"""
    s.integer = integers.quantise(s.tuned.graph, s.tuned.ranges)
    return s


def trial(tuned: Tuned) -> tuple[ModelFile, bytes]:
    """A model to measure with: without a search for its plan, and with states as inputs and outputs.
    Raises Unsupported."""
    integer = integers.quantise(tuned.graph, tuned.ranges)
    model = pack(integer, apart(integer), {})
    return model, encode(model)


def _file_bytes(s: State, tuned: Tuned, pairs: Sequence[StatePair]) -> int:
    """The size of the file that these weights give, but for the order of strips."""
    integer = integers.quantise(tuned.graph, tuned.ranges)
    hold(integer, pairs)
    model = pack(integer, apart(integer), s.facts)
    if pairs:
        model = with_state(model, pairs)
    if s.job.tokens is not None:
        model = with_tokens(model, s.job.tokens)
    return len(encode(model))


def _samples(s: State) -> list[dict[str, np.ndarray]]:
    """Samples with the states that they meet, one after the other."""
    core, calibration = s.graph, s.calibration
    if calibration is None:
        samples = default_samples(core)
        s.graph = spread_rows(core, samples)
    else:
        n = min((len(a) for a in calibration.values() if np.ndim(a)), default=0)
        zeros = {source: np.zeros((n, *core.value(source).shape), np.float32) for source, _ in s.pairs}
        arrays = {**calibration, **zeros}
        s.graph = core = spread_rows(core, samples_for(core, arrays, finite=False))
        samples = samples_for(core, arrays)
    if s.pairs:
        streaming.play(core, samples, s.pairs)
    return samples


def _share_scales(tuned: Tuned, pairs: Sequence[StatePair]) -> None:
    """A state is read as it was written: the input takes the output's scale, where nothing gives it one of its own."""
    if not pairs:
        return
    quants = choose_quants(tuned.graph, tuned.ranges)
    for source, result in pairs:
        if quants[source] != quants[result] and tuned.graph.value(source).quant is None:
            tuned.graph.value(source).quant = quants[result]


def _made_up(core: Graph, unknown: Sequence[str]) -> str:
    """The warning that ranges come from made-up inputs; of a partly quantised model, where."""
    text = "no --calib: ranges come from made-up inputs; give real samples for real accuracy"
    makers = {o: node.name for node in core.nodes for o in node.outputs}
    names = list(dict.fromkeys(makers.get(name, name) for name in unknown))
    if any(v.quant is not None for v in core.values.values()):
        text += f". The model leaves open the ranges of: {shown(names, 5)}"
    return text
