"""An output whose parts differ in range becomes several outputs, each with a scale of its own.

y = Concat(boxes, scores)                             =>   y.0 = boxes; y.1 = scores
y = Transpose(Concat(boxes, scores)), Reshape         =>   y.0 = Transpose(boxes); y.1 = Transpose(scores)
y = Concat(Concat(b1, s1), Concat(b2, s2)) over 2 axes  =>   y.0 = Concat(b1, b2); y.1 = Concat(s1, s2)

With one scale for pixels and probabilities, a step is some pixels wide, and every score is 0. `format/output_groups.py`
says how the parts come together again.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from mica.ir import check
from mica.ir.graph import Graph
from mica.passes import dead_code, limits, merge_moves, transposes
from mica.passes.builder import Builder
from mica.passes.pieces import Finder, Join, Piece, together
from mica.quantise import margins
from mica.quantise.calibrate import Range, Samples, observe
from mica.quantise.groups import width
from mica.quantise.methods import METHODS

FACTOR = 2.0  # ranges that differ by more keep scales of their own
MOST = 16  # parts of one output
SAMPLES = 32  # from which the ranges are seen


@dataclass(frozen=True)
class Split:
    """For each output of the graph before: how many outputs it is now, along which axis, and its name."""

    parts: int
    axis: int
    name: str


def split_outputs(g: Graph, samples: Samples, keep: Collection[str] = ()) -> tuple[Graph, list[Split]]:
    """A core graph, and what became of each of its outputs. keep: outputs that stay whole (states).

    The graph is the one given where nothing is split. Raises MicaError where samples cannot be used.
    """
    finder = Finder(g)
    found = {o: finder.joins(o) for o in g.outputs if o not in keep}
    if not any(found.values()):
        return g, [Split(1, 0, o) for o in g.outputs]
    step = max(1, len(samples) // SAMPLES)
    seen = observe(g, samples[::step][:SAMPLES], numbers=range(0, len(samples), step))
    ranges = margins.widened(g, {name: METHODS["minmax"](h) for name, h in seen.items()})
    outputs: list[str] = []
    splits = []
    for o in list(g.outputs):
        groups, axis = _best(g, found.get(o, []), ranges)
        splits.append(Split(max(1, len(groups)), axis, o))
        outputs += _emit(g, o, groups, axis) if len(groups) > 1 else [o]
    if outputs == g.outputs:
        return g, splits
    g.outputs = outputs
    for tidy in (dead_code.run, transposes.run, merge_moves.run, dead_code.run, limits.run):
        g = tidy(g)
        check.structure(g, "split_outputs")
        check.core(g)
    return g, splits


def _best(g: Graph, joins: Sequence[Join], ranges: Mapping[str, Range]) -> tuple[list[Piece], int]:
    """The pieces of the join whose parts differ most, those of like range together; none where none differ enough."""
    best: tuple[float, list[Piece], int] = (FACTOR, [], 0)
    for join in joins:
        groups: list[tuple[list[Piece], float, float]] = []
        for piece in join.pieces:
            wide = _width(g, piece, ranges)
            if groups:
                pieces, low, high = groups[-1]
                least, most = (low, high) if wide is None else (min(low, wide), max(high, wide))
                if _whole(g, piece) == _whole(g, pieces[-1]) and (low == 0 or most <= FACTOR * least):
                    groups[-1] = ([*pieces, piece], least if low else wide or 0.0, most)
                    continue
            groups.append(([piece], wide or 0.0, wide or 0.0))
        lows, highs = [low for _, low, _ in groups if low], [high for *_, high in groups]
        factor = max(highs) / min(lows) if lows else 1.0
        if len({_whole(g, piece) for pieces, *_ in groups for piece in pieces}) > 1:
            factor = max(factor, 2 * FACTOR)
        if 1 < len(groups) <= MOST and factor > best[0] and all(low for _, low, _ in groups):
            best = (factor, [together(pieces, join.axis) for pieces, *_ in groups], join.axis)
    return best[1], best[2]


def _whole(g: Graph, piece: Piece) -> bool:
    """True if all its numbers are whole, on a scale of 1: classes of a detector."""
    producers = g.producers()
    made = [producers[s] for s in piece.sources if s in producers]
    return bool(made) and all(
        n.op == "Embedding" and (q := g.value(n.inputs[1]).quant) and q.scale == 1.0 for n in made
    )


def _width(g: Graph, piece: Piece, ranges: Mapping[str, Range]) -> float | None:
    """Return the width of a piece's range, with zero in it; None where it is constant or always zero: any scale
    would do."""
    wide = [width(ranges[s]) for s in piece.sources if not g.is_const(s)]
    return max(wide) or None if wide else None


def _emit(g: Graph, out: str, groups: Sequence[Piece], axis: int) -> list[str]:
    """Adds the nodes that make the parts; their names."""
    names = []
    origin = g.producers()[out].name
    for k, piece in enumerate(groups):
        b = Builder(g, g.nodes, origin)
        known = set(g.values)
        made = piece.emit(b)
        name = g.fresh(f"{out}.{k}")
        if made in known:  # other pieces, and readers, know it by its name
            g.new_value(name, piece.shape)
            b.emit_to(name, "Reshape", [made])
        else:
            g.rename_value(made, name)
        names.append(name)
    return names
