"""Times of the engine on this computer beside ONNX Runtime in float and LiteRT in int8: `scripts/bench/run --only
host`.

One model after the other, both engines on one thread, in turns; the shortest of several turns counts, in seconds of the
processor, and the median of the turns' ratios. Such times depend on this computer and its load: no test asserts them.
"""

import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
from reference_models import MODEL_FOLDERS, compiled, files

import mica
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


def _turns(ours: Callable[[], object], theirs: Callable[[], object]) -> dict[str, float]:
    """Seconds of a call of each, the least of all turns; and how many of ours one of theirs takes, the median."""
    turns = [(_seconds_a_call(ours), _seconds_a_call(theirs)) for _ in range(TURNS)]
    least = [min(turn[i] for turn in turns) for i in range(2)]
    return {"engine": least[0], "peer": least[1], "ratio": statistics.median(b / a for a, b in turns)}


def beside_onnxruntime(onnx: Path, calib: Path) -> dict[str, float]:
    """For a model with one input: the engine in int8, and ONNX Runtime in float."""
    packed = compiled(onnx, calib)
    (shape,) = (packed.model.tensors[i].dims for i in packed.model.inputs)
    model = engine.load(packed.data)
    rng = np.random.default_rng(0)
    model.set_input(0, rng.integers(-128, 128, int(np.prod(shape))).astype(np.int8))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(onnx), options, providers=["CPUExecutionProvider"])
    feeds = {session.get_inputs()[0].name: rng.normal(size=shape).astype(np.float32)}
    return _turns(model.run, lambda: session.run(None, feeds))


def beside_litert(tflite: Path) -> dict[str, float]:
    """For a model with one int8 input: the engine and LiteRT with XNNPACK, which run the same integers."""
    from ai_edge_litert.interpreter import Interpreter

    model = engine.load(mica.pack(tflite).data)
    peer = Interpreter(str(tflite), num_threads=1)
    peer.allocate_tensors()
    given = peer.get_input_details()[0]
    x = np.random.default_rng(0).integers(-128, 128, given["shape"]).astype(np.int8)
    peer.set_tensor(given["index"], x)
    model.set_input(0, x)
    return _turns(model.run, peer.invoke)


def run(models: Path) -> dict[str, dict[str, float]]:
    """Measure the reference models of a folder, and print each."""
    print(f"{engine.NAME}; ONNX Runtime {onnxruntime.__version__} (float) and LiteRT (int8), one thread each")
    rows = {}
    for name, folder in MODEL_FOLDERS.items():
        onnx = beside_onnxruntime(*files(models, folder))
        rows[name] = {"engine": onnx["engine"], "onnxruntime": onnx["peer"], "onnxruntime ratio": onnx["ratio"]}
        tflite = models / "tflite" / f"{folder}_int8.tflite"
        if tflite.exists():
            litert = beside_litert(tflite)
            rows[name] |= {"tflite engine": litert["engine"], "litert": litert["peer"], "litert ratio": litert["ratio"]}
        print(name, *(f"{k} {v:.2f}" if "ratio" in k else f"{k} {v * 1e3:.4f} ms" for k, v in rows[name].items()))
    return rows
