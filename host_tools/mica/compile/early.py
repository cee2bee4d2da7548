"""Refuses a model that cannot fit before its calibration, which takes minutes.

Samples change the size of a file by little, and its arena not at all. So a model with made-up samples tells.
"""

import copy
from dataclasses import replace

from mica.compile import board_fit, finish, planning, quantising
from mica.compile.job import Watch
from mica.compile.state import Compiled, State
from mica.cost.prediction import predict
from mica.cost.table import Table
from mica.errors import MicaError, Unsupported
from mica.quantise.choose_bits import Bits, too_large

NODES = 1000  # at most: the passes over what loops were unrolled to take as long as calibration
SURE = 15 / 16  # of the bytes with made-up samples: the final model does not take less than that

_STAGES = (
    quantising.lower,
    quantising.sample,
    quantising.split,
    quantising.choose_ranges,
    finish.describe,
    quantising.choose_bits,
    quantising.quantise,
    planning.keep_states,
    planning.plan,
    planning.pack,
)


def refuse(s: State) -> State:
    """Raises what a later stage, or the caller, would raise after calibration."""
    job = s.job
    limit = job.bits.size if job.bits else None
    limited = job.board is not None or limit is not None or (job.ram is not None and job.ram.bytes is not None)
    if not job.must_fit or job.samples is None or job.plain or len(s.graph.nodes) > NODES or not limited:
        return s
    try:
        found = _with_made_up_samples(s)
    except (MicaError, Unsupported):
        return s  # made-up samples may be none for this model; calibration says what is wrong
    if limit is not None and len(found.data) * SURE > limit:
        raise too_large(len(found.data), limit)
    if job.ram is not None and job.ram.bytes is not None and not found.model.state_bytes:
        try:
            board_fit.within(found, replace(job.ram, bytes=int(job.ram.bytes / SURE)), job.scratch)
        except MicaError:
            board_fit.within(found, job.ram, job.scratch)
    if job.board is not None:
        _refuse_by_board(s, found)
    return s


def _with_made_up_samples(s: State) -> Compiled:
    bits = None if s.job.bits is None else Bits()
    job = replace(
        s.job, samples=None, labelled=None, plain=True, ram=None, bits=bits, board=None, scratch_limit=s.job.scratch
    )
    quick = replace(s, job=job, watch=Watch(), warnings=[], pairs=list(s.pairs))
    quick.graph = copy.deepcopy(s.graph)
    for stage in _STAGES:
        quick = stage(quick)
    return quick.compiled


def _refuse_by_board(s: State, found: Compiled) -> None:
    """RAM is looked at where --ram does not say how much the model takes."""
    board, limited = s.job.board, s.job.ram is not None and s.job.ram.bytes is not None
    assert board is not None
    smaller = None if limited else board_fit.in_strips(found, board, s.job.ram is not None and s.job.ram.feed)
    if smaller is not None:
        found = smaller.compiled
    p = predict(found.model, found.data[: int(len(found.data) * SURE)], board, Table.read())
    ram_is_short = not limited and p.ram["heap"] is not None and p.ram["heap_needed"] * SURE > p.ram["heap"]
    if ram_is_short or any(reason.startswith("flash") for reason in p.reasons):
        board_fit.require_board(found, board, s.job.model)
