"""From an ONNX file to the bytes of a model: the stages in order, and what a report needs of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from mica import __version__, sounds
from mica.calibration import default_samples, doubts, samples_for
from mica.custom import NO_CUSTOM, CustomOps
from mica.errors import MicaError, Unsupported
from mica.format import joins, scores
from mica.format.codec import ModelFile, encode
from mica.format.names import clean, clean_lines
from mica.format.schema import SCRATCH_LIMIT
from mica.format.tokens import Tokens
from mica.importer import import_model
from mica.importer.onnx_file import file_sha256
from mica.ir.axes import Front
from mica.ir.front_end import IN_GRAPH
from mica.ir.graph import Graph
from mica.pack.pack import pack, set_scratch
from mica.pack.state import StateLink, hold, with_state
from mica.pack.tokens import with_tokens
from mica.passes import front_end as sound
from mica.passes import hear, pipeline, streaming
from mica.passes.streaming import Window
from mica.plan.budget import within_budget
from mica.plan.plan import Plan, apart, best_plan
from mica.plan.strips import Price
from mica.quantise import noise
from mica.quantise.choose_bits import Bits
from mica.quantise.choose_bits import apply as with_bits
from mica.quantise.features import balance
from mica.quantise.params import choose_quants, undetermined
from mica.quantise.parts import Split, split_outputs
from mica.quantise.quantise import quantise
from mica.quantise.scores import find as find_scores
from mica.quantise.spread import run as spread
from mica.quantise.stream import stream
from mica.quantise.tune import AUTO, Tuned, tune, untouched

Progress = Callable[[str, int, int], None]  # (what, done, of)


@dataclass(frozen=True)
class Ram:
    """`bytes` for tensors and scratch together (None: as many as it takes), and what steps cost on the core that counts.

    feed: whether the first picture among the inputs comes row by row from the caller, and is no tensor.
    """

    bytes: int | None
    price: Price
    feed: bool = False


@dataclass(frozen=True)
class Compiled:
    """A packed model, and the graphs it came from for reports and tests."""

    data: bytes
    model: ModelFile
    plan: Plan
    core: Graph  # float core operators, whose activations are those of the integer graph (channels equalised)
    tuned: Tuned
    integer: Graph  # kernels
    macs: int
    weight_bytes: int
    custom: CustomOps  # that it was compiled with
    made_up: bool  # the samples were


def compile_model(
    path: str | Path,
    calibration: Mapping[str, np.ndarray] | None = None,
    shapes: Mapping[str, int] | None = None,
    metadata: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    warn: Callable[[str], None] | None = None,
    calib_method: str = AUTO,
    plain: bool = False,
    scratch_limit: int = SCRATCH_LIMIT,
    states: Sequence[StateLink] = (),
    windows: Sequence[Window] = (),
    imported: Graph | None = None,
    custom: CustomOps = NO_CUSTOM,
    ram: Ram | None = None,
    tokens: Tokens | None = None,
    bits: Bits | None = None,
    front_end: tuple[str, Front, str] | None = None,
    step: Window | None = None,
) -> Compiled:
    """Compiles `path`; imported: the graph of `import_model`, where the caller has it already. It is used up.

    calibration: input name -> float32 samples [n, ...input shape without the batch]; None takes made-up samples, which
    costs accuracy, unless the model is quantised already. shapes: sizes of dynamic dimensions. warn: is told of what a
    person should know. calib_method: of `quantise.tune.CHOICES`. plain: ranges and nearest integers only, to compare.
    scratch_limit: bytes of RAM that speed may cost. states, windows: what makes a streaming model; the samples are then
    consecutive runs, and those of a window's input its new rows only. custom: operators of the user's own. ram: what tensors
    and scratch may take together; where they would take more, layers run in strips. tokens: the vocabulary of a language model.
    bits: which weights take four. front_end: the input that becomes sound, what
    turns it into features, and how that was asked for; the samples of that input are int16 ones, under the name `passes.front_end.SAMPLES`.
    Where the graph holds a front end (`passes.hear`), samples of that input are float, from -1 to 1; int16 ones are taken as well.
    step: new rows a run, of which layers compute their own new rows alone (quantise.stream); samples are whole windows.
    Raises MicaError and Unsupported, naming the file.
    """
    path = Path(path)
    if imported is None:
        imported = import_model(path, shapes, custom, front_end is not None)
    try:
        heard = None if front_end is not None else hear.found(hear.run(imported))
    except Unsupported as e:
        raise e.at(str(path)) from None
    if heard is not None and calibration is not None and heard[0] in calibration:
        calibration = {**calibration, heard[0]: sounds.as_reals(calibration[heard[0]], heard[1].step)}
    if warn is not None:
        for warning in imported.warnings:
            warn(warning)
    ties = [*imported.states, *states, *(streaming.window(imported, w) for w in windows)]
    streaming.check(imported, ties)
    try:
        core = pipeline.run(imported)
        if warn is not None and core.coarser:
            warn(_coarser(core.coarser))
        if front_end is not None:
            core = sound.put(core, front_end[1], front_end[0])
        unknown = undetermined(core)  # none in a model that is quantised already
        if unknown and calibration is None and warn is not None:
            warn(_made_up(core, unknown))
        samples = _samples(core, calibration, ties)
        if unknown and calibration is not None:
            core = balance(core, samples, [name for tie in ties for name in tie])
        core, splits = split_outputs(core, samples, {r for _, r in ties}) if unknown else (core, [])
        told = None if progress is None else (lambda done, of: progress("calibrating", done, of))
        full = calibration is not None and not plain
        if calibration is not None and warn is not None:
            for doubt in doubts(core, samples, {source for source, _ in ties}):
                warn(doubt)
        if unknown and full:
            core = spread(core, samples, ties)
        tuned = tune(core, samples, calib_method, full, told) if unknown else untouched(core, samples)
        _share_scales(tuned, ties)
        if tuned.unseen is not None and tuned.unseen.tuned.graph is not tuned.graph:
            _share_scales(tuned.unseen.tuned, ties)
        facts = _facts(path, imported, metadata, splits, front_end or (heard and (*heard, IN_GRAPH)))
        names = facts["labels"].split("\n") if "labels" in facts else []
        if (place := find_scores(core, samples, splits, {r for _, r in ties}, names)) is not None:
            facts[scores.KEY] = str(place)
        if bits is not None:
            measured = full or (calibration is not None and not unknown)
            layers = None if progress is None else (lambda done, of: progress("four bits", done, of))
            handed_on = ties if step is None else []
            tuned = with_bits(
                tuned, samples, bits, lambda t: _file_bytes(t, facts, handed_on, tokens), measured, layers, ties
            )
        integer = quantise(tuned.graph, tuned.ranges)
    except Unsupported as e:
        raise e.at(str(path)) from None
    ties += noise.keep(integer, [n.outputs[0] for n in core.nodes if n.op == "LogMel" and n.attrs["front_end"].keeps])
    if step is not None:
        ties += stream(integer, step).ties
    if ram is None:
        hold(integer, ties)
    integer, layout = best_plan(integer)
    if ram is not None:
        if ram.feed and ties:
            raise MicaError("--feed: a streaming model keeps its input from run to run", todo="pack it without --feed")
        integer, layout = within_budget(integer, layout, ram.bytes, scratch_limit, ram.price, ram.feed)
        scratch_limit = scratch_limit if layout.scratch is None else layout.scratch
    model = pack(integer, layout, facts, scratch_limit=scratch_limit)
    if ties:
        model = with_state(model, ties)
        set_scratch(model, scratch_limit)
        # The copies of the state run before and behind the steps of the plan.
        copied = (len(model.steps) - len(layout.steps)) // 2
        ends = [layout.live_bytes[:1] * copied, layout.live_bytes[-1:] * copied]
        layout = replace(layout, live_bytes=[*ends[0], *layout.live_bytes, *ends[1]])
    if tokens is not None:
        model = with_tokens(model, tokens)
    return Compiled(
        data=encode(model),
        model=model,
        plan=layout,
        core=tuned.exact,
        tuned=tuned,
        integer=integer,
        macs=sum(s.macs for s in model.steps),
        weight_bytes=weight_bytes(model),
        custom=custom,
        made_up=calibration is None,
    )


def _facts(
    path: Path,
    imported: Graph,
    metadata: Mapping[str, str] | None,
    splits: Sequence[Split],
    front_end: tuple[str, Front, str] | None,
) -> dict[str, str]:
    """What a file says of where it comes from."""
    facts = {
        "name": clean(path.stem),
        "producer": f"mica {__version__}",
        "source": clean(path.name),
        "source_sha256": file_sha256(path),
        **({"labels": clean_lines("\n".join(clean(v) for v in imported.labels))} if imported.labels else {}),
        **({"frontend": clean(front_end[2]), "sample_rate": str(front_end[1].rate)} if front_end else {}),
        **{clean(key): clean_lines(value) for key, value in (metadata or {}).items()},
    }
    if any(s.parts > 1 for s in splits):
        facts[joins.KEY] = joins.text([(s.parts, s.axis, clean(s.name)) for s in splits])
    return facts


def trial(tuned: Tuned, metadata: Mapping[str, str] | None = None) -> tuple[ModelFile, bytes]:
    """A model to measure with: without a search for its plan, and with states as inputs and outputs. Raises Unsupported."""
    integer = quantise(tuned.graph, tuned.ranges)
    model = pack(integer, apart(integer), metadata or {})
    return model, encode(model)


def _file_bytes(tuned: Tuned, facts: Mapping[str, str], ties: Sequence[StateLink], tokens: Tokens | None) -> int:
    """What the file will take, but for the order of strips."""
    integer = quantise(tuned.graph, tuned.ranges)
    hold(integer, ties)
    model = pack(integer, apart(integer), facts)
    if ties:
        model = with_state(model, ties)
    if tokens is not None:
        model = with_tokens(model, tokens)
    return len(encode(model))


def within(compiled: Compiled, ram: Ram, scratch_limit: int = SCRATCH_LIMIT, say_least: bool = True) -> Compiled:
    """The same model, planned again for less memory. Raises MicaError with the least that can be, if it is to say it."""
    if compiled.model.state_bytes:
        raise MicaError(
            "a streaming model that is compiled already cannot be planned again for less memory",
            todo="name the memory when it is packed, with --ram",
        )
    layout = None if compiled.plan.strips else compiled.plan
    integer, plan = within_budget(compiled.integer, layout, ram.bytes, scratch_limit, ram.price, ram.feed, say_least)
    model = pack(integer, plan, compiled.model.metadata, scratch_limit if plan.scratch is None else plan.scratch)
    return replace(compiled, data=encode(model), model=model, plan=plan, integer=integer)


def _samples(
    core: Graph, calibration: Mapping[str, np.ndarray] | None, ties: Sequence[StateLink]
) -> list[dict[str, np.ndarray]]:
    """Samples with the states that they meet, one after the other."""
    if calibration is None:
        samples = default_samples(core)
    else:
        n = min((len(a) for a in calibration.values() if np.ndim(a)), default=0)
        zeros = {source: np.zeros((n, *core.value(source).shape), np.float32) for source, _ in ties}
        samples = samples_for(core, {**calibration, **zeros})
    if ties:
        streaming.play(core, samples, ties)
    return samples


def _share_scales(tuned: Tuned, ties: Sequence[StateLink]) -> None:
    """A state is read as it was written: the input takes the output's scale, where nothing gives it one of its own."""
    if not ties:
        return
    quants = choose_quants(tuned.graph, tuned.ranges)
    for source, result in ties:
        if quants[source] != quants[result] and tuned.graph.value(source).quant is None:
            tuned.graph.value(source).quant = quants[result]


def _coarser(names: Sequence[str]) -> str:
    """The warning that what came as int16 becomes int8."""
    shown = ", ".join(f"'{n}'" for n in names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"int16 tensors become int8, the same range in steps 256 times larger: {shown}; see the quality line"


def _made_up(core: Graph, unknown: Sequence[str]) -> str:
    """The warning that ranges come from made-up inputs; of a partly quantised model, where."""
    text = "no --calib: ranges come from made-up inputs; give real samples for real accuracy"
    makers = {o: node.name for node in core.nodes for o in node.outputs}
    names = list(dict.fromkeys(makers.get(name, name) for name in unknown))
    if any(v.quant is not None for v in core.values.values()):
        shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        text += f". The model leaves open the ranges of: {shown}"
    return text


def weight_bytes(model: ModelFile) -> int:
    """Bytes of all constants of all steps: weights, biases, multipliers, tables."""
    return sum(s.constant_bytes for s in model.steps)
