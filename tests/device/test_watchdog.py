"""A watchdog that a Supervisor feeds, on the virtual Pico: it bites when a layer hangs, not when layers are slow."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

import pushed_models
import pytest
from targets import VIRTUAL

from mica.boards import load_board
from mica.errors import MicaError
from mica.link.board import BoardError
from mica.link.serial_board import SerialBoard
from mica.link.virtual_pico import VirtualPico
from mica.toolchain.build import BuildResult

SETUP = f"""
import binascii, machine, mica, time
x = mica.Quantised({pushed_models.INPUT!r})
def answer():
    return binascii.crc32(bytes(s.predict([x], raw=True)[0]))
"""
# All in one program, for the watchdog wants to be fed between its lines too. How far it came is left in a file.
STARVE = """
def slow(layer):
    time.sleep_ms(150)
def hang(layer):
    while True:
        pass
wdt = machine.WDT(timeout=400)
s = mica.Supervisor(model, feed=wdt.feed, setup=lambda m: m.hook(after=slow))
begin = time.ticks_ms()
said = answer()
took = time.ticks_diff(time.ticks_ms(), begin)
wdt.feed()
with open("said", "w") as f:
    f.write("%d %d %d" % (said, took, s.counts["runs"]))
wdt.feed()
s.model.hook(1, before=hang)
s.predict([x])
"""


@pytest.fixture(scope="module", params=VIRTUAL)
def pico(
    request: pytest.FixtureRequest, firmware: Callable[[str], BuildResult], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[VirtualPico]:
    """One that this module may reset; on the others a watchdog would run on."""
    name, flash = request.param.removesuffix("@emu"), tmp_path_factory.mktemp("flash") / "flash.bin"
    with VirtualPico(load_board(name), firmware(name).image, flash=flash) as running:
        yield running


def again(pico: VirtualPico) -> SerialBoard:
    """The board, when it has come back: its USB port is gone for a while."""
    end = time.monotonic() + 120
    while True:
        try:
            return SerialBoard(pico.port)
        except MicaError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


def test_a_layer_that_hangs_is_bitten(pico: VirtualPico) -> None:
    model = pushed_models.good(1)
    want = pushed_models.answer(model)
    with SerialBoard(pico.port) as board:
        assert board.exec("import machine\nprint(machine.reset_cause() == machine.PWRON_RESET)") == b"True\n"
        board.put(model, "model")
        board.exec(SETUP)
        with contextlib.suppress(BoardError):
            board.exec(STARVE, timeout=120)
            pytest.fail("a layer that hangs came to an end")
    with again(pico) as board:
        code = "import machine\nprint(machine.reset_cause() == machine.WDT_RESET, open('said').read())"
        bitten, said, took, runs = board.exec(code).split()
        # Slow, longer in all than the watchdog waits, but each layer is progress.
        assert (bitten, int(said), int(runs)) == (b"True", want, 1) and int(took) > 2 * 300
        board.put(model, "model")
        assert board.exec(SETUP + "s = mica.Supervisor(model)\nprint(answer())") == b"%d\n" % want
