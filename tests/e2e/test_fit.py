"""`mica fit`: it predicts the virtual Pico's costs of models that the cost table has not seen; and its refusals."""

from __future__ import annotations

import contextlib
import io
import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from helpers import DEMO, Result, reference_model
from onnx import TensorProto, helper, numpy_helper

from mica.boards import load_board
from mica.cli.main import main
from mica.compile import compile_file
from mica.cost.prediction import predict
from mica.cost.table import PATH, Table
from mica.file.codec import DTYPE_NUMPY
from mica.kernels import KERNELS
from mica.run.host import open_runner

PICO = "RPI_PICO@emu"
MODELS = ("digits", "kws", "ic", "vww", "ad")
WITHIN = 0.12


def mica(*args: object) -> Result:
    """The command in this process: twenty starts of Python are half a minute."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(a) for a in args])
    return Result(code, out.getvalue(), err.getvalue())


def network(name: str) -> Path:
    return DEMO / "digits.onnx" if name == "digits" else reference_model(name) / "model.onnx"


def save(folder: Path, nodes: list[onnx.NodeProto], shape: list[int], *constants: onnx.TensorProto) -> Path:
    """A network with the input x and the output y."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info(
        "y", TensorProto.FLOAT, list("ab") if any(n.op_type == "Det" for n in nodes) else list("abcd")
    )
    graph = helper.make_graph(nodes, "net", [x], [y], constants)
    path = folder / f"net{len(list(folder.iterdir()))}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return path


def convolution(folder: Path, n_in: int, size: int, n_out: int, stride: int = 1) -> Path:
    """A 3x3 convolution of a square picture."""
    w = np.random.default_rng(0).standard_normal((n_out, n_in, 3, 3)).astype(np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="conv", pads=[1, 1, 1, 1], strides=[stride] * 2)
    return save(folder, [node], [1, n_in, size, size], numpy_helper.from_array(w, "w"))


