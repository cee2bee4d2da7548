"""A network of 16 by 8 bits (int16 activations, int8 weights, int64 biases) beside LiteRT: mica has 8 bits for the activations, and says so."""

from __future__ import annotations

from pathlib import Path

import litert
import numpy as np
from tflite_files import Tflite
from tflite_nets import CONV

from mica import engine
from mica.compiler import compile_model
from mica.format.values import dequantise_output, quantise_input

SHAPES = ([1, 12, 12, 2], [1, 12, 12, 8], [1, 6, 6, 8], [1, 6, 6, 16], [1, 3, 3, 16], [1, 144], [1, 10])
SAMPLES = 64
LEAST_DB = 30.0


def network(reach: list[float] | None = None) -> bytes:
    """CONV_2D, DEPTHWISE_CONV_2D, CONV_2D, AVERAGE_POOL_2D, RESHAPE, FULLY_CONNECTED: float32, or int16 where tensor k reaches to reach[k]."""
    rng, net = np.random.default_rng(4), Tflite()
    steps = [] if reach is None else [r / 32767 for r in reach]
    ids = [
        net.tensor(s, "float32" if reach is None else "int16", steps[k] if steps else None)
        for k, s in enumerate(SHAPES)
    ]

    def layer(k: int, kind: str, shape: tuple[int, ...], axis: int, options: str, values: dict[str, object]) -> None:
        channels, inputs = shape[axis], int(np.prod(shape)) // shape[axis]
        w = rng.standard_normal(shape) / np.sqrt(inputs)
        bias = 0.3 * rng.standard_normal(channels)
        if reach is None:
            constants = [net.constant(w.astype(np.float32)), net.constant(bias.astype(np.float32))]
        else:
            scale = np.abs(w).max(tuple(a for a in range(w.ndim) if a != axis)) / 127
            at = [-1 if a == axis else 1 for a in range(w.ndim)]
            q = np.rint(w / scale.reshape(at)).astype(np.int8)
            whole = np.rint(bias / (scale * steps[k])).astype(np.int64)
            constants = [net.constant(q, scale, 0, axis), net.constant(whole, scale * steps[k], 0)]
        net.operator(kind, [ids[k], *constants], [ids[k + 1]], options, values)

    window = {**CONV, "padding": 0}
    halved = {**window, "stride_w": 2, "stride_h": 2}
    layer(0, "CONV_2D", (8, 3, 3, 2), 0, "Conv2DOptions", window)
    layer(1, "DEPTHWISE_CONV_2D", (1, 3, 3, 8), 3, "DepthwiseConv2DOptions", {**halved, "depth_multiplier": 1})
    layer(2, "CONV_2D", (16, 1, 1, 8), 0, "Conv2DOptions", window)
    pool = {"padding": 1, "stride_w": 2, "stride_h": 2, "filter_width": 2, "filter_height": 2, "activation": 0}
    net.operator("AVERAGE_POOL_2D", [ids[3]], [ids[4]], "Pool2DOptions", pool)
    net.operator("RESHAPE", [ids[4], net.constant(np.array([1, 144], np.int32))], [ids[5]])
    layer(5, "FULLY_CONNECTED", (10, 144), 0, "FullyConnectedOptions", {"activation": 0})
    return net.bytes([ids[0]], [ids[6]])


def test_a_network_of_16_by_8_bits(tmp_path: Path) -> None:
    x = np.random.default_rng(5).standard_normal((SAMPLES, *SHAPES[0])).astype(np.float32)
    real = litert.interpreter(network(), every=True)
    reach, outputs = np.zeros(len(SHAPES)), []
    names = {d["name"]: d["index"] for d in real.get_tensor_details()}
    for v in x:
        outputs.append(litert.run(real, [v])[0].reshape(-1))
        found = [np.abs(real.get_tensor(names[f"t{k}"])).max() for k in range(len(SHAPES))]
        reach = np.maximum(reach, found)
    reach[4] = reach[5] = reach[3]  # as the pool and the reshape demand
    content = network(reach.tolist())
    wide = litert.interpreter(content)
    path, said = tmp_path / "net.tflite", []
    path.write_bytes(content)
    compiled = compile_model(path, warn=said.append)
    assert any(line.startswith("int16 tensors become int8") for line in said)
    loaded, model = engine.load(compiled.data), compiled.model
    tensors = [model.tensors[i] for i in (model.inputs[0], model.outputs[0])]
    expected, ours = [], []
    for v in x:
        q = np.clip(np.rint(v / np.float32(reach[0] / 32767)), -32768, 32767).astype(np.int16)
        expected.append(litert.run(wide, [q])[0].reshape(-1) * (reach[6] / 32767))
        loaded.set_input(0, quantise_input(v.reshape(tensors[0].dims), tensors[0]))
        loaded.run()
        ours.append(dequantise_output(loaded.output(0), tensors[1]).reshape(-1))
    db = [decibels(np.array(outputs), np.array(y)) for y in (expected, ours)]
    same = np.mean(np.argmax(ours, 1) == np.argmax(expected, 1))
    print(f"16 by 8 bits: LiteRT {db[0]:.1f} dB, mica {db[1]:.1f} dB of float; {same:.3f} of the answers the same")
    assert db[1] > LEAST_DB and same >= 0.9


def decibels(real: np.ndarray, found: np.ndarray) -> float:
    return float(10 * np.log10((real**2).mean() / ((real - found) ** 2).mean()))
