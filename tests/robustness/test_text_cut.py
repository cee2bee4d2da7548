"""Text whose runs are cut short on a board, at every layer, by a hook, Ctrl-C and a reset: afterwards it is the same
text."""

from __future__ import annotations

from pathlib import Path

import pytest

import mica.demo
from mica.link.board import Link

COMMAND = Path(mica.demo.__file__).parent / "command.mica"
BEGIN = """
import mica
m = mica.Model(command)
def begin():
    m.reset()
    return mica.generate(m, "set a timer for twenty two minutes\\n", max_tokens=20, temperature=0.5, top_k=5, seed=3)
"""

# At most six cuts a token, each a layer further on, so that the text meets one at every layer.
HOOKED = """
class Cut(Exception):
    pass
at, left = 0, 6
def cut(layer):
    global at, left
    if layer.index == at and left:
        left -= 1
        at += 1
        raise Cut
    if layer.index == len(m.layers) - 1:
        left = 6
hook = m.hook(after=cut)
text, said = begin(), []
while True:
    try:
        said.append(next(text))
    except Cut:
        pass
    except StopIteration:
        break
hook.remove()
print("".join(said), at == len(m.layers), m.arena.busy)
"""

WAITING = """
text, said, runs = begin(), [], 0
def wait(layer):
    global runs
    runs += 1
    if runs == {token}:
        print("here")
        while True:
            pass
hook = m.hook(m.layers[{layer}].name, after=wait)
"""


@pytest.fixture(scope="module")
def board(qemu_board_of_session: Link) -> Link:
    """With the model, which takes seconds to get there."""
    qemu_board_of_session.soft_reset()
    return with_model(qemu_board_of_session)


def with_model(board: Link) -> Link:
    board.put(COMMAND.read_bytes(), "command")
    board.exec(BEGIN)
    return board


def whole(board: Link) -> str:
    """The text without a cut."""
    return board.exec("print(''.join(begin()))").decode().strip()


def test_a_hook_that_raises(board: Link) -> None:
    expected = whole(board)
    assert expected == "timer 22m"
    assert board.exec(HOOKED, timeout=240).decode().split("\n")[0] == f"{expected} True False"


class _Here(Exception):
    pass


def _in_the_layer(said: bytes) -> None:
    if b"\n" in said:
        raise _Here


def test_ctrl_c(board: Link) -> None:
    """While a layer works, which waits for it: the iterator goes on where it was."""
    expected = whole(board)
    for token, layer in ((3, 0), (14, 30), (15, -1)):
        board.exec(WAITING.format(token=token, layer=layer))
        with pytest.raises(_Here):
            board.exec_follow("for piece in text: said.append(piece)", _in_the_layer)
        board.exec("hook.remove()")
        assert (
            board.exec("print(runs > 0, ''.join(said) + ''.join(text), m.arena.busy)")
            == f"True {expected} False\n".encode()
        )


def test_a_reset(board: Link) -> None:
    """In the middle of a run of the fourth token: the next session says the same."""
    expected = whole(board)
    board.exec(
        "text = begin()\nfor k in range(4): text._said.now = text._step()[0]\nm._m.begin()\nfor s in m._steps[:20]: s()"
    )
    board.soft_reset()
    assert whole(with_model(board)) == expected
