"""`pack --frontend features:...`: windows of several axes beside numpy's definition of their features and the float
network."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import text_nets
from onnx import TensorProto, helper
from tones import write_wav

from mica import engine
from mica.cli.main import main
from mica.compile import Compiled, PlacedFrontEnd, compile_file
from mica.errors import MicaError
from mica.kernels.axes import STATS
from mica.reference import axes
from mica.sound import front_ends
from mica.sound.insert import SAMPLES

ROWS, AXES, RATE, FFT = 100, 3, 100, 128
LABELS = ("rest", "sway", "shake", "tremble", "tap")
G = 8192  # counts
WORDS = f"rows={ROWS},axes={AXES},rate={RATE},unit=1/{G}"
BANDS = ((2, 4), (6, 10), (16, 23), (39, 26))  # first line and number of lines


def gesture(rng: np.random.Generator, label: str) -> np.ndarray:
    """int16 [rows, 3]: a movement of acceleration, held in some way, with noise that hides the smallest of them."""
    t = np.arange(ROWS) / RATE
    down, along = rng.standard_normal((2, AXES))
    x = np.outer(np.ones(ROWS), down / np.linalg.norm(down)) + 0.02 * rng.standard_normal((ROWS, AXES))
    along /= np.linalg.norm(along)
    size = 10.0 ** rng.uniform(-1, 0)
    if label in ("sway", "shake", "tremble"):
        low, high = {"sway": (1.0, 4.0), "shake": (4.5, 11.5), "tremble": (12.5, 30.0)}[label]
        x += np.outer(size * np.sin(2 * np.pi * (rng.uniform(low, high) * t + rng.uniform())), along)
    if label == "tap":
        for _ in range(rng.integers(1, 4)):
            x += np.outer(2 * size * np.exp(-((t - rng.uniform(0.1, 0.9)) ** 2) / 2e-4), along)
    return np.clip(np.rint(x * G), -32768, 32767).astype(np.int16)


def gestures(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """int16 [5 n, rows, 3] and their classes."""
    rng = np.random.default_rng(seed)
    y = np.arange(5 * n) % 5
    return np.stack([gesture(rng, LABELS[k]) for k in y]), y


def by_the_book(x: np.ndarray) -> np.ndarray:
    """The features as a trainer writes them with numpy: float64 [axes, 12]."""
    u = x / G
    c = u - u.mean(axis=0)
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(ROWS) / ROWS)
    power = np.abs(np.fft.rfft(c * hann[:, None], FFT, axis=0)) ** 2
    energies = [np.log(np.maximum(power[k : k + n].sum(axis=0), 1e-3)) for k, n in BANDS]
    crossings = [
        (np.diff(v >= 0, axis=0) != 0).sum(axis=0) for v in (ROWS * x.astype(int) - x.sum(axis=0, dtype=int), x)
    ]
    stats = [
        u.mean(axis=0),
        u.std(axis=0),
        np.sqrt((u**2).mean(axis=0)),
        u.min(axis=0),
        u.max(axis=0),
        np.ptp(u, axis=0),
    ]
    return np.stack([*stats, *crossings, *energies], axis=1)


def trained(x: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
    """Mean and deviation of features [n, F], and weights of two layers, by gradient descent from a fixed start."""
    rng = np.random.default_rng(1)
    mean, deviation = x.mean(axis=0), x.std(axis=0)
    x = (x - mean) / deviation
    w, b = rng.standard_normal((x.shape[1], 16)) / 6, np.zeros(16)
    v, c = rng.standard_normal((16, 5)) / 4, np.zeros(5)
    target = np.eye(5)[y]
    for _ in range(800):
        h = np.maximum(x @ w + b, 0)
        p = np.exp(h @ v + c)
        p /= p.sum(axis=1, keepdims=True)
        d = (p - target) / len(x)
        w, v = w * 0.998, v * 0.998
        e = (d @ v.T) * (h > 0)
        v, c, w, b = v - 0.5 * h.T @ d, c - 0.5 * d.sum(axis=0), w - 0.5 * x.T @ e, b - 0.5 * e.sum(axis=0)
    return [mean, deviation, w, b, v, c]


def save_net(path: Path, weights: list[np.ndarray], scaler: bool) -> Path:
    """With the scaler as it is trained with, or in its first layer. Features lie as by_the_book has them."""
    mean, deviation, w, b, v, c = weights
    if not scaler:
        w, b = w / deviation[:, None], b - (mean / deviation) @ w
    names = {"m": mean, "d": deviation, "w": w, "b": b, "v": v, "c": c}
    scale = "s = Sub(f, m) n = Div(s, d) g = Gemm(n, w, b)" if scaler else "g = Gemm(f, w, b)"
    text = f"(float{[1, AXES, 12]} x) => (float[1,5] y) {{"
    text += f"f = Flatten(x) {scale} h = Relu(g) z = Gemm(h, v, c) y = Softmax(z) }}"
    return text_nets.save(path, text, **{name: a.astype(np.float32) for name, a in names.items()})


def grown(rng: np.random.Generator, x: np.ndarray, y: np.ndarray, depth: int = 0) -> list[dict[str, float]]:
    """A tree of features [n, F], root first: nodes that ask for a feature, and leaves.
    Children stand by how far behind they are."""
    counts = np.bincount(y, minlength=5)
    if depth == 7 or counts.max() == len(y) or len(y) < 4:
        return [{"leaf": int(np.argmax(counts))}]
    best: tuple[float, int, float] | None = None
    for f in rng.choice(x.shape[1], 8, replace=False):
        for t in rng.choice(x[:, f], 8):
            sides = [np.bincount(y[x[:, f] <= t], minlength=5), np.bincount(y[x[:, f] > t], minlength=5)]
            mixed = sum(s.sum() - (s**2).sum() / s.sum() for s in sides if s.sum())
            if min(s.sum() for s in sides) and (best is None or mixed < best[0]):
                best = (mixed, int(f), float(t))
    if best is None:
        return [{"leaf": int(np.argmax(counts))}]
    yes = x[:, best[1]] <= best[2]
    left, right = grown(rng, x[yes], y[yes], depth + 1), grown(rng, x[~yes], y[~yes], depth + 1)
    return [{"feature": best[1], "at": best[2], "no": 1 + len(left)}, *left, *right]


def save_forest(path: Path, trees: list[list[dict[str, float]]], features: int) -> Path:
    """Save the forest as a TreeEnsembleClassifier, whose second output is the trees' votes."""
    rows = [(t, k, node) for t, tree in enumerate(trees) for k, node in enumerate(tree)]
    leaves = [(t, k, node["leaf"]) for t, k, node in rows if "leaf" in node]
    node = helper.make_node(
        "TreeEnsembleClassifier",
        ["x"],
        ["label", "y"],
        domain="ai.onnx.ml",
        nodes_treeids=[t for t, _, _ in rows],
        nodes_nodeids=[k for _, k, _ in rows],
        nodes_featureids=[int(n.get("feature", 0)) for _, _, n in rows],
        nodes_values=[float(n.get("at", 0.0)) for _, _, n in rows],
        nodes_modes=["LEAF" if "leaf" in n else "BRANCH_LEQ" for _, _, n in rows],
        nodes_truenodeids=[0 if "leaf" in n else k + 1 for _, k, n in rows],
        nodes_falsenodeids=[0 if "leaf" in n else k + int(n["no"]) for _, k, n in rows],
        class_treeids=[t for t, _, _ in leaves],
        class_nodeids=[k for _, k, _ in leaves],
        class_ids=[int(c) for _, _, c in leaves],
        class_weights=[1 / len(trees)] * len(leaves),
        classlabels_int64s=list(range(5)),
        post_transform="NONE",
    )
    ends = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, features]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5]),
    ]
    graph = helper.make_graph([node], "forest", ends[:1], ends[1:])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def test_forest(tmp_path: Path) -> None:
    """Thresholds are as fine as an int8 of each feature's own range: 20 trees answer as in float but where the votes
    are close."""
    x, y = gestures(10, 120)
    features = np.stack([by_the_book(w).reshape(-1) for w in x])
    rng = np.random.default_rng(5)
    drawn = [rng.integers(0, len(x), len(x)) for _ in range(20)]
    net = save_forest(tmp_path / "net.onnx", [grown(rng, features[d], y[d]) for d in drawn], features.shape[1])
    front_end, _ = front_ends.find_front(TEXT, (1, features.shape[1]), "input 'x'")
    calibration = {SAMPLES: gestures(11, 30)[0].astype(np.float32)}
    compiled = compile_file(net, calibration, front_end=PlacedFrontEnd("x", front_end, TEXT))
    assert [s.kernel for s in compiled.model.steps] == ["axes_s8", "forest_s8"]
    loaded = engine.load(compiled.data)
    network = onnxruntime.InferenceSession(str(net), providers=["CPUExecutionProvider"])
    ex, ey = gestures(12, 120)
    answers, expected = [], []
    for window in ex:
        loaded.set_input(0, window[None])
        loaded.run()
        answers.append(int(np.argmax(loaded.output(0))))
        votes = network.run(["y"], {"x": by_the_book(window).reshape(1, -1).astype(np.float32)})[0]
        expected.append(int(np.argmax(votes)))
    right, float_right = np.mean(np.array(answers) == ey), np.mean(np.array(expected) == ey)
    same = np.mean(np.array(answers) == np.array(expected))
    print(f"top-1 {right:.4f}, float {float_right:.4f}, the same {same:.4f}")
    assert float_right > 0.9 and abs(right - float_right) <= 0.005 and same >= 0.98


