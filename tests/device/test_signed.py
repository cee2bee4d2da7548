"""Signed models: whose a model is, on this computer and on boards."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable
from pathlib import Path

import pushed_models
import pytest

from mica.cli.main import main
from mica.errors import MicaError
from mica.file import codec
from mica.format import signature
from mica.link import push
from mica.link.board import BoardError, Link

DIGITS = Path(__file__).resolve().parents[2] / "host_tools" / "mica" / "demo" / "digits.onnx"

KEY, OTHER = bytes(range(32)), bytes(range(1, 33))
PLAIN = pushed_models.good(1)
SIGNED = signature.sign(PLAIN, KEY)


def changed(at: int) -> bytes:
    """The model with one bit changed and a right checksum."""
    data = bytearray(PLAIN)
    data[at] ^= 1
    return codec.with_crc(bytes(data)) + SIGNED[len(PLAIN) :]


REFUSED = {
    "not signed": (PLAIN, KEY, "the model is not signed; pack it with mica pack --key"),
    "cut": (SIGNED[:-1], KEY, "the model is not signed"),
    "nothing": (b"", KEY, "the model is not signed"),
    "a length beyond the end": (SIGNED[:8] + b"\xff" * 4 + SIGNED[12:], KEY, "the model is not signed"),
    "another key": (SIGNED, OTHER, "the model is signed with another key, or was changed since"),
    "a long key": (SIGNED, KEY * 3, "signed with another key"),
    "a byte": (changed(len(PLAIN) - 1), KEY, "signed with another key, or was changed since"),
    "a byte of the header": (changed(28), KEY, "signed with another key"),
    "a byte of the signature": (SIGNED[:-1] + bytes([SIGNED[-1] ^ 1]), KEY, "signed with another key"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_host_refuses(what: str) -> None:
    data, key, said = REFUSED[what]
    with pytest.raises(MicaError, match=f"^x: .*{said}"):
        signature.check(data, key, "x")


def test_the_bytes() -> None:
    assert PLAIN + b"MICAHMAC" + hmac.new(KEY, PLAIN, hashlib.sha256).digest() == SIGNED
    assert codec.decode(SIGNED) and codec.crc_of(SIGNED[: len(PLAIN)]) == codec.crc_of(PLAIN)
    assert signature.sign(SIGNED, KEY) == SIGNED  # one, not two
    assert (signature.is_signed(SIGNED), signature.is_signed(PLAIN), signature.is_signed(b"")) == (True, False, False)


@pytest.fixture(params=["unix_board", "qemu_board"], ids=["UNIX", "MPS2_AN385"])
def small_board(request: pytest.FixtureRequest) -> Link:
    board: Link = request.getfixturevalue(request.param)
    board.put(KEY, "KEY")
    board.exec("import mica, gc")
    return board


def test_boards_refuse(small_board: Link) -> None:
    few = ("not signed", "another key", "a byte")  # on the slow one
    for what in REFUSED if small_board.name == "UNIX" else few:
        data, key, said = REFUSED[what]
        small_board.put(data, "data")
        small_board.put(key, "key")
        with pytest.raises(BoardError, match=f"^ValueError: .*{said}"):
            small_board.exec("mica.Model(data, key=key)")
        with pytest.raises(BoardError, match=f"^ValueError: .*{said}"):
            small_board.exec("mica.Supervisor(data, key=key)")
    small_board.put(SIGNED, "data")
    for short in ("b''", "b'0123456789abcde'"):
        with pytest.raises(BoardError, match=r"key: (0|15) bytes; at least 16 are expected"):
            small_board.exec(f"mica.Model(data, key={short})")
    for none in ("5", "'0123456789abcdef'"):
        with pytest.raises(BoardError, match="TypeError"):
            small_board.exec(f"mica.Model(data, key={none})")


def test_boards_load(small_board: Link) -> None:
    """A signed model loads as bytes, from a file, and in its own block, with keys of every length and without a key."""
    run = f"m.input(0)[:] = {pushed_models.INPUT!r}\nm.run()\n"
    run += "import binascii\nprint(binascii.crc32(m.output(0)))\nm.deinit()"
    expected = b"%d\n" % pushed_models.answer(PLAIN)
    for key in (KEY, *((bytes(16), bytes(64), bytes(65), bytes(1000)) if small_board.name == "UNIX" else ())):
        small_board.put(signature.sign(PLAIN, key), "data")
        small_board.put(key, "key")
        assert small_board.exec(f"m = mica.Model(data, key=key)\n{run}") == expected, len(key)
    small_board.put(SIGNED, "data")
    block = "block = mica.Arena(len(data))\nmemoryview(block)[:] = data\n"
    for source in (
        "m = mica.Model(data)",
        "m = mica.Model(memoryview(data), key=KEY)",
        f"{block}m = mica.Model(block, key=KEY)",
    ):
        assert small_board.exec(f"{source}\n{run}") == expected, source
    small_board.exec("with open('signed.mica', 'wb') as f: f.write(data)")
    assert small_board.exec(f"m = mica.Model('signed.mica', key=KEY)\n{run}") == expected
    watched = "s = mica.Supervisor('signed.mica', spare=data, key=KEY)\nprint(s.on_spare, s.counts['failed'])\n"
    assert small_board.exec(watched) == b"False 0\n"
    # A file that was changed while it runs is not loaded again: the spare is.
    small_board.put(changed(len(PLAIN) - 1), "other")
    small_board.exec("with open('signed.mica', 'wb') as f: f.write(other)")
    spare = "s._sound = False\nx = bytes(64)\ns.predict([x])\nprint(s.on_spare)\ns.deinit()"
    assert small_board.exec(spare) == b"True\n"
    with pytest.raises(BoardError, match="a key is for paths and buffers"):
        small_board.exec("m = mica.Model(data)\nmica.Supervisor(m, key=KEY)")
    assert "MemoryError" not in small_board.exec("m.deinit()\nimport os\nos.remove('signed.mica')").decode()


def test_a_check_copies_nothing(unix_board: Link) -> None:
    """The heap that it takes is not a matter of the model's size."""
    big = bytearray(codec.encode(codec.decode(PLAIN)))
    unix_board.put(signature.sign(bytes(big), KEY), "data")
    unix_board.put(KEY, "KEY")
    code = "from mica.signature import hmac\nimport gc\nmany = memoryview(bytes(200_000))\n"
    code += "def took(n):\n    gc.collect()\n    gc.disable()\n    before = gc.mem_alloc()\n    hmac(KEY, many[:n])\n"
    code += "    after = gc.mem_alloc()\n    gc.enable()\n    return after - before\n"
    code += "took(1)\nprint(took(100), took(200_000))"
    small, large = unix_board.exec(code).split()
    assert small == large and int(large) < 4000


