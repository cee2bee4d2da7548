"""Boards of three kinds as one fleet: behind a broker, in QEMU and the virtual Pico,
these by frames over their serial lines."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import numpy as np
import pytest
from conftest import DEMO, Join
from outages import SLOW

from mica.link import emulated
from mica.link.board import BoardError
from mica.link.qemu import Emulator
from mica.link.serial_board import SerialBoard
from mica.run.board import BoardRunner
from mica.run.host import HostRunner
from mica.run.runner import Inputs
from mica.toolchain.build import BuildResult
from mica_fleet.dispatch import Settings
from mica_fleet.open import open_fleet
from mica_fleet.site import Site


def digits_and_answers(data: bytes, n: int) -> tuple[list[Inputs], list[bytes]]:
    """The first n of the 360 digits, and the host's answers."""
    with HostRunner(data) as host:
        x = np.load(DEMO / "digits_test.npz")["x"][:n].astype(np.float32)
        samples: list[Inputs] = [host.quantise([one]) for one in x]
        return samples, [y[0].tobytes() for y in host.run(samples)]


def test_frames_on_a_board(digits_file) -> None:  # type: ignore[no-untyped-def]
    """Another call ends the exchange of frames, and the next request begins it again. A board goes on after Ctrl-C."""
    data = digits_file.read_bytes()
    samples, right = digits_and_answers(data, 30)
    with HostRunner(data) as host, BoardRunner(data, "MPS2_AN385") as runner:

        def answers() -> list[bytes]:
            found = []
            for k, inputs in enumerate(samples):
                runner.begin(inputs)
                if k:
                    found.append(runner.finish()[0].tobytes())
            return [*found, runner.finish()[0].tobytes()]

        assert answers() == right
        assert runner._exchange is not None and runner._exchange.open
        assert runner.layer_hashes(samples[0]) == host.layer_hashes(samples[0])
        assert not runner._exchange.open
        assert answers() == right and runner._exchange.open
        board = runner.board
        assert isinstance(board, SerialBoard) and board._repl is not None
        runner.begin(samples[0])
        board._repl.serial.write(b"\x03")
        with pytest.raises(BoardError, match="KeyboardInterrupt"):
            for _ in range(3):
                runner.finish()
                runner.begin(samples[0])
        assert answers() == right
        board.soft_reset()
        assert board.exec("print(1 + 1)") == b"2\n"


def test_one_of_each_kind_is_killed(
    fleet: Site,
    join: Join,
    digits_file,  # type: ignore[no-untyped-def]
    firmware: Callable[[str], BuildResult],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for board in ("MPS2_AN385", "RPI_PICO"):
        firmware(board)  # a build is no part of the time that the boards have
    data = digits_file.read_bytes()
    samples, right = digits_and_answers(data, 360)
    members = [join(f"b{i}", program=SLOW) for i in (1, 2)]
    emulators: list[Emulator] = []
    start = emulated.start_emulator

    def noted(*args, **more) -> Emulator:  # type: ignore[no-untyped-def]
        emulators.append(start(*args, **more))
        return emulators[-1]

    monkeypatch.setattr(emulated, "start_emulator", noted)
    said: list[str] = []
    with open_fleet(data, f"fleet:{fleet.path},MPS2_AN385*2,RPI_PICO@emu", said.append, Settings(audit=0.05)) as runner:
        dispatcher = runner._dispatcher
        end = time.monotonic() + 200
        while dispatcher.states["up"] < 5:
            assert time.monotonic() < end, (dispatcher.boards(), said)
            assert [y[0].tobytes() for y in runner.run(samples[:30])] == right[:30]
        killed: list[str] = []

        def kill() -> None:
            """Each while it has requests."""
            qemu = next(e for e in emulators if e.name == "MPS2_AN385")
            pico = next(e for e in emulators if e.name != "MPS2_AN385")
            for process, names in (
                (members[0].process, ["b1"]),
                (qemu._process, [n for n in runner._links if n.startswith("MPS2")]),
                (pico._process, ["RPI_PICO@emu"]),
            ):
                while not all(dispatcher.load(name) for name in names):
                    time.sleep(0.001)
                assert process is not None
                process.kill()
                killed.append(names[0])

        lost = dispatcher.counts["lost_boards"]
        thread = threading.Thread(target=kill, daemon=True)  # a failure ends the run, too
        thread.start()
        passes = 0
        while passes == 0 or len(killed) < 3 or dispatcher.counts["lost_boards"] < lost + 3:
            found = [y[0].tobytes() for y in runner.run(samples)]
            assert len(found) == 360 and found == right, f"pass {passes}"
            passes += 1
            assert passes < 40, (killed, said)
        thread.join()
    assert sum("is lost" in line for line in said) >= 3 and not any("quarantine" in line for line in said), said
