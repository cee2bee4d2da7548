"""Every example of firmware/examples runs on the boards in its second line, and prints its last lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from helpers import DEMO, ROOT
from targets import ALL, PICO, PICO2

from mica.link.board import BoardError, Link
from mica.link.sensors import Sensors
from mica.link.targets import open_board
from mica.listen import sensor_files

HERE = ROOT / "firmware" / "examples"
FILES = sorted(HERE.glob("*.py"))
MOST_LINES = 30  # besides those that say what it prints
BOARDS = "# boards: "
PRINTS = "#: "
# Examples of a Pico run on a Pico 2, too: two that read a sensor on each run, the others with scripts/test --all.
ON_PICO2 = {"vibration_adc", "wake_word"}
I2S = (Path(__file__).parent / "i2s_stand_in.py").read_text()
CAMERA = (Path(__file__).parent / "camera_stand_in.py").read_text()


def boards_of(file: Path) -> list[str]:
    lines = file.read_text().splitlines()
    named = lines[1][len(BOARDS) :].split() if len(lines) > 1 and lines[1].startswith(BOARDS) else []
    return [*named, PICO2] if PICO in named and (ALL or file.stem in ON_PICO2) else named


def expected(file: Path) -> list[str]:
    return [line[len(PRINTS) :] for line in file.read_text().splitlines() if line.startswith(PRINTS)]


def matches(pattern: str, line: str) -> bool:
    """Return True if a printed line matches the pattern; "..." stands for anything."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("..."))), line) is not None


@pytest.fixture(scope="module")
def board_with(
    digits: Path,
    digits_rows: Path,
    digits_fed: Path,
    tones: Path,
    tones_rows: Path,
    person: Path,
    fan: Path,
    gesture_features: Path,
    learning: Path,
) -> Iterator[Callable[[str], Link]]:
    """Boards by name, each started once, with some models on it and an empty heap;
    UNIX with stand-ins, the virtual Picos with sensors."""
    packed = {"digits.mica": digits, "digits_rows.mica": digits_rows, "digits_fed.mica": digits_fed}
    packed["command.mica"] = DEMO / "command.mica"
    models = {name: path.read_bytes() for name, path in packed.items()}
    of_stand_ins = {"tones.mica": tones.read_bytes(), "tones.wav": tones.with_suffix(".wav").read_bytes()}
    of_stand_ins |= {"tones_rows.mica": tones_rows.read_bytes(), "person.mica": person.read_bytes()}
    of_sensors = {
        path.name: path.read_bytes() for path in (tones_rows, fan, gesture_features, *learning.glob("*.mica"))
    }
    open_ones: dict[str, Link] = {}

    def get(name: str) -> Link:
        files = {**models, **(of_stand_ins if name == "UNIX" else of_sensors if name in (PICO, PICO2) else {})}
        if name not in open_ones:
            recordings = {"i2s": learning / "i2s.wav", "adc": learning / "adc.wav", "imu": learning / "imu.npz"}
            wired = Sensors({bus: sensor_files.READERS[bus](str(file)) for bus, file in recordings.items()})
            open_ones[name] = open_board(name, rom_files=files, sensors=wired if name in (PICO, PICO2) else None)
        board = open_ones[name]
        board.soft_reset()
        if not board.rom_files:
            for file, data in files.items():
                board.put(data, "_data")
                board.exec(f"with open('{file}', 'wb') as _f: _f.write(_data)\ndel _f, _data")
        return board

    yield get
    for board in open_ones.values():
        board.close()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_form(file: Path) -> None:
    lines = [line for line in file.read_text().splitlines() if not line.startswith(PRINTS)]
    assert len(lines) <= MOST_LINES, f"{len(lines)} lines; an example has {MOST_LINES} at most"
    assert lines[0].startswith("# ") and len(lines[0]) > 12, "the first line says what it shows"
    assert boards_of(file), f"the second line is not '{BOARDS}NAME ...'"
    assert expected(file), f"no line '{PRINTS}' says what it prints"


@pytest.mark.parametrize(
    ("name", "file"),
    [
        pytest.param(b, f, id=f"{f.stem}-{b}")
        for b in ("UNIX", "MPS2_AN385", PICO, PICO2)
        for f in FILES
        if b in boards_of(f)
    ],
)
def test_example(name: str, file: Path, board_with: Callable[[str], Link]) -> None:
    try:
        board = board_with(name)
        if name == "UNIX" and "from machine import I2S" in file.read_text():
            board.exec(I2S)
        if name == "UNIX" and "from camera import" in file.read_text():
            board.exec(CAMERA)
        printed = board.exec(file.read_text()).decode().splitlines()
    except BoardError as error:
        raise AssertionError(f"{file.name} on {name}:\n{error.traceback or error}") from None
    said = expected(file)
    if len(printed) != len(said) or not all(map(matches, said, printed)):
        assert printed == said


def test_every_example_runs() -> None:
    """No example names only boards that this file does not start."""
    known = {"UNIX", "MPS2_AN385", PICO, PICO2}
    assert FILES
    for file in FILES:
        assert set(boards_of(file)) <= known, f"{file.name}: {boards_of(file)}"