def silent(_: str) -> None:
    pass


def test_push_with_a_key(small_board: Link) -> None:
    """The trial refuses the model even if the host has not checked it; the model before stays."""
    if small_board.name == "UNIX":
        small_board.exec("import os\nfor e in os.ilistdir():\n    if '.mica' in e[0]: os.remove(e[0])")
    assert push.push(small_board, {"net.mica": SIGNED}, say=silent, key=KEY).confirmed
    small_board.soft_reset()
    for data in (pushed_models.good(2), signature.sign(pushed_models.good(2), OTHER)):
        done = push.push(small_board, {"net.mica": data}, say=silent, key=KEY)
        assert not done.confirmed and "signed" in done.reason
        small_board.soft_reset()
    place = "/rom/net.mica" if small_board.name != "UNIX" else "net.mica"
    small_board.put(KEY, "KEY")
    loads = f"import mica\nm = mica.Model({place!r}, key=KEY)\nprint(m.copied)\nm.deinit()"
    copied = small_board.exec(loads)
    assert copied == b"False\n" or small_board.name == "UNIX"  # from flash it is read in place


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def no_board(*_: object, **__: object) -> Link:
        raise AssertionError("nothing is to be sent")

    monkeypatch.setattr("mica.link.targets.open_board", no_board)
    for name, content in (("key", KEY), ("other", OTHER), ("short", KEY[:15]), ("empty", b""), ("long", bytes(5000))):
        (tmp_path / name).write_bytes(content)
    (tmp_path / "plain.mica").write_bytes(PLAIN)
    (tmp_path / "signed.mica").write_bytes(SIGNED)
    for words, said in (
        (["push", "plain.mica", "--key", "key"], "plain.mica: the model is not signed; pack it with mica pack --key"),
        (["push", "signed.mica", "--key", "other"], "signed.mica: the model is signed with another key"),
        (["push", "signed.mica", "--key", "short"], "short: a key of 15 bytes; 16 to 4096 are expected"),
        (["push", "signed.mica", "--key", "empty"], "empty: a key of 0 bytes"),
        (["push", "signed.mica", "--key", "long"], "long: a key of more than 4096 bytes"),
        (["push", "signed.mica", "--key", "none"], "none: the key cannot be read: No such file"),
        (["pack", str(DIGITS), "-o", "d.mica", "--key", "empty"], "empty: a key of 0 bytes"),
    ):
        monkeypatch.chdir(tmp_path)
        assert main(words) == 1
        out, err = capsys.readouterr()
        assert out == "" and err.startswith(f"mica: error: {said}") and err.count("\n") == 1, err
    assert main(["info", "signed.mica"]) == 0
    assert "\nsigned: HMAC-SHA256" in capsys.readouterr().out
    assert main(["info", "plain.mica"]) == 0
    assert "signed" not in capsys.readouterr().out.replace("signed.mica", "")
    assert main(["info", "signed.mica", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["signed"] is True


def test_pack(tmp_path: Path, digits: Callable[[Path], Path], capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "key").write_bytes(KEY)
    net = digits(tmp_path)
    assert main(["pack", str(net), "-o", str(tmp_path / "a.mica"), "--golden", "1"]) == 0
    words = ["pack", str(net), "-o", str(tmp_path / "b.mica"), "--golden", "1", "--key", str(tmp_path / "key")]
    assert main(words) == 0
    plain, signed = (tmp_path / "a.mica").read_bytes(), (tmp_path / "b.mica").read_bytes()
    assert signed == signature.sign(plain, KEY) and len(signed) == len(plain) + 40


@pytest.fixture
def digits() -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        import numpy as np
        import text_nets

        text = "(float[1,8] x) => (float[1,4] y) { [dense] y = MatMul(x, w) }"
        return text_nets.save(folder / "n.onnx", text, w=np.eye(8, 4, dtype=np.float32))

    return write
