"""Every kernel gives the same bytes on boards as on the host."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from models import MODELS
from pad_model import pad_model
from targets import EVERY

from mica.cli.verify import inputs_for, report, verify
from mica.file import codec
from mica.file.codec import ModelFile
from mica.run.board import BoardRunner
from mica.run.host import HostRunner

# tests/bench/test_isa.py has the steps of pad_model on every instruction set, whole and in parts.
PACKED = [make for make in MODELS if make is not pad_model]


@pytest.mark.matrix("equal bytes")
@pytest.mark.parametrize("target", EVERY)
@pytest.mark.parametrize("make", PACKED, ids=lambda m: m.__name__)
def test_layers_are_equal(make: Callable[[], ModelFile], target: str) -> None:
    data = codec.encode(make())
    with HostRunner(data) as host, BoardRunner(data, target) as board:
        samples = inputs_for(host, None, 5)
        result = verify(host, board, samples)
        assert result["equal"], report(result)
        for a, b in zip(host.run(samples), board.run(samples), strict=True):
            for x, y in zip(a, b, strict=True):
                assert x.dtype == y.dtype and x.tobytes() == y.tobytes()
