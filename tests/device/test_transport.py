"""Talking to a board: the same on MicroPython's unix port and on an emulated board."""

import random

import pytest

from mica.errors import MicaError
from mica.link.answers import require_mica
from mica.link.board import BoardError, Link
from mica.link.targets import open_board


def test_exec_returns_what_was_printed(board: Link) -> None:
    assert board.exec("x = 5\nprint('one')\nprint('two')") == b"one\ntwo\n"
    assert board.exec("print(x)") == b"5\n"
    assert board.exec("pass") == b""


def test_exception_has_last_line_and_traceback(board: Link) -> None:
    with pytest.raises(BoardError) as error:
        board.exec("def f():\n    raise ValueError('too big')\nprint('before')\nf()")
    assert str(error.value) == "ValueError: too big"
    assert error.value.traceback.startswith("Traceback (most recent call last):\n")
    assert "in f\n" in error.value.traceback
    assert board.exec("print('alive')") == b"alive\n"


def test_syntax_error(board: Link) -> None:
    with pytest.raises(BoardError, match="SyntaxError"):
        board.exec("def f(:")
    assert board.exec("print('alive')") == b"alive\n"


def test_output_comes_as_it_is_printed(board: Link) -> None:
    """The program ends only after its first line has come: it is interrupted then."""
    received = bytearray()

    def take(data: bytes) -> None:
        received.extend(data)
        if received == b"first\n":
            raise RuntimeError("it has come")

    with pytest.raises(RuntimeError, match="it has come"):
        board.exec_follow("import time\nprint('first')\nwhile True: time.sleep_ms(10)", take)


def test_a_consumer_that_has_had_enough(board: Link) -> None:
    def enough(data: bytes) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        board.exec_follow("kept = 1\nwhile True: print('more')", enough)
    assert board.exec("print(kept)") == b"1\n"


def test_much_output(board: Link) -> None:
    assert board.exec("for i in range(2000): print('x' * 50)") == (b"x" * 50 + b"\n") * 2000


def test_long_source(board: Link) -> None:
    lines = [f"v{i} = {i}" for i in range(1500)]
    assert board.exec("\n".join([*lines, "print(v0 + v1499)"])) == b"1499\n"


def test_silence_interrupts_the_program(board: Link) -> None:
    board.exec("kept = 7")
    for program in ("while True: pass", "import time\nwhile True: time.sleep_ms(10)"):
        with pytest.raises(BoardError, match=r"silent for 0\.5 s; its program was interrupted"):
            board.exec(f"print('going')\n{program}", timeout=0.5)
        assert board.exec("print(kept)") == b"7\n"


@pytest.mark.parametrize("size", [0, 1, 255, 256, 257, 100_000])
def test_put_and_get(board: Link, size: int) -> None:
    data = bytes(range(256)) * (size // 256) + bytes(range(size % 256))
    calls: list[tuple[int, int]] = []
    board.put(data, "blob", lambda done, total: calls.append((done, total)))
    assert board.exec("print(type(blob), len(blob))") == f"<class 'bytes'> {size}\n".encode()
    assert board.get("blob") == data
    if size:
        assert calls[-1] == (size, size)


def test_put_of_random_bytes_with_control_characters(board: Link) -> None:
    data = bytes(random.Random(1).choices(b"\x00\x01\x02\x03\x04\x05\r\n+>\xff", k=5000))
    board.put(data, "blob")
    assert board.get("blob") == data


def test_ctrl_c_works_again_after_put(board: Link) -> None:
    board.put(b"\x03" * 300, "blob")
    with pytest.raises(BoardError, match="interrupted"):
        board.exec("while True: pass", timeout=0.5)


def test_get_of_a_buffer_that_is_not_bytes(board: Link) -> None:
    assert board.exec("import array\na = array.array('H', [1, 2, 770])") == b""
    assert board.get("a") == b"\x01\x00\x02\x00\x02\x03"


def test_put_that_does_not_fit(board: Link) -> None:
    with pytest.raises(BoardError, match="MemoryError"):
        board.put(bytes(40_000_000), "blob")
    assert board.exec("print('alive')") == b"alive\n"


def test_put_wants_a_name(board: Link) -> None:
    with pytest.raises(ValueError, match="not a variable's name"):
        board.put(b"", "a[0]")


def test_soft_reset_empties_the_heap_and_keeps_files(board: Link) -> None:
    board.exec("x = 1\nwith open('kept.txt', 'w') as f: f.write('words')")
    board.soft_reset()
    assert board.exec("print('x' in globals(), open('kept.txt').read())") == b"False words\n"


def test_mica_is_on_the_board(board: Link) -> None:
    assert require_mica(board)


def test_board_without_mica(board: Link) -> None:
    board.exec("import sys\nsys.path.remove('.frozen')\nsys.modules.pop('mica', None)")  # the boot may have imported it
    with pytest.raises(MicaError, match="MicroPython without mica; build a firmware"):
        require_mica(board)


def test_closed(firmware: object) -> None:
    with open_board("UNIX") as board:
        pass
    board.close()
    with pytest.raises(BoardError, match="closed"):
        board.exec("1")


def test_a_program_that_ends_micropython(unix_board: Link) -> None:
    with pytest.raises(BoardError, match="MicroPython has ended"):
        unix_board.exec("import uctypes\nuctypes.bytearray_at(8, 1)[0] = 1")
    unix_board.soft_reset()
    assert unix_board.exec("print('again')") == b"again\n"


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (
            "PICO",
            r"'PICO' is neither a board nor a port; did you mean RPI_PICO\?$",
        ),
        ("RPI_PICO", "RPI_PICO is a real board; plug it in and give its port"),
        ("/dev/ttyNONE7", "there is no port /dev/ttyNONE7"),
        ("/dev/null", "/dev/null is not a serial port"),
        ("/etc/hostname", "/etc/hostname is not a serial port"),
        ("socket://127.0.0.1:9", "nothing answers at socket://127.0.0.1:9"),
    ],
)
def test_wrong_targets(target: str, said: str) -> None:
    with pytest.raises(MicaError, match=said):
        open_board(target)
