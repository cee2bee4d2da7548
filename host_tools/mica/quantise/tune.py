"""From a float graph and calibration samples to the graph, with ranges, that loses least as integers.

    equalise.py   channels of one activation made alike                                  (exact in float)
    ranges.py     the range of each activation, by the method that its readers like best
    rounding.py   weights to integers, biases corrected

Each of them chooses on one half of the samples it is given, and measures on the other. The same test shows if they
serve a network at all. Each recipe below is carried out on half of the samples. The error that it leaves in the
network's outputs is measured on the other half; if that is cheap, the halves also swap. The best one, or a simpler one
that is as good, is then carried out with all samples. So no network gets worse, as far as its samples can tell.

Few samples (below 8) or made-up ones allow no such test: their networks get ranges and nearest integers. Above 100
million multiplications each pass takes long. There the ranges still come from all samples, and a few samples test if
rounding weights by their effect serves the network. Networks near that limit are tested with fewer samples than there
are. `Tuned.tried` lists the recipes that were tried, so that nothing is left out in silence.

All samples make the result, so none is left to say how good it is with others. The loss on others is measured as in
cross-validation, on a network made in the same way of some of the samples: `Tuned.unseen`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from mica.errors import MicaError
from mica.ir.graph import Graph, Node, Quant
from mica.quantise import equalise, moments, ranges, room, rounding, rounding_recurrent, simulate
from mica.quantise.calibrate import Progress, Runs, Samples, observe
from mica.quantise.histogram import Histogram, Range
from mica.quantise.methods import METHODS
from mica.quantise.params import choose_quants
from mica.reference import batch

AUTO = "auto"
CHOICES = (AUTO, *METHODS)

MIN_SAMPLES = 8
MAX_MACS = 100_000_000
ALL = 3_000_000_000  # multiplications of one run over all samples; above, some are left out, down to 32
# Multiplications that one run over the samples of a question may take; 8 or 16 samples at least, 64 or 128 at most.
TRIED = 80_000_000  # candidates for one pair or activation
MOMENTS = 150_000_000  # covariances, of each half
COMPARED = 250_000_000  # recipes

FEW = 4_000_000_000  # recipes of a network above MAX_MACS: 8 samples at least, 32 at most

TWICE = 500_000_000  # multiplications of one run over all samples, up to which both halves take turns
MARGIN = 0.2  # dB; what is simpler wins below that


@dataclass(frozen=True)
class Recipe:
    """A combination of methods that change a network before it becomes integers."""

    name: str
    equalise: bool = False
    round: bool = False  # weights chosen by their effect, biases corrected
    auto: bool = False  # ranges by measured error, elsewhere by one method for all


PLAIN = Recipe("plain")
ROUNDED = Recipe("rounded", round=True)
RECIPES = (
    PLAIN,
    ROUNDED,
    Recipe("rounded, ranges by error", round=True, auto=True),
    Recipe("equalised, rounded", equalise=True, round=True),
    Recipe("equalised, rounded, ranges by error", equalise=True, round=True, auto=True),
)


@dataclass(frozen=True)
class Tuned:
    """graph: what to quantise, with weights on their grids. exact: the float graph with the same activations.

    tried: which recipes were compared, for a person. unseen: to measure quality with.
    """

    graph: Graph
    exact: Graph
    ranges: Mapping[str, Range]
    methods: Mapping[str, str]  # activation -> calibration method
    recipe: Recipe
    tried: str = ""
    unseen: Unseen | None = None


@dataclass(frozen=True)
class Unseen:
    """A network made with the same recipe of some samples, seen, and others, which it did not see: "held out". Where
    there is but one sample, that one: "calibration"."""

    tuned: Tuned
    samples: Samples
    seen: Samples = ()
    kind: str = "held out"


def tune(g: Graph, samples: Samples, method: str = AUTO, full: bool = True, progress: Progress | None = None) -> Tuned:
    """full: False for ranges alone. Raises MicaError where the samples cannot be used."""
    if method not in CHOICES:
        raise MicaError(f"calibration method '{method}' is not known", todo=f"expected one of {', '.join(CHOICES)}")
    simple = "minmax" if method == AUTO else method
    if not full or len(samples) < MIN_SAMPLES:
        tried = (
            "" if not full else f"{len(samples)} samples are too few to choose a recipe; expected {MIN_SAMPLES} or more"
        )
        return _ranges_only(g, samples, simple, tried, _Stages(progress, len(samples)))
    if macs(g) > MAX_MACS:
        return _large(g, samples, simple, progress)
    samples = thin(samples, _number(g, ALL, 32, len(samples)))
    ends = method == AUTO and not room.needed(g, len(samples))  # ranges may end before what was seen
    recipes = [r for r in _in_order(g) if ends or not r.auto]
    work = macs(g) * len(samples)
    folds = 2 if work <= TWICE else 1
    batch.keep_memory()
    stages = _Stages(progress, len(samples) * 3)
    held = [thin(samples[1 - fold :: 2], _number(g, COMPARED, 16, 128)) for fold in range(folds)]
    uses = [_uses(g, samples[fold::2]) for fold in range(folds)] + [_uses(g, samples)]
    again = [sample for part in (*held, *(part for use in uses for part in use)) for sample in part]
    floats = _Floats(g, samples, stages, again)
    floats.seen(0, 1)  # first of all, refuses bad samples by their numbers
    noise = np.zeros(len(recipes))
    for fold in range(folds):
        bench = _Bench(floats, simple, recipes, fold, 2)
        stages.next(len(samples) // folds)
        built = [bench.build(recipe) for recipe in recipes]
        noise += _noise(built, held[fold], bench.runs)
    noise /= folds
    best = int(np.argmax(noise <= noise.min() + MARGIN))
    unseen = Unseen(built[best], held[-1], samples[folds - 1 :: 2])
    del built, bench
    stages.next(len(samples))
    tuned = _Bench(floats, simple, [recipes[best]]).build(recipes[best])
    stages.end()
    return replace(tuned, tried=f"best of {len(recipes)} on {len(samples)} samples", unseen=unseen)


def _in_order(g: Graph) -> list[Recipe]:
    """The recipes, the first of those that are as good wins: the simpler one. With recurrent layers `plain` comes last:
    errors of their weights add up over time steps, and sequences may be longer than those of the samples."""
    return sorted(RECIPES, key=lambda r: r is PLAIN) if rounding_recurrent.nodes(g) else list(RECIPES)


def _ranges_only(g: Graph, samples: Samples, method: str, tried: str, stages: _Stages) -> Tuned:
    """Ranges by one method, and nearest integers."""
    held = range(3, len(samples), 4) if len(samples) > 3 else range(1, len(samples))
    rest = [k for k in range(len(samples)) if k not in held]
    found, some = _found(g, samples, method, rest, held, stages)
    stages.end()
    known = dict.fromkeys(found, method)
    others, kind = ([samples[k] for k in held], "held out") if held else (samples, "calibration")
    seen = [samples[k] for k in rest] if held else ()
    return Tuned(g, g, found, known, PLAIN, tried, Unseen(Tuned(g, g, some, known, PLAIN), others, seen, kind))


def _found(
    g: Graph, samples: Samples, method: str, rest: Sequence[int], held: Sequence[int], stages: _Stages
) -> tuple[dict[str, Range], dict[str, Range]]:
    """Ranges from all samples, and from those that are not held out."""
    seen = [
        observe(g, [samples[k] for k in part], stages.next(len(part)), numbers=part) for part in (rest, held) if part
    ]

    def made(histograms: Mapping[str, Histogram]) -> dict[str, Range]:
        """Ranges with room; inputs have none, for what comes in a few values keeps them."""
        ends = {name: METHODS[method](h) for name, h in histograms.items()}
        return room.spread(g, ends, len(samples)) | {name: ends[name] for name in g.inputs}

    return made(_merged(seen)), made(seen[0])


def _large(g: Graph, samples: Samples, method: str, progress: Progress | None) -> Tuned:
    """Ranges from all samples; a few say whether weights rounded by their effect are better than the nearest."""
    n = min(_number(g, FEW, MIN_SAMPLES, 32), len(samples))
    chosen = [k * len(samples) // n for k in range(n)]
    held = chosen[1::2]
    rest = [k for k in range(len(samples)) if k not in held]
    fit, others = [samples[k] for k in chosen[0::2]], [samples[k] for k in held]
    stages = _Stages(progress, len(samples) + 3 * n)
    found, some = _found(g, samples, method, rest, held, stages)
    quants = choose_quants(g, some)
    plain = Tuned(_plain(g, quants), g, some, dict.fromkeys(some, method), PLAIN)
    noise = simulate.noise(g, [(plain.graph, choose_quants(plain.graph, some))], others)
    stages.next(n // 2)
    rounded = replace(plain, graph=_rounded(g, (fit[0::2], fit[1::2]), quants), recipe=ROUNDED)
    stages.next(n // 2)
    noise += simulate.noise(g, [(rounded.graph, choose_quants(rounded.graph, some))], others)
    stages.next(n)
    tried = f"best of {PLAIN.name} and {ROUNDED.name}, the others being left out above {MAX_MACS:,} multiplications, "
    tried += f"on {n} of {len(samples)} samples"
    if noise[0] <= noise[1] + MARGIN:
        stages.end()
        return Tuned(g, g, found, plain.methods, PLAIN, tried, Unseen(plain, others, [samples[k] for k in rest]))
    quants, methods = choose_quants(g, found), plain.methods
    del plain  # its weights
    graph = _rounded(g, (fit, others), quants)
    stages.end()
    return Tuned(graph, g, found, methods, ROUNDED, tried, Unseen(rounded, others, [samples[k] for k in rest]))


def _plain(g: Graph, quants: Mapping[str, Quant]) -> Graph:
    """Weights to the nearest integers."""
    return rounding_recurrent.plain(rounding.plain(copy(g), quants), quants)


def _rounded(g: Graph, halves: Sequence[Samples], quants: Mapping[str, Quant]) -> Graph:
    """Weights by their effect."""
    a, b = (moments.measure(g, part, quants) for part in halves)
    of_a, of_b = (rounding_recurrent.measure(g, part, quants) for part in halves)
    return rounding_recurrent.run(rounding.run(copy(g), a, b, quants), of_a, of_b, quants)


def _noise(built: Sequence[Tuned], samples: Samples, runs: Callable[[Graph], Runs]) -> np.ndarray:
    """Error of the outputs on samples that had no part in making the networks, in dB, for each of them."""
    result = np.zeros(len(built))
    for exact in {id(v.exact): v.exact for v in built}.values():  # most share it, and then its runs
        graphs = {id(v.graph): v for v in built if v.exact is exact}
        tried = [(v.graph, choose_quants(v.graph, v.ranges)) for v in graphs.values()]
        found = dict(zip(graphs, simulate.noise(exact, tried, samples, runs(exact)), strict=True))
        for k, v in enumerate(built):
            result[k] = found.get(id(v.graph), result[k])
    return result


def untouched(g: Graph, samples: Samples = ()) -> Tuned:
    """Return a model that came with all its scales, so that it saw none of the samples."""
    tuned = Tuned(g, g, {}, {}, PLAIN)
    return replace(tuned, unseen=Unseen(tuned, samples)) if samples else tuned


Halves = tuple[dict[str, Histogram], dict[str, Histogram]]


class _Floats:
    """The float graph over all samples: its runs, and what was seen in each quarter of the samples."""

    def __init__(self, g: Graph, samples: Samples, stages: _Stages, again: Samples) -> None:
        self.g, self.samples, self.stages = g, samples, stages
        self.runs = Runs(g, again=again)
        self._quarters: dict[int, tuple[dict[str, Histogram], equalise.Channels]] = {}

    def seen(self, first: int, step: int) -> tuple[Halves, equalise.Channels, equalise.Channels]:
        """Histograms of both halves of samples[first::step]; channel ranges of the first half and of both.
        step: 1 or 2."""
        halves = [[self._quarter(q) for q in range(first + h * step, 4, 2 * step)] for h in (0, 1)]
        a, b = ([seen for seen, _ in half] for half in halves)
        of_first, of_second = (_largest([found for _, found in half]) for half in halves)
        return (_merged(a), _merged(b)), of_first, _largest([of_first, of_second])

    def _quarter(self, q: int) -> tuple[dict[str, Histogram], equalise.Channels]:
        if q not in self._quarters:
            samples, numbers = self.samples[q::4], range(q, len(self.samples), 4)
            channels = equalise.channels(self.g)
            told = self.stages.next(len(samples))
            self._quarters[q] = observe(self.g, samples, told, channels, numbers, self.runs), channels
        return self._quarters[q]


def _merged(parts: Sequence[dict[str, Histogram]]) -> dict[str, Histogram]:
    return parts[0] if len(parts) == 1 else {name: h.merged(parts[1][name]) for name, h in parts[0].items()}


def _largest(parts: Sequence[equalise.Channels]) -> equalise.Channels:
    return {name: np.maximum.reduce([part[name] for part in parts]) for name in parts[0]}


def _uses(g: Graph, samples: Samples) -> tuple[Samples, Samples, Samples]:
    """Return of the samples of a bench those that candidates are tried on, and those whose moments are taken, of
    each half."""
    halves, n = (samples[0::2], samples[1::2]), _number(g, MOMENTS, 16, 128)
    return thin(halves[1], _number(g, TRIED, 8, 64)), thin(halves[0], n), thin(halves[1], n)


class _Bench:
    """Recipes carried out on some of the samples, [first::step]; what several of them need is made once."""

    def __init__(self, floats: _Floats, method: str, recipes: Sequence[Recipe], first: int = 0, step: int = 1) -> None:
        self.floats, self.g, self.method, self.recipes = floats, floats.g, method, recipes
        samples = floats.samples[first::step]
        self.halves = (samples[0::2], samples[1::2])
        self.tried, *self.measured = _uses(self.g, samples)
        self.grids = ranges.input_grids(self.g, samples)
        self.seen, self.of_first, self.channels = floats.seen(first, step)
        self._found: dict[tuple[bool, bool], tuple[dict[str, Range], dict[str, str]]] = {}  # (equalise, auto) ->
        self._moments: dict[tuple[int, int], dict[tuple[str, Quant], moments.Moments]] = {}  # (half, id of a graph) ->
        self._lstms: dict[tuple[int, int], dict[str, rounding_recurrent.Pair]] = {}  # likewise
        self._choices: dict[int, dict[Hashable, rounding.Candidate]] = {}  # id of a graph ->

    def runs(self, g: Graph) -> Runs:
        """Return those of the graph, or of the equalised one."""
        return self.floats.runs if g is self.g else self._runs_equalised

    @cached_property
    def equalised(self) -> tuple[Graph, Halves]:
        """The graph with equalised channels, and its histograms."""
        exact = equalise.run(copy(self.g), self.of_first, self.channels, self.tried, self.floats.runs)
        if all(a.inputs == b.inputs for a, b in zip(self.g.nodes, exact.nodes, strict=True)):
            return self.g, self.seen
        self._runs_equalised = Runs(exact, again=[s for part in (self.tried, *self.measured) for s in part])
        a, b = (observe(exact, half, kept=self._runs_equalised) for half in self.halves)
        return exact, (a, b)

    def _ranges(self, recipe: Recipe) -> tuple[dict[str, Range], dict[str, str]]:
        """Return those of every activation, and the method that gave it."""
        if (recipe.equalise, recipe.auto) not in self._found:
            exact, halves = self.equalised if recipe.equalise else (self.g, self.seen)
            if recipe.auto:
                found, methods = ranges.choose(exact, halves[0], halves[1], self.tried, self.runs(exact))
            else:
                simple = METHODS[self.method]
                found = {name: simple(h.merged(halves[1][name])) for name, h in halves[0].items()}
                methods = dict.fromkeys(found, self.method)
            made = (
                room.spread(exact, found, len(self.floats.samples)) | self.grids,
                methods | dict.fromkeys(self.grids, "grid"),
            )
            self._found[recipe.equalise, recipe.auto] = made
        return self._found[recipe.equalise, recipe.auto]

    def build(self, recipe: Recipe) -> Tuned:
        exact = self.equalised[0] if recipe.equalise else self.g
        found, methods = self._ranges(recipe)
        quants = choose_quants(exact, found)
        if not recipe.round:
            return Tuned(_plain(exact, quants), exact, found, methods, recipe)
        alike = [r for r in self.recipes if r.round and r.equalise == recipe.equalise]
        later = [choose_quants(exact, self._ranges(r)[0]) for r in alike]
        measured, states = [], []
        for k, part in enumerate(self.measured):
            known = self._moments.setdefault((k, id(exact)), {})
            measured.append(moments.measure(exact, part, quants, self.runs(exact), known, later))
            of_lstms = self._lstms.setdefault((k, id(exact)), {})
            states.append(rounding_recurrent.measure(exact, part, quants, self.runs(exact), of_lstms))
        known_choices = self._choices.setdefault(id(exact), {})
        graph = rounding.run(copy(exact), measured[0], measured[1], quants, known_choices)
        graph = rounding_recurrent.run(graph, states[0], states[1], quants)
        return Tuned(graph, exact, found, methods, recipe)


def _number(g: Graph, work: int, least: int, most: int) -> int:
    """Count samples whose runs take `work` multiplications, within bounds."""
    return min(max(work // max(macs(g), 1), least), most)


class _Stages:
    """Progress over several passes as one."""

    def __init__(self, progress: Progress | None, of: int) -> None:
        self.progress, self.of, self.done = progress, of, 0

    def next(self, n: int) -> Progress:
        """The next n units of work begin: a progress for them, which need not be called."""
        start, self.done = self.done, self.done + n
        self._say(start)
        return lambda done, of: self._say(start + done)

    def end(self) -> None:
        self._say(self.of)

    def _say(self, done: int) -> None:
        if self.progress is not None:
            self.progress(min(done, self.of), self.of)


def thin(samples: Samples, n: int) -> Samples:
    """At most n samples, evenly spread."""
    return samples if len(samples) <= n else [samples[k * len(samples) // n] for k in range(n)]


def macs(g: Graph) -> int:
    """Multiplications of the linear operators in one run."""
    return sum(
        g.value(n.inputs[1]).size * (g.value(n.outputs[0]).size // g.value(n.inputs[1]).shape[0])
        for n in g.nodes
        if n.op in equalise.LINEAR
    )


def copy(g: Graph) -> Graph:
    """A graph whose nodes can be changed; constants are shared, for passes replace them rather than write into them."""
    result = Graph(g.name, g.inputs, g.outputs)
    result.values = dict(g.values)
    result.nodes = [Node(n.op, n.name, list(n.inputs), list(n.outputs), dict(n.attrs)) for n in g.nodes]
    return result
