#!/usr/bin/env python3
"""Networks trained with quantisation in the loop, as brevitas, torchao and Keras write them: qat/*.onnx,
and samples in qat/x.npz.

Each has convolutions, one of them depthwise, and a dense layer, and tells four kinds of slopes apart.
The results are committed; neither mica nor its tests need this script or these packages.
To run it again, with torch for processors only:

    python3.11 -m venv /tmp/qat
    /tmp/qat/bin/pip install torch==2.13.0 torchao==0.18.0 brevitas==0.13.4 onnx==1.23.2 onnxoptimizer onnxscript==0.7.2
    /tmp/qat/bin/python tests/models/make_qat.py brevitas torchao
    python3.11 -m venv /tmp/qat_keras
    /tmp/qat_keras/bin/pip install tensorflow-cpu==2.21.0 tf-keras==2.21.0 tensorflow-model-optimization==0.8.1
    tf2onnx==1.17.0 /tmp/qat_keras/bin/python tests/models/make_qat.py keras
"""

import os
import sys
from pathlib import Path

import numpy as np
import onnx

OUT = Path(__file__).resolve().parent / "qat"
SIDE = 12


def data(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Pictures float32 [n, 1, 12, 12] and their kinds [n]."""
    r = np.arange(SIDE) / SIDE * 2 - 1
    row, column = r[:, None] + 0 * r, r[None] + 0 * r[:, None]
    slopes = np.stack([row, column, (row + column) / 2, (row - column) / 2])
    kinds = np.arange(n) % len(slopes)
    x = np.random.default_rng(seed).normal(0, 0.5, (n, 1, SIDE, SIDE)) + slopes[kinds][:, None]
    return x.astype(np.float32), kinds


def trained(net):  # type: ignore[no-untyped-def]
    """A torch network after 150 steps."""
    import torch

    x, y = (torch.from_numpy(a) for a in data(512, 1))
    adam = torch.optim.Adam(net.parameters(), 3e-3)
    for _ in range(150):
        some = torch.randperm(len(x))[:64]
        loss = torch.nn.functional.cross_entropy(net(x[some]), y[some])
        adam.zero_grad()
        loss.backward()
        adam.step()
    return net


def brevitas() -> onnx.ModelProto:
    import brevitas.nn as qnn
    import torch
    from brevitas.export import export_onnx_qcdq
    from brevitas.quant import Int8ActPerTensorFloat, Int8WeightPerChannelFloat, Int32Bias, Uint8ActPerTensorFloat

    def relu() -> torch.nn.Module:
        return qnn.QuantReLU(act_quant=Uint8ActPerTensorFloat, return_quant_tensor=True)

    own = {"weight_quant": Int8WeightPerChannelFloat, "bias_quant": Int32Bias}
    net = torch.nn.Sequential(
        qnn.QuantIdentity(act_quant=Int8ActPerTensorFloat, return_quant_tensor=True),
        *(qnn.QuantConv2d(1, 8, 3, stride=2, padding=1, **own), relu()),
        *(qnn.QuantConv2d(8, 8, 3, padding=1, groups=8, **own), relu()),
        *(qnn.QuantConv2d(8, 8, 1, **own), relu()),
        *(torch.nn.Flatten(), qnn.QuantLinear(288, 4, bias=True, **own)),
        qnn.QuantIdentity(act_quant=Int8ActPerTensorFloat),
    )
    trained(net).eval()
    path = OUT / "brevitas.onnx"
    names = {"input_names": ["x"], "output_names": ["y"]}
    export_onnx_qcdq(net, torch.zeros(1, 1, SIDE, SIDE), str(path), opset_version=17, dynamo=False, **names)
    return onnx.load(path)


def torchao() -> onnx.ModelProto:
    import torch
    from torch.export import Dim, export
    from torchao.quantization.pt2e import move_exported_model_to_eval
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_qat_pt2e
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

    net = torch.nn.Sequential(
        *(torch.nn.Conv2d(1, 8, 3, stride=2, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU()),
        *(torch.nn.Conv2d(8, 8, 3, padding=1, groups=8), torch.nn.ReLU()),
        *(torch.nn.Conv2d(8, 8, 1), torch.nn.ReLU()),
        *(torch.nn.Flatten(), torch.nn.Linear(288, 4)),
    )
    two = export(net.train(), (torch.zeros(2, 1, SIDE, SIDE),), dynamic_shapes=({0: Dim("n")},))
    quantizer = x86.X86InductorQuantizer()
    quantizer.set_global(x86.get_default_x86_inductor_quantization_config(is_qat=True))
    prepared = trained(prepare_qat_pt2e(two.module(), quantizer))
    move_exported_model_to_eval(prepared)
    one = (torch.zeros(1, 1, SIDE, SIDE),)
    program = export(convert_pt2e(prepared), one)
    made = torch.onnx.export(program, one, dynamo=True, input_names=["x"], output_names=["y"], opset_version=21)
    return made.model_proto


def keras() -> onnx.ModelProto:
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    import tensorflow as tf
    import tensorflow_model_optimization as optimization
    import tf2onnx
    import tf_keras

    tf_keras.utils.set_random_seed(0)
    conv, relu = tf_keras.layers.Conv2D, {"activation": "relu"}
    net = tf_keras.Sequential(
        [
            tf_keras.layers.Input((SIDE, SIDE, 1)),
            *(conv(8, 3, strides=2, padding="same", **relu),),
            *(tf_keras.layers.DepthwiseConv2D(3, padding="same", **relu), conv(8, 1, **relu)),
            *(tf_keras.layers.Flatten(), tf_keras.layers.Dense(4)),
        ]
    )
    net = optimization.quantization.keras.quantize_model(net)
    net.compile("adam", tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    x, y = data(512, 1)
    net.fit(x.transpose(0, 2, 3, 1), y, epochs=20, verbose=0)
    shape = tf.TensorSpec((1, SIDE, SIDE, 1), tf.float32, name="x")
    return tf2onnx.convert.from_keras(net, [shape], opset=13)[0]


def main() -> None:
    OUT.mkdir(exist_ok=True)
    np.savez_compressed(OUT / "x.npz", x=np.round(data(64, 2)[0] * 64) / np.float32(64))
    for name in sys.argv[1:]:
        model = {"brevitas": brevitas, "torchao": torchao, "keras": keras}[name]()
        for part in (model, model.graph, *model.graph.node, *model.graph.value_info, *model.graph.input):
            part.doc_string = ""
            del part.metadata_props[:]  # where in the source each node came from
        onnx.save(model, OUT / f"{name}.onnx")


if __name__ == "__main__":
    main()
