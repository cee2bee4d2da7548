"""The first lines of a newcomer, and the one line that helps: names in any case, files of another kind,
samples that were left out."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import numpy as np
import pytest
from pages import ROOT

from mica.boards import as_spelled, emulated_boards, load_board
from mica.cli import heads
from mica.cli.main import COMMANDS, main
from mica.errors import MicaError

DEMO = ROOT / "host_tools" / "mica" / "demo"


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("digits") / "digits.mica"
    words = ["pack", str(DEMO / "digits.onnx"), "--calib", str(DEMO / "digits_calib.npz"), "--plain", "-o", str(path)]
    assert main(words) == 0
    return path


def refused(*words: object) -> str:
    with pytest.raises(MicaError) as error:
        raise_of(words)
    return str(error.value)


def raise_of(words: tuple[object, ...]) -> None:
    from mica.cli.main import _run

    _run([str(word) for word in words])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("fit", "x.mica", "--board", "rpi_pic"), "no board is called 'rpi_pic'; did you mean RPI_PICO?"),
        (("ls", "--on", "RPI_PIC@emu"), "'RPI_PIC@emu' is neither a board nor a port; did you mean RPI_PICO@emu?"),
        (("rn",), "there is no 'mica rn'; did you mean run?"),
        (("fleet", "pusch"), "there is no 'mica fleet pusch'; did you mean push?"),
        (("pack", "x", "--picture", "grye"), "there is no '--picture grye'; did you mean grey?"),
    ],
)
def test_a_near_name_is_all(words: tuple[str, ...], said: str) -> None:
    """If one name is near, the list of forty is left out."""
    assert refused(*words) == said


def test_a_far_name_has_the_list() -> None:
    assert "known are ADAFRUIT_FEATHER_RP2040, " in refused("fit", "x.mica", "--board", "zzz")
    assert "known are train, pack" in refused("qqqq")


def test_names_in_any_case(digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert as_spelled("rpi_pico") == "RPI_PICO" and as_spelled("Rpi_Pico@EMU") in emulated_boards()
    assert all(as_spelled(name.lower()) == name for name in emulated_boards())
    for other in ("host", "auto", "/dev/ttyACM0", "COM5", "fleet:UNIX*3", "socket://127.0.0.1:5000"):
        assert as_spelled(other) == other
    assert main(["fit", str(digits), "--board", "rpi_pico"]) == 0
    monkeypatch.chdir(tmp_path)
    (tmp_path / "unix").mkdir()  # a folder of one's own
    assert as_spelled("unix") == "unix" and load_board("UNIX").name == "UNIX"


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    """`mica help` and `mica help pack`, as other programs have it."""
    for words in (["help"], ["help", "fit"]):
        with pytest.raises(SystemExit) as end:
            main(words)
        assert end.value.code == 0
    said = capsys.readouterr().out
    assert all(f"    {name}  " in said for name in COMMANDS) and "usage: mica fit" in said


def test_samples_where_the_model_is_expected(digits: Path, tmp_path: Path) -> None:
    """An .npz is a zip archive; nobody is sent to look for a model inside."""
    np.savez(tmp_path / "samples.npz", x=np.zeros((2, 3)))
    np.save(tmp_path / "samples.npy", np.zeros((2, 3)))
    for name in ("samples.npz", "samples.npy"):
        said = refused("fit", tmp_path / name, "--board", "RPI_PICO")
        assert "is a file of NumPy arrays" in said and "the model is another file" in said


def test_run_says_which_sample(digits: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Of several samples run answers for one, and says so."""
    data = str(DEMO / "digits_test.npz")
    assert main(["run", str(digits), data]) == 0
    assert f"sample 0 of 360 in {data}; --sample K takes another, mica eval all" in capsys.readouterr().err
    assert main(["run", str(digits), data, "--sample", "3"]) == 0
    np.save(tmp_path / "one.npy", np.zeros((1, 8, 8), np.float32))
    assert main(["run", str(digits), str(tmp_path / "one.npy")]) == 0
    assert "sample 0 of" not in capsys.readouterr().err


