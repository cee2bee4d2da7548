"""`mica push`, `ls` and `rm` on an emulated board's ROMFS window, and in a file system."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pushed_models
import pytest

from mica.boards import load_board
from mica.cli.main import main
from mica.errors import MicaError
from mica.images import romfs
from mica.link import push
from mica.link.board import BoardError, Link
from mica.link.qemu import Emulator
from mica.link.serial_board import SerialBoard
from mica.toolchain.build import BuildResult

FIRST, SECOND = pushed_models.good(1), pushed_models.good(2)


def silent(message: str) -> None:
    pass


def ask_code(path: str) -> str:
    return pushed_models.ASK.replace("PATH", path)


def ask(board: Link, path: str) -> tuple[bool, int]:
    """Return (True if the board had to copy the model, CRC-32 of its output)."""
    copied, crc = board.exec(ask_code(path)).split()
    return copied == b"True", int(crc)


@pytest.fixture
def port(firmware: Callable[[str], BuildResult]) -> Iterator[str]:
    """Address of an emulated board that has just been switched on."""
    board = load_board("MPS2_AN385")
    with Emulator(board, firmware("MPS2_AN385").image, tcp=0) as emulator:
        yield emulator.port


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name, data in (("first", FIRST), ("second", SECOND), ("bad", pushed_models.bad(3))):
        (tmp_path / f"{name}.mica").write_bytes(data)
    (tmp_path / "plain.mica").write_bytes(pushed_models.good(4, vectors=0))
    return tmp_path


@pytest.fixture
def mica(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def run(*words: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main([str(word) for word in words])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_push_ls_rm(port: str, files: Path, mica: Callable[..., tuple[int, str, str]]) -> None:
    code, out, err = mica("ls", "--on", port)
    assert (code, err) == (0, "")
    assert re.fullmatch(r"0 of 4,190,208 bytes taken\n", out)
    code, out, err = mica("push", files / "first.mica", files / "plain.mica", "--on", port)
    assert (code, out) == (0, f"first.mica, plain.mica: on {port}, tried there and in use\n")
    assert "plain.mica has no golden vectors: its trial is to load and run once (mica pack --golden 4" in err
    assert re.search(r"[\d,]+ bytes in [\d.]+ s \([\d.]+ kB/s\)", err)
    code, out, _ = mica("push", files / "second.mica", "--on", port, "--json")
    result = json.loads(out)
    assert (code, result["confirmed"], result["files"]) == (0, True, ["second.mica"])
    assert result["sent"] < len(SECOND) + 2 * len(FIRST) < result["sent"] + result["kept"] + len(FIRST)
    with SerialBoard(port) as board:
        for name, data in (("first", FIRST), ("second", SECOND)):
            assert ask(board, f"/rom/{name}.mica") == (False, pushed_models.answer(data))
    listed = json.loads(mica("ls", "--on", port, "--json")[1])
    assert [(f["name"], f["size"]) for f in listed["files"]] == [
        (name, (files / name).stat().st_size) for name in ("first.mica", "plain.mica", "second.mica")
    ]
    assert (listed["place"], [half["state"] for half in listed["halves"]]) == ("romfs", ["confirmed", "confirmed"])
    assert mica("rm", "first.mica", "--on", port)[0] == 0
    assert "first.mica" not in mica("ls", "--on", port)[1]
    code, _, err = mica("rm", "first.mica", "--on", port)
    assert (code, err) == (1, f"mica: error: {port} has no first.mica; there is plain.mica, second.mica\n")


def test_a_model_that_fails(port: str, files: Path, mica: Callable[..., tuple[int, str, str]]) -> None:
    (files / "a").mkdir()
    same = (files / "first.mica").rename(files / "a" / "net.mica")
    assert mica("push", same, "--on", port)[0] == 0
    same.write_bytes((files / "bad.mica").read_bytes())
    code, out, err = mica("push", same, "--on", port)
    assert (code, out) == (1, "")
    assert re.search(r"error: rejected by socket\S+ net\.mica: .+; what was there before is still in use\n", err)
    with SerialBoard(port) as board:
        assert ask(board, "/rom/net.mica") == (False, pushed_models.answer(FIRST))
    assert "what was pushed last was rejected: net.mica" in mica("ls", "--on", port)[1]
    assert mica("push", files / "second.mica", "--on", port)[0] == 0


def test_names_with_unusual_white_space(
    port: str, files: Path, monkeypatch: pytest.MonkeyPatch, mica: Callable[..., tuple[int, str, str]]
) -> None:
    """None is pushed. Those that came otherwise keep their names, and can be removed: after a push of another model two
    blanks were one, and with one blank and two there at once every push and rm failed."""
    odd = ["a b.mica", "a  b.mica", "a\u00a0b.mica", "a\u2028b.mica", "a\x0bb.mica", "a\nb.mica"]
    for name in odd[1:]:
        (files / name).write_bytes(FIRST)
        code, out, err = mica("push", files / name, "--on", port)
        assert (code, out, err.count("\n")) == (1, "", 1) and "rename the file" in err and err[:-1].isprintable()
    with SerialBoard(port) as board, monkeypatch.context() as patch:
        patch.setattr(push, "file_fault", lambda name, most: "")
        assert push.push(board, dict.fromkeys(odd[:-1], FIRST), say=silent).confirmed
    assert mica("push", files / "second.mica", "--on", port)[0] == 0
    with SerialBoard(port) as board:
        assert sorted(eval(board.exec("import os\nprint(os.listdir('/rom'))"))) == sorted([*odd[:-1], "second.mica"])
        assert ask(board, "/rom/a  b.mica") == (False, pushed_models.answer(FIRST))
    assert mica("rm", "a  b.mica", "--on", port)[0] == 0
    listed = json.loads(mica("ls", "--on", port, "--json")[1])["files"]
    assert sorted(f["name"] for f in listed) == sorted({*odd[:-1], "second.mica"} - {"a  b.mica"})


class Wire:
    """A wire to a board's socket on which one byte that the host sends is damaged: the last of `marker`."""

    def __init__(self, port: str, marker: bytes) -> None:
        self.marker = marker
        self.damaged = 0
        self._board = socket.create_connection(("127.0.0.1", int(port.rpartition(":")[2])))
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port = f"socket://127.0.0.1:{self._door.getsockname()[1]}"
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            host, _ = self._door.accept()
            threading.Thread(target=self._carry, args=(self._board, host, False), daemon=True).start()
            self._carry(host, self._board, True)

    def _carry(self, source: socket.socket, to: socket.socket, damage: bool) -> None:
        seen = b""
        with contextlib.suppress(OSError):
            while data := source.recv(1):
                seen = (seen + data)[-len(self.marker) :]
                if damage and seen == self.marker:
                    data = bytes([data[0] ^ 0x20])
                    self.damaged += 1
                to.sendall(data)

    def close(self) -> None:
        self._board.close()
        self._door.close()


