"""Pairs of an input and an output that are one state, found by their names.

past_X  present_X       past_key_values.X  present.X       X_cache  X_after, X_cache_out       X_in  X_out, of a cache or state
h, hx, hidden, cell0, state_in, ...  h_out, hx_next, hidden_new, celln, state_out, ...
"""

import re
from collections.abc import Callable, Sequence

from mica.ir.graph import Graph, StatePair

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