@pytest.fixture(scope="module")
def weights() -> list[np.ndarray]:
    x, y = gestures(10, 240)
    return trained(np.stack([by_the_book(w).reshape(-1) for w in x]), y)


def steps_from(compiled: Compiled, exact: np.ndarray) -> np.ndarray:
    """The int8 that float features, [axes, features], become, in float64."""
    node = next(n for n in compiled.tuned.graph.nodes if n.op == "AxisFeatures")
    factor, shift = (np.asarray(compiled.tuned.graph.data(i), np.float64) for i in node.inputs[1:])
    t = compiled.model.tensors[compiled.model.steps[0].outputs[0]]
    real = (exact.reshape(-1) * factor + shift) / t.scale + t.zero_point
    return np.clip(np.rint(real), -128, 127).astype(int)


TEXT = f"features:{WORDS},stats={'+'.join(STATS)},edges=1+4.3+12+30+50,energy=ln,least=1e-3"


@pytest.mark.parametrize("scaler", [False, True], ids=["folded", "scaler"])
def test_gestures(scaler: bool, weights: list[np.ndarray], tmp_path: Path) -> None:
    """1,000 windows that neither training nor calibration has seen."""
    net = save_net(tmp_path / "net.onnx", weights, scaler)
    front_end, _ = front_ends.find_front(TEXT, (1, AXES, 12), "input 'x'")
    calibration = {SAMPLES: gestures(11, 30)[0].astype(np.float32)}
    compiled = compile_file(net, calibration, front_end=PlacedFrontEnd("x", front_end, TEXT))
    assert compiled.model.steps[0].kernel == "axes_s8"
    loaded = engine.load(compiled.data)
    network = onnxruntime.InferenceSession(str(net), providers=["CPUExecutionProvider"])
    x, y = gestures(12, 200)
    right = float_right = agree = 0
    steps = []
    for window in x[:50]:
        np.testing.assert_allclose(axes.features(front_end, window), by_the_book(window), rtol=1e-5, atol=1e-6)
    for window, label in zip(x, y, strict=True):
        exact = by_the_book(window)
        loaded.set_input(0, window[None])
        features, *_ = loaded.layers()
        answer = int(np.argmax(loaded.output(0)))
        expected = int(np.argmax(network.run(None, {"x": exact[None].astype(np.float32)})[0]))
        right, float_right, agree = (
            right + (answer == label),
            float_right + (expected == label),
            agree + (answer == expected),
        )
        steps.append(np.abs(features.reshape(-1).astype(int) - steps_from(compiled, exact)))
    found = np.stack(steps)
    print(
        f"top-1 {right / len(x):.4f}, float {float_right / len(x):.4f}, the same {agree / len(x):.4f}; "
        f"{(found == 0).mean():.4%} of feature "
        f"bytes equal, {(found <= 1).mean():.4%} within 1, worst {found.max()}"
    )
    assert float_right / len(x) > 0.85, "the network has not learned anything to compare"
    assert abs(right - float_right) <= max(1, 0.005 * len(x))
    assert (found <= 1).mean() >= 0.99