def test_a_damaged_wire(port: str) -> None:
    """The inputs of run, verify and eval have no other checksum than that of `put`."""
    wire = Wire(port, b"damage me here")
    with SerialBoard(wire.port) as board:
        with pytest.raises(BoardError, match="620 bytes were damaged on their way; try again"):
            board.put(bytes(300) + b"damage me here" + bytes(306), "x")
        assert wire.damaged == 1
        board.put(b"sound", "x")
        assert board.get("x") == b"sound"
    wire.close()


def test_a_model_in_use_is_not_written_over(port: str) -> None:
    """Read in place from the half of before, while the new one is at /rom already."""
    use = ask_code("/rom/net.mica").replace("_m", "kept").replace("kept = None", "")
    with SerialBoard(port) as board:
        assert push.push(board, {"net.mica": FIRST}, say=silent).confirmed
        board.exec(use)
        assert push.push(board, {"net.mica": SECOND}, say=silent).confirmed
        again = f"kept.input(0)[:] = {pushed_models.INPUT!r}\nkept.run()\nprint(binascii.crc32(kept.output(0)))"
        assert int(board.exec(again)) == pushed_models.answer(FIRST)
        assert ask(board, "/rom/net.mica") == (False, pushed_models.answer(SECOND))
        with pytest.raises(
            MicaError, match=r"may be in use since the last push; reset the board, or push without --no-reset"
        ):
            push.push(board, {"net.mica": FIRST}, say=silent)
        # Nor by somebody who does not ask.
        with pytest.raises(BoardError, match="this half may be in use"):
            board.exec("remote_push.begin(0)")
        assert int(board.exec(again)) == pushed_models.answer(FIRST)
        board.soft_reset()
        assert push.push(board, {"net.mica": FIRST}, say=silent).confirmed


def test_mistakes(files: Path, mica: Callable[..., tuple[int, str, str]]) -> None:
    (files / "damaged.mica").write_bytes(FIRST[:-50])
    (files / "b").mkdir()
    (files / "b" / "first.mica").write_bytes(SECOND)
    for words, said in (
        (("push", files / "none.mica"), "no such file"),
        (("push", files / "damaged.mica"), "damaged.mica: "),
        (("push", files / "first.mica", files / "b" / "first.mica"), "two models are called first.mica"),
        (("push", files / "first.mica", "--on", "host"), "this computer keeps no models; give a board with --on"),
        (("ls", "--on", "RPI_PICO2"), "RPI_PICO2 is a real board; plug it in"),
    ):
        code, out, err = mica(*words)
        assert (code, out) == (1, "")
        assert said in err and err.count("\n") == 1 and err.startswith("mica: error: ")


