"""Times of the engine on this computer beside ONNX Runtime's in float: `scripts/bench/run --only host`.

One model after the other, both engines on one thread, in turns; the shortest of several turns counts, in seconds of the
processor. Such times depend on this computer and its load: their ratio is printed, and no test asserts it.
"""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
from reference_models import MODEL_FOLDERS, compiled, files

from mica import engine

TURNS = 9
SECONDS = 0.05  # of a turn


def _seconds_a_call(call: Callable[[], object]) -> float:
    begin = time.process_time()
    n = 0
    while time.process_time() - begin < SECONDS:
        call()
        n += 1
    return (time.process_time() - begin) / n


def ratio(onnx: Path, calib: Path) -> dict[str, float]:
    """For a model with one input: seconds of a run in the engine and in ONNX Runtime, and their ratio."""
    packed = compiled(onnx, calib)
    (shape,) = (packed.model.tensors[i].dims for i in packed.model.inputs)
    model = engine.load(packed.data)
    rng = np.random.default_rng(0)
    model.set_input(0, rng.integers(-128, 128, int(np.prod(shape))).astype(np.int8))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(onnx), options, providers=["CPUExecutionProvider"])
    feeds = {session.get_inputs()[0].name: rng.normal(size=shape).astype(np.float32)}
    calls: tuple[Callable[[], object], ...] = (model.run, lambda: session.run(None, feeds))
    turns = [[_seconds_a_call(call) for call in calls] for _ in range(TURNS)]
    ours, theirs = (min(turn[i] for turn in turns) for i in range(2))
    return {"engine": ours, "onnxruntime": theirs, "ratio": ours / theirs}


def run(models: Path) -> dict[str, dict[str, float]]:
    """Measure the reference models of a folder, and print each."""
    print(f"{engine.NAME}, ONNX Runtime {onnxruntime.__version__} (float), one thread each")
    rows = {}
    for name in MODEL_FOLDERS.values():
        r = rows[name] = ratio(*files(models, name))
        print(f"{name}: {r['engine'] * 1e3:.2f} ms and {r['onnxruntime'] * 1e3:.2f} ms: {r['ratio']:.1f} times")
    return rows