def test_energies_and_orders(tmp_path: Path) -> None:
    """Every energy, features of one axis behind those of another and across,
    a unit for each axis: integers within a step of float's."""
    x, _ = gestures(13, 12)
    for text, shape in (
        ("energy=power,stats=none,bands=3", (1, 3, 3)),
        ("energy=rms,stats=cross+rms,bands=2,order=feature,times=0.02", (1, 12)),
        ("energy=db,stats=min,bands=5,fft=256,window=ones", (1, 6, 3)),
        ("energy=log2,stats=std,bands=1,fmin=2,fmax=20", (1, 2, 3)),
        ("stats=ptp+mean,bands=0", (3, 2)),
    ):
        words = f"features:rows={ROWS},axes=3,{text},unit=1/16384+1+1/131"
        front_end, _ = front_ends.find_front(words, shape, "input 'x'")
        n = int(np.prod(shape))
        text = f"(float{list(shape)} x) => (float[1,2] y) {{ f = Reshape(x, s) y = MatMul(f, w) }}"
        text_nets.save(tmp_path / "n.onnx", text, w=np.ones((n, 2), np.float32), s=np.array([1, n]))
        calibration = {SAMPLES: x.astype(np.float32)}
        compiled = compile_file(
            tmp_path / "n.onnx", calibration, front_end=PlacedFrontEnd("x", front_end, words), plain=True
        )
        loaded = engine.load(compiled.data)
        exact = np.stack([axes.features(front_end, w).reshape(-1) for w in x])
        found = []
        for window in x:
            loaded.set_input(0, window[None])
            found.append(next(iter(loaded.layers())).reshape(-1))
        difference = np.abs(np.stack(found).astype(int) - np.stack([steps_from(compiled, e) for e in exact]))
        assert difference.max() <= 1 and (difference == 0).mean() > 0.99, text
        spans = np.ptp(np.stack(found).astype(int), axis=0)
        assert (spans > 150).all(), text  # each has a scale of its own, with room for samples that were not seen


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("axes=3", "rows= is missing"),
        ("rows=3000", "expected 2 to 2048"),
        ("rows=50,row=3", "'row=3' is none of its words"),
        ("rows=50,stats=mean+median", "expected some of mean+std"),
        ("rows=50,stats=mean+mean", "expected some of mean+std"),
        ("rows=50,unit=1+2", "unit: has 2 numbers"),
        ("rows=50,unit=0", "more than 0"),
        ("rows=50,fft=32", "longer than fft=32"),
        ("rows=50,fft=100", "expected 32, 64"),
        ("rows=50,bands=40", "holds none of the lines"),
        ("rows=50,fmax=60", "up to 50 Hz"),
        ("rows=50,edges=1+5,fmin=1", "leave fmin and fmax out"),
        ("rows=50,edges=5", "expected edges that rise"),
        ("rows=50,stats=none,bands=0", "leaves no feature"),
        ("rows=50,axes=2", "gives 20 features, 10 of each axis (2), and input 'x' is [1, 6, 5]"),
        ("rows=50,axes=6,stats=mean,bands=4,order=feature", "take order=axis"),
        ("rows=50,energy=sum", "expected rms, power"),
        ("rows=50,rate=1/0", "expected a whole number"),
    ],
)
def test_words_refused(text: str, said: str) -> None:
    with pytest.raises(MicaError) as e:
        front_ends.find_front(f"features:{text}", (1, 6, 5), "input 'x'")
    assert said in str(e.value) and "\n" not in str(e.value)


