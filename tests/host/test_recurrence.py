"""Loop, Scan and WHILE whose body is a recurrent cell: one recurrent layer with ONNX Runtime's and LiteRT's numbers."""

from __future__ import annotations

from pathlib import Path

import litert
import numpy as np
import pytest
from exports import Answer
from nets import FLOAT, Net, assert_same, core, ops
from onnx import TensorProto, helper, numpy_helper
from tflite_int8 import quantised

from mica.compile import compile_file
from mica.importer.tflite import import_tflite
from mica.passes import pipeline
from mica.reference import float_ops
from mica.run.host import HostRunner

KERAS = Path(__file__).resolve().parent.parent / "models" / "keras_while"  # make.py there
TRIAL = Path(__file__).resolve().parents[2].parent / "shared" / "trials" / "keras-gru-tflite" / "model.tflite"
TIME, BATCH, WIDE, UNITS = 4, 2, 3, 5
GRU_UPDATES = {"kept": "d = h - n; e = z * d; h1 = e + n", "turned": "d = n - h; e = z * d; h1 = e + h"}
CELLS = {
    "lstm": """a = x @ W; b = h @ R; s = a + b; g = s + B; i, o, f, n = g; i = Sigmoid i; o = Sigmoid o;
        f = Sigmoid f; n = Tanh n;
        p = f * c; q = i * n; c1 = p + q; t = Tanh c1; h1 = o * t""",
    "gru": """a = x @ W; b = h @ R; s = a + B; zx, rx, nx = s; w = b + D; zh, rh, nh = w; z = zx + zh;
        z = Sigmoid z; r = rx + rh;
        r = Sigmoid r; m = r * nh; m = nx + m; n = Tanh m; """,
    "before": """a = x @ W; s = a + B; zx, rx, nx = s; b = h @ R; zh, rh, nh = b; z = zx + zh;
        z = Sigmoid z; r = rx + rh;
        r = Sigmoid r; m = r * h; m = m @ N; m = nx + m; n = Tanh m; """,
    "simple": "a = x @ W; b = h @ R; s = a + b; s = s + B; h1 = Tanh s",
    "masked": "a = x @ W; b = h @ R; s = a + b; s = s + B; h1 = Tanh s; h1 = h1 * x",
}
GATES = {"lstm": 4, "gru": 3, "before": 3, "simple": 1, "masked": 1}


def cell(text: str, gates: int, units: int, wide: int) -> tuple[list, list]:
    """ONNX nodes and constants of lines like "y = a + b"; a name that is made twice gets a new one."""
    rng = np.random.default_rng(gates)
    shapes = {
        "W": (wide, gates * units),
        "R": (units, gates * units),
        "B": (gates * units,),
        "D": (gates * units,),
        "N": (units, units),
    }
    found = [numpy_helper.from_array((rng.standard_normal(s) / 2).astype(np.float32), k) for k, s in shapes.items()]
    nodes, now = [], {}
    for line in filter(None, (part.strip() for part in text.split(";"))):
        left, right = (side.strip() for side in line.split("=", 1))
        words = right.split()
        made = [f"{name.strip()}.{len(nodes)}" for name in left.split(",")]
        read = [now.get(w, w) for w in words if w not in ("+", "*", "@", "-", "Sigmoid", "Tanh")]
        kinds = {"+": "Add", "*": "Mul", "@": "MatMul", "-": "Sub"}
        kind = kinds[words[1]] if len(words) == 3 else words[0] if len(words) == 2 else "Split"
        attrs = {"axis": -1, "num_outputs": len(made)} if kind == "Split" else {}
        nodes.append(helper.make_node(kind, read, made, f"n{len(nodes)}", **attrs))
        now |= dict(zip((name.strip() for name in left.split(",")), made, strict=True))
    ends = [name for name in ("h1", "c1") if name in now]
    nodes += [helper.make_node("Identity", [now[name]], [f"next_{name}"], name) for name in ends]
    return nodes, found


