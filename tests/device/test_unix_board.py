"""MicroPython's unix port as a board, whose process may end at any time."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator

import pytest

from mica.boards import load_board
from mica.link.board import BoardError
from mica.link.unix_board import UnixBoard
from mica.toolchain.build import BuildResult


@pytest.fixture
def board(firmware: Callable[[str], BuildResult]) -> Iterator[UnixBoard]:
    board = UnixBoard(load_board("UNIX"), firmware("UNIX").image)
    yield board
    board.close()


def killed(board: UnixBoard) -> None:
    process = board._process
    assert process is not None
    process.send_signal(signal.SIGKILL)
    process.wait()


def test_a_process_that_ended_before_a_request(board: UnixBoard) -> None:
    killed(board)
    with pytest.raises(BoardError, match=r"UNIX: MicroPython has ended \(signal SIGKILL\)"):
        board.exec("1")
    with pytest.raises(BoardError, match="UNIX is closed"):
        board.exec("1")
    board.soft_reset()
    assert board.exec("print(2)") == b"2\n"


def test_a_process_that_ends_within_a_request(board: UnixBoard) -> None:
    with pytest.raises(BoardError, match=r"UNIX: MicroPython has ended \(signal SIGKILL\)"):
        board.exec_follow("print(1)\nwhile True: pass", lambda data: killed(board))


def test_a_process_that_has_ended_when_its_request_is_given_up(board: UnixBoard) -> None:
    """Ctrl-C reaches the caller, and the next request gets a new process."""

    def enough(data: bytes) -> None:
        killed(board)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        board.exec_follow("print(1)\nwhile True: pass", enough)
    assert board.exec("print(2)") == b"2\n"
