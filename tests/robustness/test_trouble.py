"""A short form of `scripts/soak --boards`: damaged files, odd calls, also from timers and threads,
Ctrl-C and soft resets."""

from __future__ import annotations

import pytest
import troubling

from mica.link.board import Link


@pytest.fixture(scope="module", params=["unix_board_of_session", "qemu_board_of_session"], ids=["UNIX", "MPS2_AN385"])
def board(request: pytest.FixtureRequest) -> Link:
    board: Link = request.getfixturevalue(request.param)
    board.soft_reset()
    troubling.put_models(board)
    return board


def test_damaged_files(board: Link) -> None:
    rounds = 300 if board.name == "UNIX" else 60
    tried, loaded, runs = troubling.trouble(board, "files", 1, rounds)
    assert tried == rounds and 0 < runs <= loaded < tried


def test_odd_calls(board: Link) -> None:
    rounds = 200 if board.name == "UNIX" else 60
    calls, raised, right = troubling.trouble(board, "calls", 1, rounds)
    assert calls >= rounds * 0.9 and 0 < raised < calls and right == rounds // 10 + 1


def meanwhile(board: Link, rounds: int, kinds: int) -> None:
    right, refused, calls, raised, found = troubling.trouble(board, "meanwhile", 1, rounds)
    assert right >= rounds * kinds / 4 and refused > 0 and calls >= rounds * kinds and 0 < raised < calls
    assert found == kinds


def test_odd_calls_meanwhile(board: Link) -> None:
    """From scheduled functions, and from a thread where there are threads."""
    if board.name == "UNIX":
        meanwhile(board, 200, 2)
    else:
        meanwhile(board, 60, 1)


def test_odd_calls_from_timers(pico_board: Link) -> None:
    """On a virtual Pico: from scheduled functions, a timer, and a thread on its second core."""
    troubling.put_models(pico_board)
    meanwhile(pico_board, 12, 3)


def test_interrupts(board: Link) -> None:
    assert troubling.interrupted(board, 1, 8) == 8


def test_soft_resets(board: Link) -> None:
    """Models loaded and a run begun: the next session begins with a free arena."""
    for k in range(3):
        board.exec("import mica\nm = mica.Model(small)\nm._m.begin()\nm._steps[0]()")
        board.soft_reset()
        troubling.put_models(board)
        code = "import mica\nm = mica.Model(small)\nprint(m.arena.busy, len(m.predict([bytes(64)])))"
        assert board.exec(code) == b"False 1\n", k
