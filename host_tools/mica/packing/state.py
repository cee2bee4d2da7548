"""Streaming models: pairs of a model input and a model output become one tensor that lives from run to run.

    before:  inputs x, h      steps ...           outputs y, h'
    after:   inputs x         h = S, ..., S = h'  outputs y       S: a state tensor, 0 after loading

    after, in place:  S' = scatter(S, rows, i): the step that writes rows of S writes them where they lie,
    and nothing is copied

A cache is of the second kind: a scatter_s8 alone reads the input, and makes the output.
All else that reads the cache reads it with the new rows in it;
so a run that was cut short and is repeated writes the same rows before anything reads them. Other rows it leaves alone.

The copies are steps of their own, the first and the last. So S changes only once everything has been computed: a run
that was cut short before them leaves the state as it was.
"""

import math
import re
from collections.abc import Callable, Sequence

import numpy as np

from mica.errors import MicaError
from mica.file import order
from mica.file.codec import ModelFile, StepRecord, TensorRecord
from mica.format import schema
from mica.format.values import HIGH, HIGH16, LOW, LOW16, saturate
from mica.ir.graph import Graph, StatePair


def hold(g: Graph, pairs: Sequence[StatePair]) -> None:
    """Notes in an integer graph which pairs are written in place, and where their bytes are in the space of states."""
    readers = g.consumers()
    makers = g.producers()
    at = 0
    for source, result in pairs:
        step = makers.get(result)
        alone = step is not None and readers.get(source) == [step] and step.inputs.count(source) == 1
        if step is None or not alone or step.op != "scatter_s8" or step.inputs[0] != source or source in g.outputs:
            continue
        x, y = g.value(source), g.value(result)
        if x.quant == y.quant and g.outputs.count(result) == 1 and len(g.outputs) > len(pairs):
            x.held = y.held = at
            at += -(-x.bytes // schema.ALIGN) * schema.ALIGN


def with_state(model: ModelFile, pairs: Sequence[StatePair]) -> ModelFile:
    """The model, with each pair's input and output taken from its inputs and outputs. Raises MicaError.

    An output stays where it is the only one. Where the two have unlike scales the last copy converts.
    """
    first: list[StepRecord] = []
    last: list[StepRecord] = []
    tensors = list(model.tensors)
    inputs, outputs = list(model.inputs), list(model.outputs)
    offset = max(
        (-(-(t.offset + t.bytes) // schema.ALIGN) * schema.ALIGN for t in tensors if t.space == "state"), default=0
    )
    for source, result in pairs:
        x = _id(model, model.inputs, source, f"--state {source}={result}", "input")
        y = _id(model, model.outputs, result, f"--state {source}={result}", "output")
        a, b = tensors[x], tensors[y]
        if a.dims != b.dims or a.dtype != b.dtype or a.dtype not in ("int8", "int16"):
            raise MicaError(
                f"--state {source}={result}: the input is {a.dtype} {list(a.dims)}, the output {b.dtype} "
                f"{list(b.dims)}",
                todo="expected int8, or int16, of one shape",
            )
        inputs.remove(x)
        outputs.remove(y)
        if a.space == "state":
            continue
        state = len(tensors)
        tensors.append(TensorRecord(f"{source}.state", a.dtype, a.dims, a.scale, a.zero_point, "state", offset))
        offset += -(-a.bytes // schema.ALIGN) * schema.ALIGN
        first.append(_copy(f"{source}.take", tensors, state, x))
        last.append(_copy(f"{source}.keep", tensors, y, state))
    if not inputs:
        raise MicaError("--state: nothing is left that goes in", todo="a model needs an input that is no state")
    return ModelFile(
        tensors=tensors,
        steps=[*first, *model.steps, *last],
        inputs=inputs,
        outputs=outputs or model.outputs,
        metadata=model.metadata,
        strips=[order.moved(s, len(first)) for s in model.strips],
        arena_bytes=model.arena_bytes,
        state_bytes=offset,
    )


def _id(model: ModelFile, ids: Sequence[int], name: str, what: str, role: str) -> int:
    names = {model.tensors[t].name: t for t in ids}
    if name not in names:
        raise MicaError(
            f"{what}: the model has no {role} '{name}' that is free", todo=f"its {role}s are {', '.join(names)}"
        )
    return names[name]


def _copy(name: str, tensors: Sequence[TensorRecord], x: int, y: int) -> StepRecord:
    """y = x; through a table, which is the identity where both have one scale. int16 is multiplied, by 1 there."""
    a, b = tensors[x], tensors[y]
    if a.dtype == "int16":
        mantissa, exponent = math.frexp(a.scale / b.scale)
        factor = {"mult_a": round(mantissa * 2**30), "shift": 30 - exponent}
        params = {"mult_b": 0, "mult_ab": 0, "act_min": LOW16, "act_max": HIGH16}
        return StepRecord(name, "binary_s16", (x, x), (y,), factor | params)
    q = np.arange(LOW, HIGH + 1)
    if (a.scale, a.zero_point) != (b.scale, b.zero_point):
        q = np.rint((q - a.zero_point) * (a.scale / b.scale)) + b.zero_point
    return StepRecord(name, "lut_s8", (x,), (y,), {}, {"table": saturate(q)})


# Names of a pair: past_X and present_X, X_cache and X_after, X_in and X_out of a cache or state. Of an input that is
# called as a state (h, hx, hidden, cell0, state_in ...) the output is h_out, hx_next, hidden_new, celln, state_out ...
_PREFIXES = (
    ("past_key_values", "present"),
    ("past_key", "present_key"),
    ("past_value", "present_value"),
    ("past", "present"),
)
_SUFFIXES = (("_cache", "_after"), ("_cache", "_cache_out"), ("_cache_in", "_cache_out"), ("_state_in", "_state_out"))
_STATE = re.compile(
    r"(?P<name>(h|c|hx|cx|(hidden|cell)(_?states?)?|states?|memory|carry)(_?[1-9]\d*)?)(_?(in|0|prev|init))?"
)
_NEXT = ("out", "next", "new", "after", "n", "1", "t")


def _results(source: str) -> list[str]:
    """The names that the output might have."""
    found = [new + source[len(old) :] for old, new in _PREFIXES if source.startswith(old)]
    return found + [source[: -len(old)] + new for old, new in _SUFFIXES if source.endswith(old)]


def _next(source: str) -> list[str]:
    """The names that the output might have if an input is called as a state."""
    state = _STATE.fullmatch(source)
    return [] if state is None else [f"{state['name']}{join}{word}" for word in _NEXT for join in ("_", "")]


def find(g: Graph, given: Sequence[StatePair] = (), fed: Callable[[str], bool] = lambda name: False) -> list[StatePair]:
    """The pairs beside those that are given already: float inputs and outputs of one shape, by their names.

    Where a pair with a name of that kind is found, a pair X, X_after is one too. An input is left that is no state.
    fed: tells if there are samples of an input, as of h that is no state.
    """
    sources, results = {s for s, _ in given}, {r for _, r in given}
    free = [o for o in g.outputs if o not in results]
    pairs: list[StatePair] = []

    def pair(source: str, names: Sequence[str]) -> None:
        for result in names:
            if result in free and g.value(source).shape == g.value(result).shape:
                pairs.append((source, result))
                free.remove(result)
                return

    for source in g.inputs:
        if source not in sources:
            pair(source, [*_results(source), *([] if fed(source) else _next(source))])
    if pairs:
        for source in g.inputs:
            if source not in sources and source not in {s for s, _ in pairs}:
                pair(source, [f"{source}_after"])
    if len(pairs) + len(sources) == len(g.inputs) or not free:
        return []
    order = {name: k for k, name in enumerate(g.inputs)}
    return sorted(pairs, key=lambda p: order[p[0]])
