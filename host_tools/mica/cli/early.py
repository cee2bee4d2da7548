"""Refuses a model that cannot fit before its calibration, which takes minutes: samples change its size by little and its arena not at all."""

from __future__ import annotations

import argparse
from collections.abc import Callable
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

SURE = 15 / 16  # of the bytes of the file with made-up samples: the final one is not smaller than that


def refuse(
    args: argparse.Namespace, path: Path, board: BoardSpec | None, bits: Bits | None, compiled: Callable[[], Compiled]
) -> None:
    """compiled: makes the model with made-up samples. Raises what `pack` would raise after calibration."""
    from mica.compiler import within
    from mica.quantise.choose_bits import too_large

    size = bits.size if bits else None
    if not args.calib or (board is None and not args.ram and size is None):
        return
    try:
        found = compiled()
    except MicaError:
        return  # made-up samples may be none for this model; calibration says what is wrong
    least = int(len(found.data) * SURE)
    if size is not None and least > size:
        raise too_large(len(found.data), size)
    if args.ram and not found.model.state_bytes:
        found = within(found, ram.parse(args.ram, board, args.feed), board.scratch if board else SCRATCH_LIMIT)
    if board is None or args.parts:
        return
    if not args.ram and (smaller := ram.for_board(found, board, args.feed)) is not None:
        found = smaller.compiled
    try:
        require_fit(found.model, found.data[:least], board, path)
    except Unsupported:
        require_fit(found.model, found.data, board, path)


def require_fit(model: ModelFile, data: bytes, board: BoardSpec, path: Path) -> None:
    """Raises Unsupported where `mica fit` would say of the file `data` that it does not fit, with the same reasons."""
    from mica.cost.prediction import predict
    from mica.cost.table import Table

    prediction = predict(model, data, board, Table.read())
    if not prediction.fits:
        raise Unsupported.because(f"{path} does not fit {board.name}", prediction.reasons)
