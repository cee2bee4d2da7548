"""The lines of README.md and of boards/README.md, word for word, on a virtual Pico, a pretend ESP32,
or no board at all.

They are read out of these pages. What stands for the owner's hands is done here: a cable is plugged in, a button held,
and the files that a block names lie where the block says.
"""

from __future__ import annotations

import re
import shlex
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers import ROOT

sys.path.insert(0, str(ROOT / "tests" / "device"))

from fake_bootsel import FakeBootsel
from fake_esp_rom import FakeEsp
from mpremote.main import main as mpremote_main
from stock import stock_image
from test_flash_esp import c3, firmware_bin  # noqa: F401 - a fixture

from mica.boards import load_board
from mica.cli.main import main
from mica.link.targets import open_board
from mica.link.virtual_pico import VirtualPico
from mica.toolchain.build import BuildResult

Firmware = Callable[[str], BuildResult]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TEXT = (ROOT / "boards" / "README.md").read_text(encoding="utf-8")
HEADINGS = ("No board at all", "A Raspberry Pi Pico", "An ESP32", "An update", "Stock MicroPython")


def block(heading: str) -> list[str]:
    """The commands under a heading of the first hour, without their remarks."""
    part = TEXT[TEXT.index("## The first hour") :]
    found = re.search(rf"\n\*\*{re.escape(heading)}.*?\n```\n(.*?)```", part, flags=re.S)
    assert found, heading
    return [line.partition("  #")[0].strip() for line in found[1].strip().splitlines()]


def test_the_blocks_are_short() -> None:
    """Five lines each, and the headings here are those of the page."""
    part = TEXT[TEXT.index("## The first hour") : TEXT.index("\n## ", TEXT.index("## The first hour") + 5)]
    assert tuple(re.findall(r"^\*\*(.+?)[.*]", part, flags=re.M)) == HEADINGS
    assert part.count("```\n") == 2 * len(HEADINGS)
    for heading in HEADINGS:
        assert 2 <= len(block(heading)) <= 5


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the lines name, as in a clone."""
    demo = tmp_path / "host_tools" / "mica" / "demo"
    demo.parent.mkdir(parents=True)
    demo.symlink_to(ROOT / "host_tools" / "mica" / "demo")
    monkeypatch.chdir(tmp_path)
    return tmp_path


PACKED: dict[str, bytes] = {}  # of lines that have run: the same line makes the same file again


def run(line: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a line of a page; return its output on stdout."""
    words = shlex.split(line)
    if words[0] == "mpremote":
        return mpremote(words[1:], capsys)
    assert words[0] == "mica", line
    output = Path(words[-1])
    if line in PACKED:
        output.write_bytes(PACKED[line])
        return ""
    code = main(words[1:])
    out, err = capsys.readouterr()
    assert code == 0, f"{line}\n{err}"
    if words[1] == "pack":
        PACKED[line] = output.read_bytes()
    return out


