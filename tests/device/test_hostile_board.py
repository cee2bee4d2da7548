"""A board that lies, or never ends: one line for people, no escape sequence, little memory, in time."""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Callable, Iterator
from typing import NoReturn

import numpy as np
import pushed_models
import pytest
from fake_board import FakeBoard, Reply

from mica.cli.main import main
from mica.errors import MicaError
from mica.file import codec
from mica.flash import board_files, flash_map
from mica.link import answers, push, serial_board
from mica.link.answers import Answer
from mica.link.board import BoardError, Link
from mica.link.diagnosis import examine
from mica.link.serial_board import SerialBoard
from mica.run.board import BoardRunner
from mica.run.host import HostRunner

Mica = Callable[..., tuple[int, str, str]]
ESCAPES = b"\x1b]0;owned\x07\x1b[2J"


@pytest.fixture
def mica(capsys: pytest.CaptureFixture[str]) -> Mica:
    def run(*words: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main([str(word) for word in words])
        out, err = capsys.readouterr()
        assert all(line.isprintable() for line in (out + err).split("\n")), repr(out + err)
        return code, out, err

    return run


def file_line(name: bytes, size: object = 100, crc: str = "00000000", at: object = -1) -> bytes:
    return f"mica:file {size} {crc} {at} {name.hex()}\n".encode()


def listing(files: bytes, where: bytes = b"", version: bytes = b"mica:version 0.1.0\n") -> Reply:
    """A board without a window, or with the lines of `where`."""

    def reply(program: str) -> bytes:
        if "__version__" in program:
            return version
        return files if "files()" in program else where if "where()" in program else b""

    return reply


def test_names_and_reasons_are_shown_printable(mica: Mica) -> None:
    name = b"a \x1b[31m  b\xc2\xa0.mica"
    with FakeBoard(listing(file_line(name))) as board:
        assert mica("ls", "--on", board.port) == (0, "       100  a ?[31m  b?.mica\n", "")
        code, out, _ = mica("ls", "--on", board.port, "--json")
        assert code == 0 and json.loads(out)["files"][0]["name"] == name.decode()
        code, _, err = mica("rm", "other", "--on", board.port)
        assert code == 1 and "?[31m" in err and err.count("\n") == 1
    window = b"mica:window 1000000\nmica:at 0 0 0 1\nmica:half 0 confirmed 1 4096 \n"
    window += b"mica:half 1 rejected 2 4096 " + (b"bad " + ESCAPES).hex().encode() + b"\n"
    with FakeBoard(listing(b"", window)) as board:
        code, out, _ = mica("ls", "--on", board.port)
        assert code == 0 and "rejected: bad ?]0;owned??[2J\n" in out


@pytest.mark.parametrize("command", ["ls", "doctor"])
def test_exceptions_are_shown_printable(command: str, mica: Mica) -> None:
    with FakeBoard(lambda _: b"\x04Traceback (most recent call last):\r\nOSError: " + ESCAPES + b"\xff\r\n") as board:
        code, out, err = mica(command, "--on", board.port)
    said = out + err
    assert code == 1 and "OSError: ?]0;owned??[2J" in said and said.count("mica: error") <= 1


WINDOW = b"mica:window 1000000\nmica:at 0 0 0 1\nmica:half 0 confirmed 1 4096 \nmica:half 1 empty 0 0 \n"


@pytest.mark.parametrize(
    ("files", "where", "version"),
    [
        (b"mica:\n", b"", b"mica:version 0.1.0\n"),
        (b"mica: file 1\n", b"", b"mica:version 0.1.0\n"),
        (b"", b"", b"mica:version \xff\xfe\n"),
        (b"", b"", b"mica:version " + b"9" * 5000 + b"\n"),
        (b"", b"", b"mica:version 0.1.0\nmica:version 0.1.0\n"),
        (b"", b"", b""),
        (b"mica:file\n", b"", b"mica:version 0.1.0\n"),
        (b"mica:file 1 00000000\n", b"", b"mica:version 0.1.0\n"),
        (file_line(b"a", -5), b"", b"mica:version 0.1.0\n"),
        (file_line(b"a", 10**30), b"", b"mica:version 0.1.0\n"),
        (file_line(b"a", 1, "xyz"), b"", b"mica:version 0.1.0\n"),
        (file_line(b"\xff"), b"", b"mica:version 0.1.0\n"),
        (b"mica:file 1 00000000 -1 6x\n", b"", b"mica:version 0.1.0\n"),
        (file_line(b"a") * 2, b"", b"mica:version 0.1.0\n"),
        (file_line(b"a", 10**6, at=1), WINDOW, b"mica:version 0.1.0\n"),
        (file_line(b"a", at=-1), WINDOW, b"mica:version 0.1.0\n"),
        (b"", b"mica:window 99999999999\n", b"mica:version 0.1.0\n"),
        (b"", b"mica:window 1000000\n", b"mica:version 0.1.0\n"),
        (b"", WINDOW.replace(b"half 1", b"half 0"), b"mica:version 0.1.0\n"),
        (b"", WINDOW.replace(b"at 0", b"at 7"), b"mica:version 0.1.0\n"),
        (b"", WINDOW.replace(b"confirmed", b"fine"), b"mica:version 0.1.0\n"),
    ],
)
def test_what_cannot_be_read(files: bytes, where: bytes, version: bytes, mica: Mica) -> None:
    with FakeBoard(listing(files, where, version)) as board:
        code, out, err = mica("ls", "--on", board.port)
    assert (code, out) == (1, "")
    assert re.fullmatch(r"mica: error: /dev/\S+: [^\n]{1,200}\n", err) and "bug in mica" not in err


def test_other_readers() -> None:
    """Wrong lines in the answers to doctor and flash are refused or reported."""
    for line in (b"mica:\n", b"mica:engine 1\n", b"mica:heap x y\n", b"mica:model -1 61\n", b"mica:clock \xff\n"):
        with FakeBoard(
            lambda _, line=line: line + b"mica:heap 1 1\nmica:mica 0.1.0\nmica:engine 1.1 ref 0 -\n"
        ) as fake:
            found = examine(fake.port)
            assert found[0].state == "bad" and found[0].text.isprintable(), line
    reads: list[tuple[bytes, Callable[[Link], object]]] = [
        (b"mica:entry file -1 2f61\n", board_files.listing),
        (b"mica:entry file 1 61\n", board_files.listing),
        (b"mica:entry link 1 2f61\n", board_files.listing),
        (b"mica:bytes 00\n", flash_map.rp2_files_of_board),
        (b"nothing\n", flash_map.rp2_files_of_board),
        (b"mica:partition 1 2 3\n", flash_map.partitions_of_board),
        (b"12", lambda board: board.get("x")),
        (b"", lambda board: board.get("x")),
    ]
    for said, ask in reads:
        with FakeBoard(lambda _, said=said: said) as fake, SerialBoard(fake.port) as board, pytest.raises(BoardError):
            ask(board)


def test_noise_is_skipped() -> None:
    answer = Answer(b"\xff\xfe\nhello\nmica:a 1\n mica:a 2\nmica:b more words\nmica:a 3 4\n", "x")
    assert answer.all("a", answers.number) == [(1,), (3,)]
    assert answer.one("b", answers.words) == ("more words",)
    with pytest.raises(BoardError, match=r"^x: gave no answer 'c'; it said: mica:a 3 4$"):
        answer.one("c")


# --- endless -------------------------------------------------------------------------------------------


def endless(piece: bytes, seconds: float = 0.0) -> Reply:
    def pieces() -> Iterator[bytes]:
        while True:
            time.sleep(seconds)
            yield piece

    return lambda _: pieces()


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits that a person would not mind, for a test that does."""
    monkeypatch.setattr(serial_board, "_ANSWER", 1.0)
    monkeypatch.setattr(serial_board, "_MANY", 3)


@pytest.mark.parametrize("piece", [b"x" * 4096, b"mica:file 1\n" * 300], ids=["noise", "lines"])
def test_an_answer_without_end(piece: bytes, mica: Mica, hasty: None) -> None:
    """2.5 GB were kept of it after 150 s."""
    with FakeBoard(endless(piece)) as board:
        code, out, err = mica("ls", "--on", board.port)
        assert board.written < 20_000_000
    assert (code, out) == (1, "")
    assert "printed more than 1,000,000 bytes; its program was interrupted" in err and err.count("\n") == 1


def test_an_answer_that_trickles(hasty: None) -> None:
    """A byte every half second held `mica ls` for ever."""
    with FakeBoard(endless(b".", 0.05)) as fake, SerialBoard(fake.port) as board:
        begun = time.monotonic()
        with pytest.raises(BoardError, match=r"went on printing for more than 1 s; its program was interrupted"):
            board.exec("x", total=1)
        assert time.monotonic() - begun < 30
        with pytest.raises(BoardError, match=r"went on printing for more than 2 s"):
            board.exec("x", 0.2)


def hello(program: str) -> bytes:
    """Answer of a board that repeats the word by which the host finds its place, and prints "hello" for the rest."""
    word = re.fullmatch(r"print\('([0-9a-f]{16})'\)", program)
    return word[1].encode() + b"\r\n" if word else b"hello"


def test_prompts_that_come_late(hasty: None) -> None:
    """A board on a busy computer answers every request, but after the host has stopped waiting. The second prompt once
    passed for the end of a soft reset, and its answer for the board's answer to the first program."""
    asked = []

    def reply(program: str) -> bytes:
        asked.append(program)
        return hello(program)

    with FakeBoard(reply, late=1) as fake, SerialBoard(fake.port) as board:
        assert board.exec("x") == b"hello" and board.exec("y") == b"hello"
    assert [program for program in asked if hello(program) == b"hello"] == ["x", "y"]


def test_a_slow_board_left_in_a_transfer(hasty: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A board that is slow to look is reached although an earlier host left it in the middle of a transfer."""
    monkeypatch.setattr(serial_board, "_PATIENCE", 0.7)
    monkeypatch.setattr(serial_board, "_ANSWER", 2.0)  # half of it is well over what the board takes to look
    with FakeBoard(hello, looks=0.4) as fake, SerialBoard(fake.port, reset=False) as board:
        assert board.exec("x") == b"hello"


def test_an_exception_without_end(hasty: None) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"\x04"
        yield from itertools.repeat(b"y" * 4096)

    with FakeBoard(lambda _: pieces()) as fake, SerialBoard(fake.port) as board:
        with pytest.raises(BoardError, match=r"bytes that do not end"):
            board.exec("x")
        assert fake.written < 20_000_000


def test_a_long_exception_is_cut(unix_board: Link) -> None:
    with pytest.raises(BoardError) as error:
        unix_board.exec("raise ValueError('x' * 100000)")
    assert len(str(error.value)) < 1100


def test_limits_on_a_board(board: Link) -> None:
    """Real ones go on after it."""
    with pytest.raises(BoardError, match="printed more than 5,000 bytes; its program was interrupted"):
        board.exec("kept = 5\nwhile True: print('x' * 50)", limit=5000)
    with pytest.raises(BoardError, match=r"went on printing for more than 0\.5 s; its program was interrupted"):
        board.exec("import time\nwhile True:\n    print('.')\n    time.sleep_ms(20)", total=0.5)
    assert board.exec("print(kept)") == b"5\n"


def test_backup_of_a_file_that_never_ends(hasty: None) -> None:
    def reply(program: str) -> bytes | Iterator[bytes]:
        return itertools.repeat(b"QUJD\n" * 800) if "_mica_read_file('/a'" in program else b""

    with (
        FakeBoard(reply) as fake,
        SerialBoard(fake.port) as board,
        pytest.raises(BoardError, match="printed more than"),
    ):
        board_files._read(board, board_files.Entry("/a", 1000))


# --- the wire ------------------------------------------------------------------------------------------


def test_damage_on_its_way_to_the_board() -> None:
    """It takes all pieces, and answers with the checksum of other bytes."""
    for said in (b"12345", b"", b"\xff", b"-1", b"9" * 5000):
        damaged = pytest.raises(BoardError, match="0 bytes were damaged on their way; try again")
        with FakeBoard(lambda _, said=said: said + b"\n") as fake, SerialBoard(fake.port) as board, damaged:
            board.put(b"", "x")


def test_names_that_no_board_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_reached(board: Link) -> NoReturn:
        raise AssertionError

    monkeypatch.setattr(push, "listing", not_reached)
    bad = (
        "a  b",
        " a",
        "a ",
        "a\u00a0b",
        "a\u3000b",
        "a\u2028b",
        "a\x0bb",
        "a\x1b",
        "a\nb",
        "a/b",
        "",
        "é" * 33,
        "\udcff",
    )
    with FakeBoard(lambda _: b"") as fake, SerialBoard(fake.port) as board:
        for name in bad:
            with pytest.raises(MicaError) as error:
                push.push(board, {name: b""}, say=print)
            assert "rename the file" in str(error.value) and str(error.value).isprintable()


def test_a_layer_name_does_not_answer_for_another() -> None:
    """A line of the answer ended in the name: with a line feed in it, the next line was the file's to write.
    No such name loads today, and no name is sent."""
    model = codec.decode(pushed_models.good(1))
    for step in model.steps:
        step.name = "mica:layer 0 00000000 0"
    data = codec.encode(model)
    x = [np.zeros(model.tensors[t].dims, np.int8) for t in model.inputs]
    with BoardRunner(data, "UNIX") as board, HostRunner(data) as host:
        assert board.layer_hashes(x) == host.layer_hashes(x)
        said = board.board.exec(f"remote.layer_hashes({board._arguments(x)})")
        assert all(re.fullmatch(rb"mica:layer \d+ [0-9a-f]{8} \d+", line) for line in said.split(b"\n")[:-1])
