"""Place of a model on a board: the board's own copy is used if it is equal, and no golden vector goes into RAM."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mica import demo
from mica.cli.main import main
from mica.file import codec
from mica.format import schema
from mica.images import romfs
from mica.link.board import Link
from mica.run.board import place
from mica.run.host import HostRunner

DEMO = Path(demo.__file__).parent


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The digits with four golden vectors."""
    to = tmp_path_factory.mktemp("digits") / "d.mica"
    words = [DEMO / "digits.onnx", "--calib", DEMO / "digits_calib.npz", "--plain", "--golden", 4, "-o", to]
    assert main(["pack", *map(str, words)]) == 0
    return to.read_bytes()


def test_without_golden(digits: bytes) -> None:
    model, lean = codec.decode(digits), codec.without_golden(digits)
    assert len(model.golden) == 4 and len(lean) < len(digits) - 4 * 74
    bare = codec.decode(lean)
    assert bare.golden == [] and bare.metadata == model.metadata and bare.data == model.data
    assert [s.name for s in bare.steps] == [s.name for s in model.steps]
    assert codec.without_golden(lean) == lean == codec.without_golden(digits + b"a signature")
    table = bytearray(digits)
    table[schema.record_bytes(schema.HEADER) - 1] ^= 0x80
    for damaged in (digits[:-1], digits[:7], bytes(table)):
        with pytest.raises(codec.FormatError):
            codec.without_golden(damaged)
    vector = model.golden[0]
    with HostRunner(lean) as runner:
        assert np.array_equal(runner.run([vector.inputs])[0][0], np.reshape(vector.outputs[0], (1, 10)))


@pytest.mark.parametrize(("place_of", "golden", "found"), [
    ("/rom", True, "/rom/lib/d.mica"), ("/rom", False, "/rom/lib/d.mica"), ("", False, "d.mica"), ("", True, None),
    (None, True, None),
])  # fmt: skip
def test_place(
    unix_board: Link,
    digits: bytes,
    place_of: str | None,
    golden: bool,
    found: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A file that the board copies into RAM is used only without golden vectors; another model is never used."""
    lean = codec.without_golden(digits)
    there, other = digits if golden else lean, codec.with_crc(digits[:100] + b"\xff" + digits[101:])
    if place_of == "/rom":
        unix_board.put(romfs.build({"a.mica": other, "lib/d.mica": there, "short.mica": b"MICA"}), "_image")
        unix_board.exec("import vfs\nvfs.mount(vfs.VfsRom(_image), '/rom')")
    elif place_of is not None:
        unix_board.put(there, "_file")
        unix_board.exec("with open('d.mica', 'wb') as f: f.write(_file)")
    sent = {}
    monkeypatch.setattr(unix_board, "put", lambda data, name, progress=None: sent.update({name: data}))
    said: list[str] = []
    try:
        placed = place(unix_board, digits, "_data", say=said.append)
    finally:
        unix_board.exec("import os\nfor n in os.listdir():\n    if n == 'd.mica': os.remove(n)")
        if place_of == "/rom":
            unix_board.exec("vfs.umount('/rom')")
    if found:
        assert (placed.source, placed.copied, sent) == (repr(found), place_of == "", {})
        assert said == [f"{unix_board.name} has this model: its own copy {found} is used"]
    else:
        assert (placed.source, placed.copied, sent) == ("_data", True, {"_data": lean})