def mpremote(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The real one, here in this process, where the list of ports is ours."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["mpremote", *words])
        try:
            code = mpremote_main()
        except SystemExit as end:
            code = end.code
    out, err = capsys.readouterr()
    assert not code, out + err
    return out.replace("\r\n", "\n")  # as a terminal has it


def answers(outs: dict[str, str]) -> bool:
    """Return True if `mica run` on the first of the test samples named the right digit."""
    (out,) = (out for line, out in outs.items() if line.startswith("mica run"))
    return out.splitlines()[1].split()[0] == expected()


def expected() -> str:
    import numpy as np

    with np.load(ROOT / "host_tools" / "mica" / "demo" / "digits_test.npz") as data:
        return f"[{int(data['y'][0])}]"


def test_no_board_at_all(firmware: Firmware, checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    firmware("RPI_PICO")
    outs = {line: run(line, capsys) for line in block("No board at all")}
    assert answers(outs)
    assert (checkout / "digits.mica").is_file()


def plug_in(monkeypatch: pytest.MonkeyPatch, port: Callable[[], str]) -> None:
    """Make pyserial list the board at `port`, as at USB."""

    def listing() -> list[SimpleNamespace]:
        return [SimpleNamespace(device=port(), vid=0x2E8A, pid=5, serial_number=None)] if port() else []

    monkeypatch.setattr("serial.tools.list_ports.comports", listing)


class Pico:
    """A Pico that is plugged in with its button held: a drive; and once it has its firmware, a port."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.flash = folder / "flash.bin"
        self.drive = folder / "RPI-RP2"
        self.fake = FakeBootsel(self.drive, self.flash)
        self.port = ""
        self.unplugged = threading.Event()
        # The emulator ends with the thread that starts it.
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        monkeypatch.setenv("MICA_DRIVES", str(self.drive))
        plug_in(monkeypatch, lambda: self.port)

    def _run(self) -> None:
        self.fake.done.wait()
        if not self.unplugged.is_set():
            with VirtualPico(load_board("RPI_PICO"), None, flash=self.flash) as running:
                self.port = running.port
                self.unplugged.wait()

    def unplug(self) -> None:
        self.unplugged.set()
        self.fake.close()
        self.thread.join(30)


@pytest.fixture
def pico(firmware: Firmware, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pico]:
    firmware("RPI_PICO")
    folder = checkout / "cable"
    folder.mkdir()
    plugged = Pico(folder, monkeypatch)
    yield plugged
    plugged.unplug()


def test_a_pico(pico: Pico, capsys: pytest.CaptureFixture[str]) -> None:
    outs = {line: run(line, capsys) for line in block("A Raspberry Pi Pico")}
    assert pico.fake.faults == [] and pico.port
    assert any(" fits" in out for out in outs.values())
    assert answers(outs)
    doctor = next(out for line, out in outs.items() if line.startswith("mica doctor"))
    assert "/rom/digits.mica" in doctor and "BAD" not in doctor
    pushed, listed = (run(line, capsys) for line in block("An update"))
    assert pushed.startswith("digits.mica: on ") and "in use" in pushed
    assert "digits.mica" in listed
    five_commands(pico, capsys)
    program_on(pico)


def five_commands(pico: Pico, capsys: pytest.CaptureFixture[str]) -> None:
    """README's own model, here the digits, and its port, here the virtual Pico's."""
    demo = Path("host_tools/mica/demo")
    for name, file in (
        ("net.onnx", "digits.onnx"),
        ("samples.npz", "digits_calib.npz"),
        ("labelled.npz", "digits_test.npz"),
    ):
        Path(name).symlink_to(demo / file)
    found = re.search(r"## Your own model in five commands\n.*?\n```\n(.*?)```", README, flags=re.S)
    assert found
    lines = [line.partition("  #")[0].strip() for line in found[1].strip().splitlines()]
    assert [line.split()[1] for line in lines] == ["pack", "fit", "eval", "verify", "push"]
    for line in lines:
        words = shlex.split(line.replace("/dev/ttyACM0", pico.port))
        code = main(words[1:])
        out, err = capsys.readouterr()
        assert code == 0, f"{line}\n{err}"
    assert "net.mica: on " in out


def program_on(pico: Pico) -> None:
    """README's program, on the board, which has both of its models."""
    found = re.search(r"```python\n(.*?)```", README, flags=re.S)
    assert found
    program = "".join(f"    {line}\n" for line in found[1].splitlines())
    Path("small.mica").write_bytes(Path("net.mica").read_bytes())
    assert main(["push", "small.mica", "--on", pico.port]) == 0
    with open_board(pico.port) as board:
        out = board.exec(
            f"import asyncio\nsamples = [0, 0, 0, 1, 1, 0, 0, 0] * 8\nasync def main():\n{program}"
            "    print(len(answer), label, score, safe.predict([samples])[0] == answer)\nasyncio.run(main())"
        )
    assert out.splitlines()[-1].split() == [b"10", b"1", b"0.9882813", b"True"]


def test_an_esp32(
    c3: FakeEsp,  # noqa: F811
    checkout: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The firmware is made up (test_flash_esp.py says how); behind the loader is the emulated RISC-V board,
    with files on it."""
    firmware_bin("esp32c3", checkout / "firmware.bin")
    plug_in(monkeypatch, lambda: c3.port)
    outs = {line: run(line, capsys) for line in block("An ESP32")}
    assert answers(outs)


def test_stock_micropython(checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A virtual Pico whose firmware has nothing of mica in it, neither the engine nor the runtime."""
    with VirtualPico(load_board("RPI_PICO"), stock_image("RPI_PICO"), keep_flash=False) as running:
        plug_in(monkeypatch, lambda: running.port)
        code = "try:\n    import mica\nexcept ImportError as error:\n    print(error)"
        assert mpremote(["exec", code], capsys) == "no module named 'mica'\n"
        outs = {line: run(line, capsys) for line in block("Stock MicroPython")}
        assert next(out for line, out in outs.items() if "selftest" in line).endswith("None\n")
        assert answers(outs)
        assert mpremote(["exec", "import _mica; print(_mica.__file__)"], capsys) == "/lib/_mica.mpy\n"
