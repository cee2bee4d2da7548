"""Fixtures for all tests: firmware built once, in the project's cache, and boards that run it."""

import collections
import json
import os
import signal
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from targets import ALL, PICO, PICO2

from mica.boards import load_board
from mica.link.board import Link
from mica.link.targets import open_board
from mica.toolchain.build import BuildResult, build

ROOT = Path(__file__).resolve().parent.parent
os.environ.setdefault("MICA_CACHE", str(ROOT / ".cache"))

RESULTS = Path(os.environ["MICA_CACHE"]) / "matrix.jsonl"  # scripts/matrix.py reads it
DURATIONS = RESULTS.with_name("durations.tsv")  # seconds of each file's tests; LONG below follows it


# The files that take longest, the longest first: begun late, one would run on alone. All others come behind. The
# last four are long with `scripts/test --all`.
LONG = (
    "usermod/test_usermod.py",
    "boards/test_every_board.py",
    "usermod/test_native.py",
    "e2e/test_release.py",
    "bench/test_isa.py",
    "e2e/test_tutorials.py",
    "format/test_on_boards.py",
    "e2e/test_first_hour.py",
    "web/test_page.py",
    "fleet/test_fleet_mqtt.py",
    "format/test_corrupt_models.py",
    "device/test_push_kill.py",
    "format/test_corrupt.py",
    "e2e/test_bench.py",
    "host/test_exports.py",
    "format/test_fallback.py",
    "e2e/test_pico_listens.py",
    "device/test_virtual_pico.py",
    "e2e/test_examples.py",
    "bench/test_front_end_cost.py",
    "faults/test_faults.py",
    "format/test_c_build.py",
    "kernels/test_oracle.py",
    "device/test_build.py",
    "host/test_classic.py",
    "e2e/test_fit.py",
    "device/test_push.py",
    "robustness/test_two_cores.py",
    "bench/test_two_core_cost.py",
    "e2e/test_build_for.py",
    "device/test_transport.py",
    "host/test_float_model.py",
    "host/test_new_networks.py",
    "device/test_emulator.py",
    "bench/test_compilers.py",
    "kernels/test_new_kernel.py",
    "format/test_fuzz.py",
    "host/test_recurrent.py",
)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first."""
    place = {ROOT / "tests" / name: i for i, name in enumerate(LONG)}
    items.sort(key=lambda item: place.get(item.path, len(LONG)))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "matrix(*columns): its outcome is a cell of the README's table of boards")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
    """Note the outcome of a test that is marked with columns of the matrix; its board is its parameter `target`."""
    report = (yield).get_result()
    mark = item.get_closest_marker("matrix")
    if mark is None or (report.when != "call" and report.passed):
        return
    board = item.callspec.params["target"].removesuffix("@emu")  # type: ignore[attr-defined]
    line = {"test": item.nodeid, "board": board, "columns": mark.args, "outcome": report.outcome}
    # One short write: processes that test side by side cannot mix theirs up.
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Write the seconds and the number of tests of each file, the longest first, and print the longest."""
    seconds: collections.Counter[str] = collections.Counter()
    tests: collections.Counter[str] = collections.Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                file = report.nodeid.partition("::")[0]
                seconds[file] += report.duration
                tests[file] += report.when == "call"
    lines = [f"{count:.1f}\t{tests[file]}\t{file}\n" for file, count in seconds.most_common()]
    DURATIONS.write_text("".join(lines), encoding="utf-8")
    terminalreporter.write_sep("=", f"seconds, tests and file; all are in {DURATIONS.name} of the cache")
    terminalreporter.write("".join(lines[:15]))


@pytest.fixture(scope="session", autouse=True)
def _signals_reach_programs() -> None:
    """nohup and background shells have signals ignored, and programs that we start would inherit that.
    A handler they do not."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


@pytest.fixture(scope="session")
def firmware() -> Callable[[str], BuildResult]:
    """The firmware of a board, built when it is not up to date."""
    return lambda name: build(load_board(name))


@pytest.fixture(scope="session")
def unix_board_of_session() -> Iterator[Link]:
    with open_board("UNIX") as board:
        yield board


@pytest.fixture(scope="session")
def qemu_board_of_session() -> Iterator[Link]:
    with open_board("MPS2_AN385") as board:
        yield board


@pytest.fixture
def unix_board(unix_board_of_session: Link) -> Link:
    """MicroPython on this computer, with an empty heap."""
    unix_board_of_session.soft_reset()
    return unix_board_of_session


@pytest.fixture
def qemu_board(qemu_board_of_session: Link) -> Link:
    """The emulated Cortex-M3 board, with an empty heap."""
    qemu_board_of_session.soft_reset()
    return qemu_board_of_session


@pytest.fixture(scope="session")
def pico_board_of_session() -> Iterator[Link]:
    # With files for its ROMFS it has a flash of its own: processes that test beside this one have one each.
    with open_board("RPI_PICO@emu", rom_files={"there.txt": b"is"}) as board:
        yield board


@pytest.fixture
def pico_board(pico_board_of_session: Link) -> Link:
    """The virtual Pico, with an empty heap."""
    pico_board_of_session.soft_reset()
    return pico_board_of_session


@pytest.fixture(scope="session")
def pico2_board_of_session() -> Iterator[Link]:
    with open_board(PICO2, rom_files={"there.txt": b"is"}) as board:
        yield board


@pytest.fixture
def pico2_board(pico2_board_of_session: Link) -> Link:
    """The virtual Pico 2, with an empty heap."""
    pico2_board_of_session.soft_reset()
    return pico2_board_of_session


KINDS = {"unix_board": "UNIX", "qemu_board": "MPS2_AN385", "pico_board": PICO} | ({"pico2_board": PICO2} if ALL else {})


@pytest.fixture(params=KINDS, ids=KINDS.values())
def board(request: pytest.FixtureRequest) -> Link:
    """Each kind of board that this computer can run, in turn."""
    return request.getfixturevalue(request.param)
