"""A board of one's own: a folder anywhere that looks like one of boards/, and is named by its path."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest
from targets import nightly

import mica
from mica.boards import all_boards, emulated_board, load_board
from mica.boards.ports import PORTS
from mica.cli.main import main
from mica.errors import MicaError
from mica.link.targets import open_board
from mica.toolchain.cache import cache_dir
from mica.toolchain.ports import BUILDS

ROOT = Path(__file__).resolve().parents[2]
DEMO = Path(mica.__file__).parent / "demo"
MOST_FILES = 5  # that are written by hand for a new board


def own(folder: Path, like: str, name: str) -> Path:
    """A copy of a board's folder under another name: all that adding a board takes."""
    new = folder / name
    shutil.copytree(load_board(like).folder, new, dirs_exist_ok=True)
    toml = new / "board.toml"
    toml.write_text(toml.read_text(encoding="utf-8").replace(f'name = "{like}"', f'name = "{name}"'), encoding="utf-8")
    return new


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("board", all_boards(), ids=lambda board: board.name)
def test_a_board_is_five_files_at_most(board: mica.boards.BoardSpec) -> None:
    """All in its folder; none names a place outside of it, so a copy works anywhere."""
    files = [path for path in board.folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert 2 <= len(files) <= MOST_FILES
    assert [path.name for path in files if "../" in path.read_text(encoding="utf-8")] == []


@pytest.mark.parametrize("like", ["RPI_PICO", "MPS2_AN386", "UNIX", "ESP32_GENERIC_C3"])
def test_what_knows_a_board_knows_a_copy(here: Path, like: str) -> None:
    own(here, like, "MINE")
    mine, theirs = load_board("./MINE"), load_board(like)
    assert mine == load_board(str(here / "MINE")) and mine.folder == here / "MINE"
    assert (mine.port, mine.flasher, mine.romfs) == (theirs.port, theirs.flasher, theirs.romfs)
    if theirs.emulator is None:
        with pytest.raises(MicaError, match=r"\./MINE is a real board; plug it in"):
            emulated_board("./MINE")
    else:
        assert emulated_board("./MINE" + ("@emu" if theirs.flasher != "none" else "")) == mine


def test_the_commands_take_its_folder(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """fit, report, flash and emu by a relative path, pack by an absolute one, each as with the board it copies."""
    folder = own(here, "RPI_PICO", "MY_PICO")
    assert (
        main(
            [
                "pack",
                "--calib",
                f"{DEMO}/digits_calib.npz",
                "--board",
                str(folder),
                "-o",
                "m.mica",
                f"{DEMO}/digits.onnx",
            ]
        )
        == 0
    )
    capfd.readouterr()
    assert main(["fit", "m.mica", "--board", "./MY_PICO"]) == 0
    mine = capfd.readouterr().out
    assert main(["fit", "m.mica", "--board", "RPI_PICO"]) == 0
    theirs = capfd.readouterr().out
    assert "m.mica on MY_PICO: fits" in mine
    assert [line for line in mine.splitlines() if line[:4] in ("aren", "flas", "time")] == [
        line for line in theirs.splitlines() if line[:4] in ("aren", "flas", "time")
    ]
    assert main(["report", "m.mica", "--board", "./MY_PICO"]) == 0
    assert "MY_PICO" in (here / "m.html").read_text(encoding="utf-8")
    (here / "no.uf2").write_bytes(b"")
    assert main(["flash", "--board", "./MY_PICO", "--drive", "nowhere", "--image", "no.uf2"]) == 1
    assert "no.uf2" in capfd.readouterr().err  # it got as far as the image
    own(here, "RPI_PICO2_W", "MY_PICO2")
    assert main(["emu", "./MY_PICO2"]) == 2
    assert "./MY_PICO2 is a real board; emulated are" in capfd.readouterr().err


@nightly
def test_it_builds_and_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """With a manifest of its own, which adds to its port's. In the cache: it is built again only where something has
    changed."""
    monkeypatch.chdir(cache_dir())
    folder = own(Path("tests"), "UNIX", "MY_UNIX")
    (folder / "manifest.py").write_text('include(options.port)\nfreeze(".", "mine.py")\n')
    (folder / "mine.py").write_text("answer = 42\n")
    assert len(list(folder.iterdir())) == MOST_FILES
    assert main(["build", "--board", "tests/MY_UNIX"]) == 0
    assert capfd.readouterr().out.startswith("MY_UNIX: ")
    with open_board("./tests/MY_UNIX") as board:
        assert (
            board.exec("import asyncio, mica, mine\nprint(mine.answer, mica.__version__)")
            == f"42 {mica.__version__}\n".encode()
        )
    file = str(tmp_path / "m.mica")
    assert main(["pack", "--calib", f"{DEMO}/digits_calib.npz", "-o", file, f"{DEMO}/digits.onnx"]) == 0
    assert main(["verify", file, "--on", "./tests/MY_UNIX"]) == 0


@pytest.mark.parametrize(
    ("name", "toml", "said"),
    [
        ("MINE", None, "MINE/board.toml is missing"),
        ("MINE", "name = ", "MINE/board.toml: Invalid value (at line 1"),
        ("MINE", "name = '\udcff'", "MINE/board.toml: 'utf-8' codec can't decode"),
        ("MINE", 'name = "MINE"\nport = "vax"', "MINE/board.toml: port is 'vax'; known are unix, qemu, rp2, esp32"),
        ("RPI_PICO", "the same", "RPI_PICO: mica has a board called RPI_PICO; choose another name"),
        ("MY BOARD", "the same", "MY BOARD' has white space in its path"),
    ],
)
@pytest.mark.parametrize("absolute", [False, True])
def test_a_folder_that_is_no_board(
    here: Path, name: str, toml: str | None, said: str, absolute: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    (here / name).mkdir()
    text = (load_board("RPI_PICO").folder / "board.toml").read_text(encoding="utf-8")
    if toml is not None:
        whole = (
            text.replace('"RPI_PICO"', f'"{name}"')
            if toml == "the same"
            else toml + text.replace("name =", "#", 1).replace("port =", "#", 1)
        )
        (here / name / "board.toml").write_bytes(whole.encode("utf-8", "surrogateescape"))
    assert main(["build", "--board", str(here / name) if absolute else f"./{name}"]) == 1
    err = capfd.readouterr().err
    assert said in err and err.count("\n") == 1 and "Traceback" not in err


def test_a_folder_that_is_not_there(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "m.mica", "--board", "no/BOARD"]) == 1
    assert capfd.readouterr().err == "mica: error: no/BOARD: no such folder; expected one with a board.toml\n"
    own(here, "RPI_PICO", "MY_PICO")
    assert main(["fit", "m.mica", "--board", "MY_PICO"]) == 1  # a word is a name of mica's boards
    assert "no board is called 'MY_PICO'; did you mean ./MY_PICO?" in capfd.readouterr().err


# --- the ports ------------------------------------------------------------------------------------------


def _compared(tree: ast.AST) -> list[int]:
    """Lines that compare something with a port's name, or look it up in a table by it."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
        elif isinstance(node, ast.Dict):
            parts = [key for key in node.keys if key is not None]
        elif isinstance(node, ast.MatchValue):
            parts = [node.value]
        else:
            continue
        found += [
            part.lineno
            for top in parts
            for part in ast.walk(top)
            if isinstance(part, ast.Constant) and part.value in PORTS
        ]
    return found


def test_no_port_is_known_by_its_name_elsewhere() -> None:
    """Ten files asked for "rp2" or "unix". What differs between ports stands in boards/ports.py and toolchain/ports."""
    files = [
        p for folder in ("host_tools", "scripts") for p in (ROOT / folder).rglob("*.py") if "on_board" not in p.parts
    ]
    wrong = {f"{p.relative_to(ROOT)}: {lines}" for p in files if (lines := _compared(ast.parse(p.read_text("utf-8"))))}
    assert not wrong
    assert _compared(ast.parse("a == 'rp2' or a in ('x', 'unix') or {'qemu': 1} or a == 'rp3'")) == [1, 1, 1]
    assert list(BUILDS) == list(PORTS)
