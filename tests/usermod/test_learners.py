"""Scripts of heads on two more cores: other compilers than those of each run make them."""

from __future__ import annotations

import pytest
from targets import WINDOWS, needs_windows, nightly
from test_usermod import SCRIPTS, check_script, models

from mica.link.targets import open_board

__all__ = ["models"]  # a fixture


@nightly
@pytest.mark.parametrize("target", ["VIRT_RV32", pytest.param(WINDOWS, marks=needs_windows)])
def test_learners_of_other_compilers(target: str, models: dict[str, bytes]) -> None:
    """A head has the same bytes on a core of RISC-V, and behind register windows."""
    names = [s for s in SCRIPTS if s.startswith("learner")]
    assert len(names) >= 4
    with open_board(target) as board:
        for name in names:
            board.soft_reset()
            check_script(board, name, models)