def test_commands(weights: list[np.ndarray], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """pack, eval beside the float front end and network, run, fit; and refusals."""
    net, packed, data = (
        save_net(tmp_path / "net.onnx", weights, scaler=True),
        tmp_path / "net.mica",
        tmp_path / "data.npz",
    )
    calib = tmp_path / "calib.npz"
    np.savez(calib, x=gestures(11, 20)[0])
    x, y = gestures(14, 20)
    np.savez(data, x=x, y=y)
    pack = ["pack", str(net), "--frontend", TEXT, "--calib", str(calib), "-o", str(packed), "--plain"]
    assert main(pack) == 0
    assert "axes_s8" in capsys.readouterr().out
    assert main(["eval", str(packed), str(data), "--float", str(net), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["samples"] == 100 and result["agreement"] >= 0.96
    assert main(["fit", str(packed), "--board", "RPI_PICO", "--json"]) == 0
    assert "axes_s8" not in capsys.readouterr().err  # nothing that it does not know
    np.savez(tmp_path / "real.npz", x=np.random.default_rng(0).uniform(-1, 1, (4, ROWS, AXES)))
    np.savez(tmp_path / "short.npz", x=x[:, :50])
    wav = str(write_wav(tmp_path / "a.wav", x[0, :, 0], rate=RATE))
    for words, said in (
        ([*pack, "--window", "x:1=1"], "makes statistics of a whole window"),
        ([*pack[:5], str(tmp_path / "real.npz")], "expected int16 samples"),
        ([*pack[:5], str(tmp_path / "short.npz")], f"expected [n, {ROWS}, {AXES}]"),
        ([*pack[:5], wav], "takes rows of 3 numbers"),
        (["run", str(packed), wav], "takes rows of 3 numbers"),
        ([*pack[:3], TEXT.replace("axes=3", "axes=2"), *pack[4:]], "gives 24 features, 12 of each axis (2)"),
    ):
        assert main(words) == 1
        out, err = capsys.readouterr()
        assert said in err and err.count("\n") == 1, (out, err)
