"""A virtual Pico that loses power while models are pushed, swapped and tried, at moments that a seed chooses.

MICA_KILLS=50 (default 8, one in each phase) says how often.
After each the Pico is started again, and says by its output bytes which model is at /rom: the one of before,
or the new one if that is good.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pushed_models
import pytest
from targets import VIRTUAL

from mica.boards import load_board
from mica.errors import MicaError
from mica.link import push
from mica.link.board import BoardError, Link
from mica.link.serial_board import SerialBoard
from mica.link.virtual_pico import VirtualPico
from mica.toolchain.build import BuildResult

KILLS = int(os.environ.get("MICA_KILLS", "8"))
SIDE = pushed_models.good(1000)
PHASES = ("begin", "blocks", "send", "check", "commit", "trial", "boot", "done")


class Pico:
    """The flash, and the emulators that run on it one after the other."""

    def __init__(self, name: str, image: Path, flash: Path) -> None:
        self.name = name
        self.image = image
        self.flash = flash
        self.running: VirtualPico | None = None

    def start(self, kill_after: float | None = None) -> bool:
        """Switch it on; it may lose power `kill_after` seconds later. Returns whether it has started."""
        pico = VirtualPico.__new__(VirtualPico)
        timer = None
        if kill_after is not None:

            def kill() -> None:
                end = time.monotonic() + 20
                while not hasattr(pico, "_process") and time.monotonic() < end:
                    time.sleep(0.001)
                time.sleep(kill_after)
                os.kill(pico.pid, signal.SIGKILL)

            timer = threading.Thread(target=kill)
            timer.start()
        try:
            pico.__init__(load_board(self.name), self.image, flash=self.flash)  # type: ignore[misc]
        except MicaError:
            assert timer is not None
            timer.join()
            return False
        self.running = pico
        if timer is not None:
            timer.join()
            self.off()
            return False
        return True

    def off(self) -> None:
        if self.running is not None:
            self.running.close()
            self.running = None

    @contextlib.contextmanager
    def board(self) -> Iterator[Link]:
        assert self.running is not None
        with SerialBoard(self.running.port) as board:
            yield board

    def answers(self) -> tuple[int, int]:
        """CRC-32s of the outputs of the two models at /rom."""
        with self.board() as board:
            found = [
                int(board.exec(pushed_models.ASK.replace("PATH", f"/rom/{name}.mica")).split()[1])
                for name in ("net", "side")
            ]
        return found[0], found[1]


@pytest.fixture(scope="module", params=VIRTUAL)
def pico(
    request: pytest.FixtureRequest, firmware: Callable[[str], BuildResult], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pico]:
    name = request.param.removesuffix("@emu")
    made = Pico(name, firmware(name).image, tmp_path_factory.mktemp("kill") / "flash.bin")
    made.start()
    with made.board() as board:
        done = push.push(board, {"net.mica": pushed_models.good(0), "side.mica": SIDE}, say=lambda message: None)
        assert done.confirmed
    yield made
    made.off()


class Phases:
    """Times at which a push reaches its phases; it can cut the power some time after one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun: dict[str, float] = {}
        self.at = ""
        self.delay = 0.0
        self.pid = 0
        self.timer: threading.Timer | None = None
        call, send = push._call, push._send

        def noted_call(board: Link, code: str, timeout: float = 60.0) -> push.Answer:
            self.enter(code.partition("(")[0])
            return call(board, code, timeout)

        def noted_send(*arguments: object) -> int:
            self.enter("send")
            return send(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(push, "_call", noted_call)
        monkeypatch.setattr(push, "_send", noted_send)

    def enter(self, phase: str) -> None:
        self.begun.setdefault(phase, time.monotonic())
        if phase == self.at and self.timer is None:
            self.timer = threading.Timer(self.delay, os.kill, (self.pid, signal.SIGKILL))
            self.timer.start()

    def arm(self, pid: int, at: str, delay: float) -> None:
        self.begun.clear()
        self.pid, self.at, self.delay, self.timer = pid, at, delay, None

    def fired(self) -> bool:
        if self.timer is None:
            return False
        self.timer.join()
        return True


def test_power_cuts_at_random_moments(
    pico: Pico, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(20261122)
    phases = Phases(monkeypatch)
    current = pushed_models.good(0)
    lengths = dict.fromkeys(PHASES, 0.3)  # seconds, as they were last seen
    outcomes: collections.Counter[str] = collections.Counter()
    for turn in range(1, KILLS + 1):
        good = rng.random() < 0.6
        new = (pushed_models.good if good else pushed_models.bad)(turn)
        at = PHASES[turn % len(PHASES)] if turn <= len(PHASES) else rng.choice(PHASES)
        assert pico.running is not None
        # "boot": power goes before the trial, which is the next boot's then, and goes again during that.
        phases.arm(pico.running.pid, "trial" if at == "boot" else at, 0 if at == "boot" else rng.random() * lengths[at])
        verdict = None
        try:
            with pico.board() as board:
                verdict = push.push(board, {"net.mica": new}, say=lambda message: None).confirmed
                phases.enter("done")
        except BoardError:
            assert phases.fired()
        except MicaError as error:
            assert phases.fired(), error
        times = sorted((*phases.begun.items(), ("end", time.monotonic())), key=lambda item: item[1])
        if verdict is not None:
            lengths |= {phase: end - start for (phase, start), (_, end) in itertools.pairwise(times)}
            lengths["done"] = 0.1
        phases.fired()
        pico.off()
        if at == "boot" and not pico.start(kill_after=rng.random() * 1.2):
            outcomes["boots cut"] += 1
        assert pico.start()
        net, side = pico.answers()
        answers = {pushed_models.answer(current): "old", pushed_models.answer(new): "new" if good else "BAD"}
        what = f"turn {turn}: cut in {at} after {phases.delay:.3f} s, pushed a {'good' if good else 'bad'} one"
        assert side == pushed_models.answer(SIDE), what
        assert net in answers, what
        assert answers[net] != "BAD", what
        if verdict is not None:
            assert (answers[net] == "new") == verdict == good, what
        outcomes[f"{at}: {'good' if good else 'bad'} one pushed, the {answers[net]} one answers"] += 1
        if answers[net] == "new":
            current = new
    with capsys.disabled():
        print(f"\n{KILLS} power cuts")
        for outcome, count in sorted(outcomes.items()):
            print(f"  {count:3d}  {outcome}")
    # After all this, a push does what it should.
    new = pushed_models.good(KILLS + 1)
    with pico.board() as board:
        assert push.push(board, {"net.mica": new}, say=lambda message: None).confirmed
    assert pico.answers() == (pushed_models.answer(new), pushed_models.answer(SIDE))


def test_a_trial_that_hangs_ends_by_the_watchdog(pico: Pico, monkeypatch: pytest.MonkeyPatch) -> None:
    """The watchdog's reset is the verdict; a model that hung is not tried again."""
    before = pico.answers()
    call = push._call
    hang = (
        "import machine\nfrom mica import slots\ndef test(path, key=None):\n    while True: pass\nslots.test = test\n"
    )

    def watched(board: Link, code: str, timeout: float = 60.0) -> push.Answer:
        if code.startswith("trial("):
            board.exec(f"{hang}watchdog = machine.WDT(timeout=300)\nremote_push.{code}")
        return call(board, code, timeout)

    with monkeypatch.context() as patch, pico.board() as board, pytest.raises(BoardError):
        patch.setattr(push, "_call", watched)
        push.push(board, {"net.mica": pushed_models.good(2000)}, say=lambda message: None)
    reasons = []
    for _ in range(200):
        with contextlib.suppress(MicaError), pico.board() as board:
            reasons = [half.reason for half in push.listing(board).halves if half.state == "rejected"]
            break
        time.sleep(0.3)
    assert reasons == ["the board was reset during the trial"]
    assert pico.answers() == before
