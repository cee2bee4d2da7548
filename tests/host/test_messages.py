"""What commands say before they work long, and of data that cannot be right."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from nets import Net

from mica.boards import load_board
from mica.cli.main import main
from mica.compiler import compile_model
from mica.toolchain import build

CLASSES = 3


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three numbers in, the same three out, calibrated from 0 to 1."""
    folder = tmp_path_factory.mktemp("net")
    net = Net()
    net.output(net.add("MatMul", net.input([1, CLASSES]), net.const(np.eye(CLASSES, dtype=np.float32))))
    path = net.save(folder)
    (folder / "m.mica").write_bytes(compile_model(path, {"x": np.eye(CLASSES, dtype=np.float32)[:, None]}).data)
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
    """As an option, wherever it stands, or as the last word."""
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
    """As `run` does: pictures from 0 to 255 for a model of 0 to 1 gave 79 % in place of 98 %, without a word."""
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
    monkeypatch.setattr("mica.calibration.load_calibration", lambda *a: pytest.fail("the samples were read"))
    assert main(["pack", str(path), "--calib", str(tmp_path / "x.npz"), *options]) == code
    assert said in capsys.readouterr().err
    assert not path.with_suffix(".mica").exists()


def test_fit_and_pack_agree_of_a_model_that_is_too_large(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`fit` says what would make it fit, which pack does only when it is asked."""
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
    monkeypatch.setattr(build, "_need_tools", lambda *a: "a compiler")
    monkeypatch.setattr(build, "_fetch", lambda *a: tmp_path)
    monkeypatch.setattr(build, "_sizes", lambda *a: (1, 2, 3))
    monkeypatch.setitem(build._PORT_BUILDS, "unix", lambda job, *a: (job.obj.mkdir(exist_ok=True), job.elf.write_bytes(b"image")))
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
