"""Stages from the graph of kernels to the packed model: states, memory, bytes, less memory where a board needs it."""

import math
from dataclasses import replace

from mica.compile import board_fit
from mica.compile.state import Compiled, State
from mica.cost import waits
from mica.cost.table import Table
from mica.errors import MicaError
from mica.file.codec import encode
from mica.packing import model as packing
from mica.packing.state import hold, with_state
from mica.packing.tokens import with_tokens
from mica.plan.budget import within_budget
from mica.plan.plan import best_plan
from mica.quantise import noise
from mica.quantise.stream import stream


def keep_states(s: State) -> State:
    """Rows and noise estimates that steps keep from run to run become states."""
    keeping = [n.outputs[0] for n in s.graph.nodes if n.op == "LogMel" and n.attrs["front_end"].keeps]
    s.pairs += noise.keep(s.integer, keeping)
    if s.job.step is not None:
        s.pairs += stream(s.integer, s.job.step).pairs
    if s.job.ram is None:
        hold(s.integer, s.pairs)
    return s


def plan(s: State) -> State:
    """The order of steps and each tensor's place in the arena, in strips where the job limits RAM."""
    s.scratch, ram = s.job.scratch, s.job.ram
    s.integer, s.plan = best_plan(s.integer)
    if ram is not None:
        if ram.feed and s.pairs:
            raise MicaError("--feed: a streaming model keeps its input from run to run", todo="pack it without --feed")
        s.integer, s.plan = within_budget(s.integer, s.plan, ram.bytes, s.scratch, ram.price, ram.feed)
        s.scratch = s.scratch if s.plan.scratch is None else s.plan.scratch
    return s


def pack(s: State) -> State:
    """plan -> the model as a file"""
    model = packing.pack(s.integer, s.plan, s.facts, scratch_limit=s.scratch)
    if s.pairs:
        model = with_state(model, s.pairs)
        packing.set_scratch(model, s.scratch)
        # The copies of the state run before and behind the steps of the plan.
        copied = (len(model.steps) - len(s.plan.steps)) // 2
        live = s.plan.live_bytes
        s.plan = replace(s.plan, live_bytes=[*live[:1] * copied, *live, *live[-1:] * copied])
    if s.job.tokens is not None:
        model = with_tokens(model, s.job.tokens)
    s.compiled = Compiled(
        data=encode(model),
        model=model,
        plan=s.plan,
        core=s.tuned.exact,
        tuned=s.tuned,
        integer=s.integer,
        custom=s.job.custom,
        made_up=s.calibration is None,
    )
    return s


def plan_for_board(s: State) -> State:
    """Layers in strips, where the model does not fit the board's RAM otherwise and nobody limited it."""
    board, ram = s.job.board, s.job.ram
    if board is None or (ram is not None and ram.bytes is not None):
        return s
    smaller = board_fit.in_strips(s.compiled, board, ram is not None and ram.feed)
    if smaller is not None:
        s.compiled, s.strips = smaller.compiled, smaller
        s.watch.note(f"does not fit {board.name} layer by layer: layers run in strips, as with --ram {smaller.bytes}")
    return s


def order_weights(s: State) -> State:
    """The file names the layers whose weights are to be in RAM, where the board reads those of some from flash again
    and again."""
    board, model, table = s.job.board, s.compiled.model, Table.read()
    core = table.core_of(board) if board is not None else None
    if core is None or board is None or not board.flash_miss:
        return s
    best = waits.best_order(
        model,
        lambda step, in_ram: table.misses(
            core, model, step, min(model.scratch_want, board.scratch), math.inf if in_ram else 0.0
        ),
    )
    if best != waits.order(model):
        model.metadata[waits.KEY] = " ".join(map(str, best))
        s.changed = True
    return s