def test_an_emulated_board_that_forgets(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def no_board(*_: object, **__: object) -> Link:
        raise MicaError("not started here")

    monkeypatch.setattr("mica.link.targets.open_board", no_board)
    for target, forgets in (("MPS2_AN385", True), ("RPI_PICO@emu", False), ("/dev/ttyACM0", False)):
        capsys.readouterr()
        assert main(["ls", "--on", target]) == 1
        assert ("forgets all when this command ends" in capsys.readouterr().err) == forgets, target


# --- a board without a ROMFS window -----------------------------------------------------------------------


@pytest.fixture
def empty(unix_board: Link) -> Link:
    """A board without files."""
    unix_board.exec("import os\nfor entry in os.ilistdir():\n    if '.mica' in entry[0]: os.remove(entry[0])")
    return unix_board


def test_files(empty: Link) -> None:
    done = push.push(empty, {"net.mica": FIRST}, say=silent)
    assert (done.confirmed, done.sent) == (True, len(FIRST))
    assert ask(empty, "net.mica")[1] == pushed_models.answer(FIRST)
    there = push.listing(empty)
    assert (there.place, [(f.name, f.size) for f in there.files]) == ("files", [("net.mica", len(FIRST))])
    # One that fails never gets the name.
    done = push.push(empty, {"net.mica": pushed_models.bad(3)}, say=silent)
    assert not done.confirmed
    assert ask(empty, "net.mica")[1] == pushed_models.answer(FIRST)
    assert push.push(empty, {"net.mica": SECOND}, say=silent).confirmed
    assert ask(empty, "net.mica")[1] == pushed_models.answer(SECOND)
    push.remove(empty, "net.mica", say=silent)
    with pytest.raises(MicaError, match=r"has no net\.mica; there is nothing"):
        push.remove(empty, "net.mica", say=silent)


def test_files_that_are_there_are_copied_within_an_image() -> None:
    """The host sends the bytes between the copies; it sends nothing where two copies touch."""
    image = bytes(range(100))
    copies = [(10, push.File("a", 20, 0, 1000)), (30, push.File("b", 20, 0, 2000))]
    for start in range(100):
        for end in range(start + 1, 101):
            pieces = push._pieces(image, copies, start, end)
            assert all(p.length > 0 for p in pieces), (start, end)
            made = [k for p in pieces for k in (p.data if p.data else range(p.source, p.source + p.length))]
            source = {**{10 + k: 1000 + k for k in range(20)}, **{30 + k: 2000 + k for k in range(20)}}
            assert made == [source.get(k, k) for k in range(start, end)], (start, end)


def test_a_file_that_broke_off_goes_on(empty: Link) -> None:
    board = empty
    listed = push.listing(board)  # imports the board's half
    assert listed.files == []
    board.put(FIRST[:1000], "piece")
    board.exec("remote_push.append('6e65742e6d696361', 0, piece)")
    done = push.push(board, {"net.mica": FIRST}, say=silent)
    assert (done.confirmed, done.sent) == (True, len(FIRST) - 1000)
    # What is there in part is of another model.
    board.exec("remote_push.append('6e65742e6d696361', 0, piece)")
    assert push.push(board, {"net.mica": SECOND}, say=silent).sent == len(SECOND)
    assert ask(board, "net.mica")[1] == pushed_models.answer(SECOND)
    # Damaged on its way: the one of before stays.
    board.exec("remote_push.append('6e65742e6d696361', 0, piece)")
    with pytest.raises(BoardError, match="damaged on its way"):
        board.exec("remote_push.finish('6e65742e6d696361', 1000, '00')")
    assert ask(board, "net.mica")[1] == pushed_models.answer(SECOND)
    assert [f.name for f in push.listing(board).files] == ["net.mica"]


def test_ls_finds_rom_on_a_board_that_mica_did_not_build_for(firmware: Callable[[str], BuildResult]) -> None:
    """Its MicroPython mounts a ROMFS without halves: models there are listed, and stay where they are."""
    board = load_board("MPS2_AN385")
    rom = romfs.build({"first.mica": FIRST, "words.txt": b"a"})
    with (
        Emulator(board, firmware("MPS2_AN385").image, tcp=0, rom=rom) as emulator,
        SerialBoard(emulator.port) as there,
    ):
        there.exec("import mica, sys\nsys.modules['mica.later'].boots = False")
        found = push.listing(there)
        assert (found.window, [(f.name, f.size) for f in found.files]) == (0, [("/rom/first.mica", len(FIRST))])
        with pytest.raises(MicaError, match="cannot be removed alone; mpremote romfs deploy"):
            push.remove(there, "/rom/first.mica", say=silent)
