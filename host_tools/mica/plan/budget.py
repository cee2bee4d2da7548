"""A plan within a number of bytes: layers in strips, a fed input, if needed convolutions in groups of channels."""

from mica.errors import MicaError
from mica.format.schema import SCRATCH_LEAST
from mica.ir.graph import Graph
from mica.plan.feed import as_picture, fed_input
from mica.plan.groups import SIZES, cuttable, in_groups
from mica.plan.plan import Plan, best_plan, plan
from mica.plan.strips.search import Price, refusal, search


def within_budget(
    g: Graph,
    layout: Plan | None,
    ram: int | None,
    scratch_limit: int,
    price: Price,
    feed: bool = False,
    say_least: bool = True,
) -> tuple[Graph, Plan]:
    """The graph that runs, and its cheapest plan whose tensors and scratch take at most `ram` bytes (None: no limit).

    g: in its order, with its plan; None makes one. feed: the first picture among the inputs comes row by row from the
    caller.
    Raises MicaError with the least that can be (not where `say_least` is off: finding it takes long),
    or why an input cannot be fed.
    """
    fed = fed_input(g) if feed else None
    if fed is not None and (changed := as_picture(g, fed)) is not g:
        g, layout = changed, None
    last = (g, layout or plan(g))
    found = search(*last, ram, scratch_limit, price, fed)
    if found is None and ram is not None:
        for channels in SIZES:
            if 2 * _largest(g) <= ram:  # else a convolution that can be cut takes more than half of the limit
                break
            cut = in_groups(g, channels)
            if cut is None:
                continue
            last = best_plan(cut)
            if _largest(cut) <= ram - SCRATCH_LEAST or channels == SIZES[-1]:
                found = search(*last, ram, scratch_limit, price, fed)
            if found is not None:
                break
    if found is None and not say_least:
        raise MicaError(f"no plan takes {ram:,} bytes of tensors and scratch or less")
    if found is None:
        raise refusal(*last, ram or 0, price, fed)
    return last[0], found


def _largest(g: Graph) -> int:
    return max((g.value(c.inputs[0]).bytes + g.value(c.outputs[0]).bytes for c, _ in cuttable(g)), default=0)