def network(kind: str, by: str, update: str = "kept", back: bool = False) -> Net:
    net = Net(18)
    lstm, wide = kind == "lstm", UNITS if kind == "masked" else WIDE
    nodes, constants = cell(CELLS[kind] + (GRU_UPDATES[update] if GATES[kind] == 3 else ""), GATES[kind], UNITS, wide)
    x = net.input([TIME, BATCH, wide])
    states = ["h", "c"] if lstm else ["h"]
    outer = [net.input([BATCH, UNITS], "h0"), *([net.const(np.zeros((BATCH, UNITS), np.float32))] if lstm else [])]
    row = helper.make_node("Identity", ["next_h1"], ["y"], "row")
    value = helper.make_tensor_value_info
    ins = [value(name, FLOAT, [BATCH, UNITS]) for name in states]
    outs = [value(f"next_{name}1", FLOAT, [BATCH, UNITS]) for name in states]
    results = [f"{name}_end" for name in states]
    if by == "Scan":
        body = helper.make_graph(
            [*nodes, row], "body", [*ins, value("x", FLOAT, [BATCH, wide])], [*outs, value("y", FLOAT, None)], constants
        )
        turned = {"scan_input_directions": [int(back)], "scan_output_directions": [0]}
        net.add("Scan", *outer, x, outputs=[*results, "ys"], name="scan", body=body, num_scan_inputs=1, **turned)
    else:
        constants.append(numpy_helper.from_array(np.array(TIME - 1), "last"))
        at = [helper.make_node("Sub", ["last", "k"], ["at"], "at")] if back else []
        pick = helper.make_node("Gather", [x, "at" if back else "k"], ["x.row"], "pick", axis=0)
        for n in nodes:
            n.input[:] = ["x.row" if i == "x" else i for i in n.input]
        counters = [value("k", TensorProto.INT64, []), value("going", TensorProto.BOOL, [])]
        go = helper.make_node("Identity", ["going"], ["go"], "go")
        body = helper.make_graph(
            [*at, pick, *nodes, row, go],
            "body",
            [*counters, *ins],
            [value("go", TensorProto.BOOL, []), *outs, value("y", FLOAT, None)],
            constants,
        )
        net.add(
            "Loop",
            net.const(np.array(TIME)),
            net.const(np.array(True)),
            *outer,
            outputs=[*results, "ys"],
            name="loop",
            body=body,
        )
    for name in results:
        net.output(name, [BATCH, UNITS])
    net.output("ys", [TIME, BATCH, UNITS])
    return net


@pytest.mark.parametrize("by", ["Loop", "Scan"])
@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("kind", [k for k in CELLS if k != "masked"])
def test_cells(tmp_path: Path, kind: str, by: str, back: bool) -> None:
    net = network(kind, by, "turned" if back else "kept", back)
    g = core(net, tmp_path)
    assert ops(g).count("Recurrent") == 1
    assert not {"FullyConnected", "Mul", "Unary"} & set(ops(g))
    assert_same(net, g, 1e-5)


def test_another_cell_is_written_out(tmp_path: Path) -> None:
    net = network("masked", "Scan")
    g = core(net, tmp_path)
    assert ops(g).count("FullyConnected") >= TIME
    assert_same(net, g, 1e-5)


@pytest.mark.parametrize("path", [*sorted(KERAS.glob("*.tflite")), TRIAL], ids=lambda p: p.parent.name + "/" + p.stem)
def test_keras(path: Path) -> None:
    """Recurrent layers of Keras 3.15 in .tflite, each a WHILE."""
    if not path.exists():
        pytest.skip("../shared/trials is not here")
    made = litert.interpreter(path.read_bytes())
    g = pipeline.run(import_tflite(path))
    assert ops(g).count("Recurrent") == (2 if path.stem.startswith("bi_") else 1)
    for x in np.random.default_rng(1).standard_normal((4, *g.value(g.inputs[0]).shape)).astype(np.float32):
        found = dict(float_ops.stream(g, {g.inputs[0]: x}))[g.outputs[0]]
        assert np.abs(found - litert.run(made, [x])[0]).max() < 1e-5


@pytest.mark.parametrize("path", sorted(KERAS.glob("*.tflite")), ids=lambda p: p.stem)
def test_int8_loops(tmp_path: Path, path: Path) -> None:
    """The same with int8 in the body: a recurrent layer with the file's weights and scales,
    nearer to float than LiteRT."""
    content, said = quantised(path, 1 / 64, 1 / 32 if path.stem.startswith("lstm") else 1 / 128), []
    (tmp_path / "net.tflite").write_bytes(content)
    compiled = compile_file(tmp_path / "net.tflite", warn=said.append)
    assert [s.kernel for s in compiled.model.steps].count("recurrent_s8") == (2 if path.stem.startswith("bi_") else 1)
    assert said == []  # no range is open
    rng = np.random.default_rng(0)
    walk = np.tanh(np.cumsum(rng.normal(0, 0.4, (24, 1, 20, 3)), axis=2))
    xs = np.rint(walk * 64).astype(np.int8)
    real, whole = litert.interpreter(path.read_bytes()), litert.interpreter(content)
    expected = np.stack([litert.run(real, [x.astype(np.float32) / 64])[0] for x in xs])
    theirs = np.stack([litert.run(whole, [x])[0] for x in xs])
    with HostRunner(compiled.data) as runner:
        ours = np.stack([y[0] for y in runner.run([[x] for x in xs])]).reshape(expected.shape)
    a, b = (Answer("y", expected, found.astype(np.float64) / 12).sqnr for found in (ours, theirs))
    best = Answer("y", expected, np.rint(expected * 12) / 12).sqnr
    print(f"mica {a:.1f} dB, LiteRT {b:.1f}, rounded once {best:.1f}")
    assert a > max(b, best - 1)