def test_the_warning_stands_at_the_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Samples of pixels for a network of 0 to 1: the last line says so, below the figures."""
    demo = np.load(DEMO / "digits_calib.npz")
    np.savez(tmp_path / "big.npz", x=demo["x"].astype(np.float32) * 255)
    words = ["pack", str(DEMO / "digits.onnx"), "--calib", str(tmp_path / "big.npz"), "-o", str(tmp_path / "d.mica")]
    assert main(words) == 0
    said = capsys.readouterr().err.splitlines()
    assert said.count(said[-1]) == 2 and said[-1].startswith("mica: warning: ")


def test_eval_of_examples_without_a_head(digits: Path, tmp_path: Path) -> None:
    """Folders of .npz are examples for a head: eval took them for sound."""
    (tmp_path / "shake").mkdir()
    np.savez(tmp_path / "shake" / "1.npz", x=np.zeros((1, 3)))
    said = refused("eval", digits, "--data", tmp_path)
    assert said.endswith("holds .npz files; expected folders of sound files or pictures; "
                         "examples of a head are for --head H.learnt")  # fmt: skip


def test_a_head_that_refuses_much_says_what_to_do() -> None:
    r = {"target": "host", "kind": "prototype", "samples": 180, "taught": 180, "value": 0.75, "accepted": 0.756,
         "taken": None, "auc": None, "labels": ["a", "unknown"], "confusion": [{"label": "a",
             "answers": [136, 44]}]}  # fmt: skip
    assert "many are unknown: teach more examples of each label, or teach with a larger --loose" in heads.report(r)
    assert "many are unknown" not in heads.report({**r, "accepted": 0.95})


def test_web_wants_its_port_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A port that is taken is said before anything is built."""
    from mica.web import site

    monkeypatch.setattr(site, "make", lambda *a, **k: pytest.fail("the page was made"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        said = refused("web", "--port", taken.getsockname()[1])
    assert "Address already in use; --port 0 takes one that is free" in said


def test_a_program_that_prints_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A pipe is a program: without output there is a line about that."""
    import io

    from mica.cli import repl
    from mica.link.serial_board import SerialBoard

    class Board(SerialBoard):
        def __init__(self) -> None:
            pass

        def __exit__(self, *_: object) -> None:
            pass

        def exec_follow(self, code: str, on_data: object, timeout: float | None = None) -> None:
            if "print" in code:
                on_data(b"5\n")  # type: ignore[operator]

    monkeypatch.setattr(repl, "open_board", lambda *a, **k: Board())
    monkeypatch.setattr(repl, "_print", lambda data: None)
    for program, told in (("import mica\r\n", True), ("print(5)", False)):
        monkeypatch.setattr("sys.stdin", io.StringIO(program))
        assert main(["repl", "--on", "RPI_PICO@emu"]) == 0
        assert ("has ended and printed nothing; use print()" in capsys.readouterr().err) == told


def test_the_last_words_of_an_emulator() -> None:
    """Of a Python traceback the last line says it; of Node's and of others the first."""
    import os
    import subprocess

    from mica.link.virtual_pico import VirtualPico

    def last(text: str) -> str:
        read, write = os.pipe()
        os.write(write, text.encode())
        os.close(write)
        pico = object.__new__(VirtualPico)
        pico.name, pico._text, pico._last_words, pico._traceback, pico._notes = "x", b"", "", False, []
        pico._process = object.__new__(subprocess.Popen)
        with os.fdopen(read) as stream:
            pico._process.stdout = stream  # type: ignore[assignment]
            with pytest.raises(MicaError) as error:
                pico._answer("port", 5)
        return str(error.value)

    assert last("Traceback (most recent call last):\n  File \"a.py\"\nKeyError: 'pdm'\n") == "x: KeyError: 'pdm'"
    assert last("Error: no such module\n    at x\nNode.js v18\n") == "x: Error: no such module"
    assert last("crash the program is gone\nmore\n") == "x: the program is gone"


def test_a_build_says_its_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dozen lines in five minutes, with CMake's share of this build, not of the one before in the same log."""
    import subprocess

    from mica.toolchain.process import run_logged

    wait, waits, said = subprocess.Popen.wait, [], []

    def slow(process: subprocess.Popen[bytes], timeout: float | None = None) -> int:
        wait(process)
        waits.append(timeout)
        if sum(waits) < 300:
            raise subprocess.TimeoutExpired("x", timeout or 0)
        return 0

    monkeypatch.setattr(subprocess.Popen, "wait", slow)
    log = tmp_path / "log"
    log.write_text("[100%] of another build\n")
    run_logged(["sh", "-c", "echo '[  3%] a'; echo '[ 40%] b'; echo done"], "building X", log, progress=said.append)
    assert said[0] == "building X: 5 s, 40 %" and said[1] == "building X: 10 s, 40 %" and len(said) == 12
    waits.clear()
    said.clear()
    run_logged(["sh", "-c", "echo CC a.c"], "building X", log, progress=said.append)
    assert said[0] == "building X: 5 s"


def test_json_of_a_near_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "x.mica", "--board", "rpi_pic", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["todo"] == "did you mean RPI_PICO?"