@pytest.mark.parametrize(
    ("target", "name"), [*((PICO, name) for name in MODELS), ("RPI_PICO2@emu", "digits"), ("RPI_PICO2@emu", "kws")]
)
def test_predicts_the_virtual_pico(target: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Cycles, waits for flash among them, are within 12 % of `mica bench`, each layer within half,
    and the heap within 6 kB."""
    board = load_board(target.removesuffix("@emu"))
    compiled = compile_file(network(name), None, {"N": 1}, plain=True, scratch_limit=board.scratch)
    told = predict(compiled.model, compiled.data, board, Table.read())
    assert told.fits and told.time and told.time["complete"] and told.time["unit"] == "cycles"
    rng = np.random.default_rng(3)
    tensors = [compiled.model.tensors[i] for i in compiled.model.inputs]
    inputs = [rng.integers(-128, 128, t.dims).astype(DTYPE_NUMPY[t.dtype]) for t in tensors]
    with open_runner(compiled.data, target) as runner:
        measured = runner.bench(inputs, 1)
    assert measured.unit == "cycles"
    ratio = told.time["total"] / measured.total
    with capsys.disabled():
        print(
            f"\nfit {name} on {target}: {told.time['total']:,} predicted, {measured.total:,.0f} measured: {ratio:.3f}"
        )
    assert abs(ratio - 1) < WITHIN
    assert told.time["milliseconds"] == pytest.approx(1000 * told.time["total"] / board.clock, rel=1e-4)
    for layer, cost in zip(told.layers, measured.steps, strict=True):
        assert abs(layer["cost"] - cost) < 0.5 * cost + 4000, layer
    # `bench` has its own Python and the sample in the heap beside the model.
    assert measured.free_heap is not None
    beside = measured.free_heap + sum(x.nbytes for x in inputs)
    assert abs(told.ram["heap"] - told.ram["heap_needed"] - beside) < 6000


def test_the_table_has_not_seen_them() -> None:
    """The script that writes the table measures other models; its notes name none of these, and state its revision."""
    content = json.loads(PATH.read_text())
    assert set(content["cores"]) >= {"m0plus", "m3", "m4", "m7", "m33", "rv32"}
    for entry in [*content["cores"].values(), *content["boards"].values()]:
        assert len(entry["revision"].removesuffix("-dirty")) >= 7
    sweeps = list((Path(__file__).resolve().parents[1] / "costs").glob("*_sweeps.py"))
    corpus = "".join(path.read_text() for path in sweeps)
    assert len(sweeps) == 3 and not any(word in corpus for word in ("MODEL_FOLDERS", "reference_models", "digits"))


def test_the_table_has_every_kernel() -> None:
    """The table has every kernel on every core, but for a program's own step. For a new one: scripts/costs --only."""
    known = {row.name for row in KERNELS} - {"custom_s8"}
    for name, facts in json.loads(PATH.read_text())["cores"].items():
        assert known - {kind.split()[0] for kind in facts["kinds"]} == set(), name


def test_command(digits: Path) -> None:
    result = mica("fit", digits, "--board", "RPI_PICO", "--json")
    assert result.code == 0, result.err
    facts = result.json
    assert facts["fits"] is True and facts["reasons"] == []
    assert facts["flash"] == {
        "file": digits.stat().st_size,
        "romfs": 928 << 10,
        "push_room": (464 << 10) - 4096,
        "storage": 448 << 10,
        "place": "romfs",
    }
    assert facts["time"]["total"] == pytest.approx(
        sum(layer["cost"] for layer in facts["layers"]) + facts["time"]["overhead"], rel=0.001
    )
    people = mica("fit", digits, "--board", "RPI_PICO", "--layers")
    assert people.code == 0 and "fits" in people.out and "ms at 125 MHz" in people.out
    assert ", of which flash " in people.out
    told = next(line for line in people.out.splitlines() if line.startswith("time"))
    assert "RPI_PICO: " + told.removeprefix("time").strip() in mica("info", digits).out.splitlines()
    assert all(layer["name"] in people.out for layer in facts["layers"])


@pytest.mark.parametrize(
    "board", ["RPI_PICO_W", "RPI_PICO2", "ESP32_GENERIC_C3", "ESP32_GENERIC", "MPS2_AN500", "UNIX"]
)
def test_every_kind_of_board(digits: Path, board: str) -> None:
    """A yes for the digits everywhere; figures only where something was measured, and a word where nothing was."""
    facts = mica("fit", digits, "--board", board, "--json").json
    assert facts["fits"] is True
    if board in ("ESP32_GENERIC", "UNIX"):
        assert facts["time"] is None
        assert any("no costs were measured" in note for note in facts["notes"])
    else:
        assert facts["time"]["total"] > 20_000
    assert facts["ram"]["heap_measured"] is (board == "RPI_PICO2")
    assert any("the average of a kind" in note for note in facts["notes"]) is (board == "RPI_PICO2")


def test_an_onnx_file_and_its_shapes() -> None:
    result = mica("fit", DEMO / "digits.onnx", "--board", "RPI_PICO", "--json")
    assert result.code == 0 and result.json["fits"] is True


def test_too_much_for_the_board(tmp_path: Path) -> None:
    """A picture that no Pico holds: exit code 2, the parts of the sum, and the remedy; with --json in fields."""
    path = convolution(tmp_path, 3, 400, 8)
    result = mica("fit", path, "--board", "RPI_PICO")
    assert result.code == 2
    assert "does not fit" in result.out and "RAM: needs " in result.out and "Try a smaller input" in result.out
    facts = mica("fit", path, "--board", "RPI_PICO", "--json")
    assert facts.code == 2 and facts.json["fits"] is False
    assert facts.json["ram"]["heap_needed"] > facts.json["ram"]["heap"]
    assert mica("fit", path, "--board", "MPS2_AN500").code == 0
    weights = mica("fit", convolution(tmp_path, 512, 4, 512), "--board", "RPI_PICO", "--json")
    assert weights.code == 2
    assert any(reason.startswith("flash: the file has ") for reason in weights.json["reasons"])
    whole = mica("fit", convolution(tmp_path, 256, 4, 256), "--board", "RPI_PICO", "--json")
    assert whole.code == 0
    assert any("mica push cannot" in note for note in whole.json["notes"])


def test_proposes_four_bits_where_flash_is_short(tmp_path: Path) -> None:
    """1,070 kB of int8 weights do not fit into 928 KB for models: the proposed line packs a model that fits, with its
    price in time.

    Without that line it does not fit, and `pack --board` refuses it.
    """
    path = convolution(tmp_path, 345, 4, 345)
    result = mica("fit", path, "--board", "RPI_PICO", "--json")
    (note,) = [note for note in result.json["notes"] if "mica pack" in note]
    assert result.code == 2 and result.json["fits"] is False
    assert note.startswith("it fits with weights of four bits, for ") and note.endswith("than it must")
    assert result.json["flash"]["file"] > 345 * 345 * 9
    assert mica("pack", path, "--plain", "--board", "RPI_PICO", "-o", tmp_path / "no.mica").code == 2
    options = re.findall(r"onnx (--weights 4)", note)[0].split()
    assert mica("pack", path, "--plain", "--board", "RPI_PICO", *options, "-o", tmp_path / "few.mica").code == 0


@pytest.mark.parametrize(
    ("n_in", "size", "n_out", "stride", "of"),
    [(416, 4, 416, 1, ["flash"]), (3, 200, 8, 1, ["RAM"]), (416, 26, 416, 13, ["flash", "RAM"])],
)
def test_pack_refuses_what_fit_refuses(
    tmp_path: Path, n_in: int, size: int, n_out: int, stride: int, of: list[str]
) -> None:
    """A file of 1.5 MB is more than the Pico's 928 KB for models, though it has 2 MB of flash; so with the heap."""
    path, packed, free = convolution(tmp_path, n_in, size, n_out, stride), tmp_path / "for.mica", tmp_path / "free.mica"
    assert mica("pack", path, "--plain", "-o", free).code == 0, "without --board nothing is refused"
    reasons = mica("fit", free, "--board", "RPI_PICO", "--json").json["reasons"]
    assert [reason.split(":")[0] for reason in reasons] == of
    refused = mica("pack", path, "--plain", "--board", "RPI_PICO", "-o", packed)
    assert refused.code == 2 and not packed.exists()
    said = refused.err[refused.err.index("mica: error: ") :].rstrip()
    between = " " if len(of) == 1 else "\n  "
    # The file for the board says so in its metadata, which is some bytes.
    told = re.escape(between.join([f"mica: error: {path} does not fit RPI_PICO:", *reasons]))
    assert re.fullmatch(re.sub(r"the\\ file\\ has\\ [0-9,]+", r"the\\ file\\ has\\ [0-9,]+", told), said), said


def test_golden_vectors_count_where_they_make_the_file_too_large(tmp_path: Path) -> None:
    """The check of flash counts the file as it would be written, with its golden vectors."""
    path = convolution(tmp_path, 3, 64, 3)
    assert mica("pack", path, "--plain", "--board", "RPI_PICO", "-o", tmp_path / "few.mica", "--golden", "2").code == 0
    many = mica("pack", path, "--plain", "--board", "RPI_PICO", "-o", tmp_path / "many.mica", "--golden", "60")
    assert many.code == 2 and "flash: the file has 1," in many.err


def test_every_missing_operator_with_its_node(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Det", ["x"], ["a"], name="first"),
        helper.make_node("Det", ["x"], ["b"], name="second"),
        helper.make_node("Add", ["a", "b"], ["y"], name="fine"),
    ]
    path = save(tmp_path, nodes, [1, 1, 4, 4])
    result = mica("fit", path, "--board", "RPI_PICO", "--json")
    assert result.code == 2
    assert result.json["fits"] is False and len(result.json["reasons"]) == 2
    for reason, node in zip(result.json["reasons"], ("first", "second"), strict=True):
        assert f"'{node}'" in reason
    assert mica("fit", path, "--board", "RPI_PICO").code == 2


def test_mistakes(digits: Path, tmp_path: Path) -> None:
    for args, said in (
        ((tmp_path / "none.mica", "--board", "RPI_PICO"), "no such file"),
        ((digits, "--board", "PICO"), "no board is called 'PICO'"),
        ((digits,), "--board"),
        ((digits, "--board", "RPI_PICO", "--shape", "N=1"), "--shape is for .onnx and .tflite files"),
    ):
        result = mica("fit", *args)
        assert result.code == 1 and said in result.err and result.err.count("\n") == 1, result.err
