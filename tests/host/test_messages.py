"""Messages that commands print before long work, and about data that cannot be right."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
import text_nets
from nets import Net
from pages import ROOT

from mica.boards import load_board
from mica.cli.fit import report
from mica.cli.main import main
from mica.compile import compile_file
from mica.cost.prediction import Prediction
from mica.printable import three_digits
from mica.report.arena_chart import peak_row
from mica.toolchain import build, ports

CLASSES = 3


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three numbers in, the same three out, calibrated from 0 to 1."""
    folder = tmp_path_factory.mktemp("net")
    net = Net()
    net.output(net.add("MatMul", net.input([1, CLASSES]), net.const(np.eye(CLASSES, dtype=np.float32))))
    path = net.save(folder)
    (folder / "m.mica").write_bytes(compile_file(path, {"x": np.eye(CLASSES, dtype=np.float32)[:, None]}).data)
    return path


def labelled(path: Path, scale: float = 1) -> Path:
    np.savez(path, x=scale * np.eye(CLASSES, dtype=np.float32), y=np.arange(CLASSES))
    return path


# --- labelled data: one name ------------------------------------------------------------------------------


@pytest.mark.parametrize("spelled", [["--data", "D"], ["D"], ["--data=D"]])
@pytest.mark.parametrize("command", ["eval", "compare"])
def test_labelled_data_is_data(
    net: Path, tmp_path: Path, command: str, spelled: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Labelled data may be given as an option, at any place, or as the last word."""
    data = str(labelled(tmp_path / "d.npz"))
    words = [word.replace("D", data) for word in spelled]
    models = [str(net.with_name("m.mica"))] * (2 if command == "compare" else 1)
    for order in ([*models, *words], [*words, *models] if words[0].startswith("--") else [*models, "--json", *words]):
        assert main([command, *order, "--samples", "2"]) == 0, capsys.readouterr().err
    capsys.readouterr()
    assert main([command, *models]) == 1
    assert "--data DATA" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--data", "--eval"])
def test_pack_takes_it_by_the_same_name(
    net: Path, tmp_path: Path, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    data = str(labelled(tmp_path / "d.npz"))
    assert main(["pack", str(net), "--calib", data, option, data, "-o", str(tmp_path / "m.mica"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"]["value"] == 1


# --- data that calibration has not seen -------------------------------------------------------------------


@pytest.mark.parametrize(("scale", "warned"), [(1, False), (255, True), (-255, True)])
def test_eval_warns_of_data_far_outside(
    net: Path, tmp_path: Path, scale: float, warned: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """eval warns as `run` does: pictures from 0 to 255 for a model of 0 to 1 once gave 79 % for 98 %, without a
    word."""
    data, packed = str(labelled(tmp_path / "d.npz", scale)), str(net.with_name("m.mica"))
    for words in (
        ["eval", packed, "--data", data],
        ["compare", packed, packed, "--data", data],
        ["report", packed, "--data", data, "-o", str(tmp_path / "m.html")],
        [
            "pack",
            str(net),
            "--calib",
            str(labelled(tmp_path / "c.npz")),
            "--data",
            data,
            "-o",
            str(tmp_path / "m.mica"),
        ],
    ):
        assert main(words) == 0
        said = capsys.readouterr().err
        assert ("3 of 9 values are far outside of 0 to 1" in said) is warned, words


# --- reasons ----------------------------------------------------------------------------------------------


def error_of(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert main([str(word) for word in words]) in (1, 2)
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "warning" not in line]
    assert line.startswith("mica: error: ")
    return line


def test_objects_in_an_npz_are_named(net: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """pandas gives texts as objects. The file is an .npz, which the error denied."""
    packed, path = net.with_name("m.mica"), tmp_path / "d.npz"
    np.savez(path, x=np.eye(3, dtype=np.float32), y=np.array(["a", "b", None], object))
    said = error_of(capsys, "eval", packed, "--data", path)
    assert "d.npz: 'y' holds Python objects" in said and "astype" in said and "not an .npz" not in said
    np.save(tmp_path / "x.npy", np.array([1, "b"], object))
    assert "x.npy: holds Python objects" in error_of(capsys, "run", packed, tmp_path / "x.npy")


def test_a_file_of_a_kind_that_is_not_read(net: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.xyz").write_bytes(b"GIF89a" + bytes(99))
    said = error_of(capsys, "run", net.with_name("m.mica"), tmp_path / "a.xyz")
    assert "mica reads no .xyz files" in said and ".png" in said


def test_a_folder_without_pictures_is_no_picture(net: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "recordings").mkdir()
    (tmp_path / "recordings" / "a.wav").write_bytes(b"RIFF")
    said = error_of(capsys, "run", net.with_name("m.mica"), tmp_path / "recordings")
    assert "holds no pictures" in said and "is a picture" not in said


def test_texts_as_an_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text_nets.save(tmp_path / "t.onnx", "(string[1,1] site) => (string[1,1] y) { y = Identity(site) }")
    assert "input 'site' takes texts; export the model behind" in error_of(capsys, "pack", tmp_path / "t.onnx")


def test_weights_that_are_not_beside_the_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = onnx.load(dense(tmp_path, 8))
    onnx.save(model, tmp_path / "n.onnx", save_as_external_data=True, location="n.onnx.data", size_threshold=0)
    (tmp_path / "n.onnx.data").unlink()
    said = error_of(capsys, "pack", tmp_path / "n.onnx")
    assert "n.onnx: its weights are in n.onnx.data, which is not beside it; copy it as well" in said


@pytest.mark.parametrize("op", ["AveragePool", "MaxPool"])
def test_windows_in_the_batch(tmp_path: Path, op: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The batch of the model is 1 already. A Conv packs: test_windows_in_batch.py."""
    net = Net()
    windows = net.add("Reshape", net.input([1, 2, 8, 8]), net.const(np.array([4, 2, 4, 4])))
    net.output(net.add(op, windows, kernel_shape=[1, 1]))
    said = error_of(capsys, "pack", net.save(tmp_path))
    assert "4 windows of its input" in said and "export the model with batch 1" not in said


def test_sounds_longer_than_the_frames(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Clips of a second, where the frames end before: the option that takes them whole."""
    net, path = Net(), tmp_path / "s.npz"
    rows = net.add("Reshape", net.input([1, 9, 8]), net.const(np.array([1, 72])))
    net.output(net.add("MatMul", rows, net.const(np.ones((72, 2), np.float32))))
    np.savez(path, x=np.random.default_rng(0).integers(-9999, 9999, (4, 1700)).astype(np.int16))
    front_end = "logmel:rate=16000,frame=320,hop=160,mels=8"
    words = ["pack", net.save(tmp_path), "--calib", path, "-o", tmp_path / "s.mica", "--frontend"]
    said = error_of(capsys, *words, front_end)
    assert "sounds of 1,700 samples; the frames take 1,600; add samples=1700 to --frontend" in said
    assert main([*map(str, words), front_end + ",samples=1700"]) == 0


# --- figures ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (0, "0"),
        (4.216, "4.22"),
        (999.4, "999"),
        (999.6, "1,000"),
        (1234.5, "1,230"),
        (59_912, "59,900"),
        (12e6, "12,000,000"),
    ],
)
def test_figures_have_three_digits(x: float, text: str) -> None:
    assert three_digits(x) == text


def test_the_peak_is_one_row() -> None:
    """Of several layers with one name, as in a loop, the peak is the one with most bytes in use."""
    layers = [{"name": name, "live_bytes": size} for name, size in (("a", 9), ("b", 3), ("b", 5), ("b", 5))]
    assert peak_row(layers, "b") == 2
    assert peak_row(layers, "") is None


def prediction(file: int, place: str | None, error: float = 0.0) -> Prediction:
    ram = {"arena_on_heap": 0, "tensors": 1, "scratch_want": 2, "arena": 3, "heap_needed": 4, "tables": 5, "heap": 6}
    time = {
        "unit": "cycles",
        "total": 7_489_000_000,
        "milliseconds": 59_912.0,
        "flash": 0,
        "clock": 125e6,
        "complete": True,
    }
    return Prediction(
        "RPI_PICO",
        place is not None,
        ram={**ram, "heap_measured": True},
        flash={"file": file, "place": place, "romfs": 983_040, "storage": 458_752},
        time={**time, "error": error, "revision": "1"},
    )


def test_fit_says_no_figure_that_contradicts_another() -> None:
    said = report("m", prediction(1_500_000, None), load_board("RPI_PICO"), False)
    assert "flash   1,500,000 bytes, more than the space for models of 983,040" in said and "458,752" not in said
    assert "59,900 ms" in said and "give or take 1 %" in said and "free at the prompt: 6" in said
    said = report("m", prediction(400, "files", 0.06), load_board("RPI_PICO"), False)
    assert "flash   400 bytes, in the file system of 458,752" in said and "give or take 6 %" in said


def test_a_figure_stands_in_one_place() -> None:
    """Two figures are only in commands: `pack` has the accuracy of SVM probabilities, `natmod` the RAM of its code."""
    guide = (ROOT / "host_tools" / "docs" / "packing.md").read_text()
    about = guide[guide.index("* **Support vector machines.**") :].partition("\n* ")[0]
    assert "probabilities" in about and "within 0." not in about and "refuses" not in about
    assert not re.search(r"native code of mica takes \d", (ROOT / "boards" / "README.md").read_text())


# --- before long work -------------------------------------------------------------------------------------


def dense(folder: Path, n: int = 1250) -> Path:
    """A network of n x n weights, 1.5 MB of them; samples of it are in x.npz."""
    net = Net()
    weights = np.random.default_rng(0).normal(0, n**-0.5, (n, n)).astype(np.float32)
    net.output(net.add("MatMul", net.input([1, n]), net.const(weights)))
    np.savez(folder / "x.npz", x=np.random.default_rng(1).normal(size=(8, n)).astype(np.float32))
    return net.save(folder)


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--board", "RPI_PICO"], 2, "flash: the file has 1,5"),
        (["--board", "RPI_PICO", "--ram", "64K"], 2, "flash: the file has 1,5"),
        (["--weights", "auto", "--size", "600K"], 1, "--size 614400: the smallest file is 7"),
        (["--ram", "512"], 1, "--ram 512"),
    ],
)
def test_pack_refuses_before_it_calibrates(
    tmp_path: Path,
    options: list[str],
    code: int,
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = dense(tmp_path)
    monkeypatch.setattr("mica.data.calibration.load_calibration", lambda *a: pytest.fail("the samples were read"))
    assert main(["pack", str(path), "--calib", str(tmp_path / "x.npz"), *options]) == code
    assert said in capsys.readouterr().err
    assert not path.with_suffix(".mica").exists()


def test_fit_and_pack_agree_of_a_model_that_is_too_large(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`fit` names a change that would make the model fit; pack makes such a change only when asked."""
    path = dense(tmp_path)
    assert main(["fit", str(path), "--board", "RPI_PICO"]) == 2
    said = capsys.readouterr().out
    assert "does not fit" in said and "it fits with weights of four bits" in said
    assert main(["pack", str(path), "--calib", str(tmp_path / "x.npz"), "--board", "RPI_PICO"]) == 2


@pytest.mark.parametrize(
    "words", [["run", "D"], ["eval", "--data", "D"], ["verify", "--data", "D"], ["bench", "--data", "D"]]
)
def test_data_is_looked_at_before_a_board_is_built(
    net: Path, tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez(tmp_path / "d.npz", x=np.ones((2, CLASSES + 1), np.float32), y=np.arange(2))
    monkeypatch.setattr("mica.link.targets.build", lambda *a, **k: pytest.fail("a firmware was built"))
    command, *rest = [word.replace("D", str(tmp_path / "d.npz")) for word in words]
    assert main([command, str(net.with_name("m.mica")), *rest, "--on", "RPI_PICO@emu"]) == 1
    assert "[2, 4]" in capsys.readouterr().err


def test_a_build_is_announced_with_its_reason_and_done_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MICA_CACHE", str(tmp_path))
    monkeypatch.setattr(ports.unix.PORT, "need_tools", lambda *a: "a compiler")
    monkeypatch.setattr(build, "_fetch", lambda *a: tmp_path)
    monkeypatch.setattr(build, "_sizes", lambda *a: (1, 2, 3))
    monkeypatch.setattr(
        ports.unix.PORT, "build", lambda job, *a: (job.obj.mkdir(exist_ok=True), job.elf.write_bytes(b"image"))
    )
    said: list[str] = []
    for _ in range(2):
        build.build(load_board("UNIX"), progress=said.append)
    told = "building the firmware of UNIX first: {}. It takes minutes; later commands use it"
    assert said == [told.format("there is none yet"), "building UNIX with a compiler"]
    (stamp,) = tmp_path.rglob("built.json")
    stamp.write_text(stamp.read_text().replace('"contents": "', '"contents": "of before'))
    said.clear()
    build.build(load_board("UNIX"), progress=said.append)
    assert said[0] == told.format("its sources have changed")
