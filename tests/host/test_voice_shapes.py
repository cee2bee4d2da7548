"""Networks in the shapes of Silero's voice detector and DTLN's denoiser: states by name or by --state,
and ONNX Runtime's answers run by run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import text_nets

from mica.compile import compile_file
from mica.run.host import HostRunner

RUNS = 120


def speech_like(rng: np.random.Generator, n: int) -> np.ndarray:
    """float32 [n], noise that comes and goes."""
    return (rng.normal(size=n) * 0.2 * np.clip(np.sin(np.arange(n) / 900), 0.02, 1)).astype(np.float32)


def both(path: Path, x: np.ndarray, name: str, pairs: tuple[tuple[str, str], ...]) -> tuple[np.ndarray, np.ndarray]:
    """Answers of ONNX Runtime and of mica to x [runs, 1, n]; the first half is for calibration."""
    session = onnxruntime.InferenceSession(str(path))
    state = {i.name: np.zeros(i.shape, np.float32) for i in session.get_inputs() if i.name != name}
    names = [o.name for o in session.get_outputs()]
    compiled = compile_file(path, {name: x[: len(x) // 2]}, states=pairs)
    theirs, ours = [], []
    with HostRunner(compiled.data) as runner:
        for one in x[len(x) // 2 :]:
            found = dict(zip(names, session.run(None, {name: one, **state}), strict=True))
            state = {source: found[result] for source, result in pairs}
            theirs.append(found[names[0]].reshape(-1))
            ours.append(runner.predict(one[None])[0].reshape(-1))
    return np.array(theirs), np.array(ours)


def test_voice_detector(tmp_path: Path) -> None:
    """Pack a network like silero_vad_16k_sequence.onnx: filters over samples, magnitudes, an LSTM cell whose states are
    inputs h and c, a sigmoid."""
    rng, n, filters, units = np.random.default_rng(0), 64, 16, 8
    t = np.arange(16)
    basis = np.concatenate(
        [
            np.cos(np.pi * np.outer(np.arange(filters // 2), t) / 8),
            np.sin(np.pi * np.outer(np.arange(filters // 2), t) / 8),
        ]
    )
    w, r = (rng.normal(size=(1, 4 * units, k)).astype(np.float32) / 2 for k in (filters // 2, units))
    text = f"(float[1,{n}] x, float[1,1,{units}] h, float[1,1,{units}] c) "
    text += f"=> (float[1,1] y, float[1,1,{units}] hn, float[1,1,{units}] cn) {{ "
    text += "u = Unsqueeze(x, one) f = Conv<strides = [8]>(u, basis) re, im = Split<axis = 1>(f, halves) "
    text += "a = Mul(re, re) b = Mul(im, im) s = Add(a, b) "
    text += "m = Sqrt(s) p = ReduceMean<axes = [2], keepdims = 0>(m) q = Unsqueeze(p, zero) "
    text += f"z, hn, cn = LSTM<hidden_size = {units}>(q, w, r, , , h, c) "
    text += "v = Squeeze(hn, zero) g = MatMul(v, last) y = Sigmoid(g) }"
    path = text_nets.save(
        tmp_path / "vad.onnx", text, basis=basis[:, None].astype(np.float32), w=w, r=r,
        last=rng.normal(size=(units, 1)).astype(np.float32) * 6, one=np.array([1]), zero=np.array([0]),
        halves=np.array([filters // 2, filters // 2]),
    )  # fmt: skip
    x = speech_like(rng, RUNS * n).reshape(RUNS, 1, n)
    theirs, ours = both(path, x, "x", (("h", "hn"), ("c", "cn")))
    assert np.ptp(theirs) > 0.4 and np.abs(theirs - ours).mean() < 0.08
    middle = np.median(theirs)
    assert np.mean((theirs > middle) == (ours > middle)) >= 0.9


def test_denoiser(tmp_path: Path) -> None:
    """Pack a network like DTLN's first: magnitudes, two LSTM cells whose states are one tensor [1, 2, units, 2],
    a mask from 0 to 1."""
    rng, n, units = np.random.default_rng(1), 17, 6
    made = {
        f"{name}{k}": rng.normal(size=(1, 4 * units, size)).astype(np.float32) / 2
        for k in (1, 2)
        for name, size in (("w", n if k == 1 else units), ("r", units))
    }
    state = f"float[1,2,{units},2]"
    text = f"(float[1,1,{n}] x, {state} before) => (float[1,1,{n}] y, {state} after) {{ "
    for k in (1, 2):
        for part, at in (("h", 0), ("c", 1)):
            text += f"{part}{k}s = Slice(before, from{k}{at}, to{k}{at}, axes) {part}{k} = Reshape({part}{k}s, cell) "
    text += f"z1, h1n, c1n = LSTM<hidden_size = {units}>(x, w1, r1, , , h1, c1) "
    text += f"z2, h2n, c2n = LSTM<hidden_size = {units}>(h1n, w2, r2, , , h2, c2) "
    text += "g = MatMul(h2n, last) y = Sigmoid(g) "
    for name in ("h1n", "c1n", "h2n", "c2n"):
        text += f"{name}r = Reshape({name}, slot) "
    text += "one = Concat<axis = 3>(h1nr, c1nr) two = Concat<axis = 3>(h2nr, c2nr) after = Concat<axis = 1>(one, two) }"
    ends = {f"from{k}{at}": np.array([k - 1, at]) for k in (1, 2) for at in (0, 1)}
    ends |= {f"to{k}{at}": np.array([k, at + 1]) for k in (1, 2) for at in (0, 1)}
    path = text_nets.save(
        tmp_path / "mask.onnx", text, **made, **ends, axes=np.array([1, 3]), cell=np.array([1, 1, units]),
        slot=np.array([1, 1, units, 1]), last=rng.normal(size=(units, n)).astype(np.float32) * 2,
    )  # fmt: skip
    x = np.abs(speech_like(rng, RUNS * n)).reshape(RUNS, 1, 1, n) * 3
    theirs, ours = both(path, x, "x", (("before", "after"),))
    noise = np.square(theirs - ours).sum()
    assert np.ptp(theirs) > 0.3 and 10 * np.log10(np.square(theirs - theirs.mean(0)).sum() / noise) > 5
