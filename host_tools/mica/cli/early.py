"""Refuses a model that cannot fit before its calibration, which takes minutes: samples change its size by little and its arena not at all."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mica.cli import ram
from mica.errors import MicaError, Unsupported
from mica.format.codec import ModelFile
from mica.format.schema import SCRATCH_LIMIT

if TYPE_CHECKING:
    from mica.boards import BoardSpec
    from mica.compiler import Compiled
    from mica.quantise.choose_bits import Bits

NODES = 1000  # at most: the passes over what loops were unrolled to take as long as calibration
SURE = 15 / 16  # of the bytes with made-up samples: the final model does not take less than that


def refuse(
    args: argparse.Namespace, board: BoardSpec | None, bits: Bits | None, nodes: int, compiled: Callable[[], Compiled]
) -> None:
    """nodes: of the model. compiled: makes it with made-up samples. Raises what `pack` would raise after calibration."""
    from mica.compiler import within
    from mica.quantise.choose_bits import too_large

    size = bits.size if bits else None
    path = Path(args.model)
    if not args.calib or args.plain or nodes > NODES or (board is None and not args.ram and size is None):
        return
    try:
        found = compiled()
    except MicaError:
        return  # made-up samples may be none for this model; calibration says what is wrong
    if size is not None and len(found.data) * SURE > size:
        raise too_large(len(found.data), size)
    if args.ram and not found.model.state_bytes:
        asked, scratch = ram.parse(args.ram, board, args.feed), board.scratch if board else SCRATCH_LIMIT
        try:
            within(found, replace(asked, bytes=int((asked.bytes or 0) / SURE)), scratch)
        except MicaError:
            within(found, asked, scratch)
    if board is not None and not args.parts:
        _refuse_by_board(found, board, args, path)


def _refuse_by_board(found: Compiled, board: BoardSpec, args: argparse.Namespace, path: Path) -> None:
    """RAM is looked at where --ram does not say how much the model takes."""
    from mica.cost.prediction import predict
    from mica.cost.table import Table

    if not args.ram and (smaller := ram.for_board(found, board, args.feed)) is not None:
        found = smaller.compiled
    p = predict(found.model, found.data[: int(len(found.data) * SURE)], board, Table.read())
    ram_is_short = not args.ram and p.ram["heap"] is not None and p.ram["heap_needed"] * SURE > p.ram["heap"]
    if ram_is_short or any(reason.startswith("flash") for reason in p.reasons):
        require_fit(found.model, found.data, board, path)


def require_fit(model: ModelFile, data: bytes, board: BoardSpec, path: Path) -> None:
    """Raises Unsupported where `mica fit` would say of the file `data` that it does not fit, with the same reasons."""
    from mica.cost.prediction import predict
    from mica.cost.table import Table

    prediction = predict(model, data, board, Table.read())
    if not prediction.fits:
        raise Unsupported.because(f"{path} does not fit {board.name}", prediction.reasons)
