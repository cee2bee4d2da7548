"""A short form of `scripts/soak --boards`: damaged files, odd calls, Ctrl-C and soft resets, on boards."""

from __future__ import annotations

import pytest
import troubling

from mica.device.transport import Board


@pytest.fixture(scope="module", params=["unix_board_of_session", "qemu_board_of_session"], ids=["UNIX", "MPS2_AN385"])
def board(request: pytest.FixtureRequest) -> Board:
    board: Board = request.getfixturevalue(request.param)
    board.soft_reset()
    troubling.put_models(board)
    return board


def test_damaged_files(board: Board) -> None:
    rounds = 300 if board.name == "UNIX" else 60
    tried, loaded, runs = troubling.trouble(board, "files", 1, rounds)
    assert tried == rounds and 0 < runs <= loaded < tried


def test_odd_calls(board: Board) -> None:
    rounds = 200 if board.name == "UNIX" else 60
    calls, raised, right = troubling.trouble(board, "calls", 1, rounds)
    assert calls >= rounds * 0.9 and 0 < raised < calls and right == rounds // 10


def test_interrupts(board: Board) -> None:
    assert troubling.interrupted(board, 1, 8) == 8


def test_soft_resets(board: Board) -> None:
    """Models loaded and a run begun: the next session begins with a free arena."""
    for k in range(3):
        board.exec("import mica\nm = mica.Model(small)\nm._m.begin()\nm._steps[0]()")
        board.soft_reset()
        troubling.put_models(board)
        code = "import mica\nm = mica.Model(small)\nprint(m.arena.busy, len(m.predict([bytes(64)])))"
        assert board.exec(code) == b"False 1\n", k
