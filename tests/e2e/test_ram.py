"""`mica pack --ram`; and `pack --board` and `fit` with a model that fits only in strips."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import onnx
import pytest
from helpers import DEMO, mica, pack

from mica.file.codec import decode
from mica.run.board import BoardRunner
from mica.run.host import HostRunner

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "host"))
import test_feed
from mobilenet import MobileNetV2

DIGITS = ("--calib", DEMO / "digits_calib.npz", "--plain", "--golden", "2")


@pytest.fixture(scope="module")
def small_digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The digits in 4,300 bytes; layer by layer their tensors take 3,072, and the scratch 2,000 or more."""
    out = tmp_path_factory.mktemp("ram") / "digits.mica"
    return pack(DEMO / "digits.onnx", out, *DIGITS, "--ram", "4300")


def test_budget_is_kept_and_said(small_digits: Path) -> None:
    model = decode(small_digits.read_bytes())
    assert model.strips and (model.arena_bytes or 0) + model.scratch_want <= 4300
    assert " --ram 4300" in model.metadata["command"]
    fit = json.loads(mica("fit", small_digits, "--board", "RPI_PICO", "--json").out)
    assert fit["fits"] and fit["time"]["total"] > 0


@pytest.mark.parametrize("target", ["UNIX", "MPS2_AN385"])
def test_boards_agree_layer_by_layer(small_digits: Path, target: str) -> None:
    data = small_digits.read_bytes()
    model = decode(data)
    with HostRunner(data) as host, BoardRunner(data, target) as board:
        for vector in model.golden:
            assert host.layer_hashes(vector.inputs) == board.layer_hashes(vector.inputs) == vector.layer_crcs
            assert [y.tobytes() for y in board.run([vector.inputs])[0]] == [y.tobytes() for y in vector.outputs]
            assert board.layer_output(vector.inputs, 1).tobytes() == host.layer_output(vector.inputs, 1).tobytes()
        board.board.put(data, "whole")  # golden vectors are not sent with a model
        assert board.board.exec("import mica\nprint(mica.Model(whole).selftest())") == b"None\n"
        assert len(board.bench(model.golden[0].inputs, 1).steps) == len(model.steps)


@pytest.mark.parametrize("target", ["UNIX", "MPS2_AN385"])
def test_boards_agree_on_a_fed_model(digits_fed: Path, target: str) -> None:
    data = digits_fed.read_bytes()
    model = decode(data)
    assert model.fed == 0 and " --feed" in model.metadata["command"]
    with HostRunner(data) as host, BoardRunner(data, target) as board:
        for vector in model.golden:
            assert host.layer_hashes(vector.inputs) == board.layer_hashes(vector.inputs) == vector.layer_crcs
            assert [y.tobytes() for y in board.run([vector.inputs])[0]] == [y.tobytes() for y in vector.outputs]
        board.board.put(data, "whole")  # golden vectors are not sent with a model
        assert board.board.exec("import mica\nprint(mica.Model(whole).selftest())") == b"None\n"
        assert len(board.bench(model.golden[0].inputs, 1).steps) == len(model.steps)


def test_fit_proposes_to_feed_the_input(tmp_path: Path) -> None:
    """MobileNetV2 0.35 at 224 x 224: 752,640 bytes layer by layer, and a picture beside its strips is too much for a
    Pico as well."""
    onnx.save(MobileNetV2(224, 0.35, 2).model(), tmp_path / "net.onnx")
    done = mica("fit", tmp_path / "net.onnx", "--board", "RPI_PICO")
    assert done.code == 2 and "net.onnx on RPI_PICO: does not fit" in done.out, done.out + done.err
    assert "it fits with layers in strips and its input fed" in done.out and "net.onnx --feed --ram " in done.out


def test_feed_is_refused_in_one_line(tmp_path: Path) -> None:
    onnx.save(test_feed.Chain(0).model(), tmp_path / "net.onnx")
    done = mica("pack", tmp_path / "net.onnx", "--feed", "--plain", "-o", tmp_path / "x.mica")
    assert done.code != 0 and not (tmp_path / "x.mica").exists()
    assert "(transpose_s8) reads input 'x' and cannot run by rows; pack it without --feed" in done.err


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("few", "--ram few: expected a number of bytes such as 32000 or 31K"),
        ("0", "--ram 0: expected a number"),
        ("1K", "--ram 1,024: the least that this model runs in is"),
    ],
)
def test_bad_budgets_are_one_line(tmp_path: Path, value: str, text: str) -> None:
    done = mica("pack", DEMO / "digits.onnx", *DIGITS, "--ram", value, "-o", tmp_path / "x.mica")
    assert done.code != 0 and text in done.err
    assert len(done.err.splitlines()) == 1 and not (tmp_path / "x.mica").exists()


def test_a_model_that_fits_a_pico_in_strips_only(tmp_path: Path) -> None:
    """MobileNetV2 0.35 at 144 x 144: 311,040 bytes of tensors layer by layer, more than a Pico has."""
    path = tmp_path / "net.onnx"
    onnx.save(MobileNetV2(144, 0.35, 2).model(), path)
    done = mica("fit", path, "--board", "RPI_PICO")
    assert "net.onnx on RPI_PICO: fits" in done.out, done.out + done.err
    assert "layer by layer it does not fit" in done.out and " % more time" in done.out
    model = pack(path, tmp_path / "net.mica", "--plain", "--ram", "88000")
    assert (decode(model.read_bytes()).arena_bytes or 0) <= 88_000 - 8_192  # of scratch
    same = mica("verify", model, "--samples", "1", "--on", "UNIX")
    assert same.code == 0 and "every byte the same on UNIX and host" in same.out, same.out + same.err
