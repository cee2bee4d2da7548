#!/usr/bin/env python3
"""Small Keras networks, exported by tf2onnx in the ways people call it: exports/keras_*.onnx.

The results are committed; neither mica nor its tests need this script or TensorFlow. To run it again (2 minutes):

    python3.11 -m venv /tmp/keras
    /tmp/keras/bin/pip install tensorflow-cpu==2.21.0 tf2onnx==1.17.0 onnx==1.23.2 onnxruntime==1.31.1 numpy==2.4.6
    /tmp/keras/bin/python tests/models/make_keras.py            # all, or: make_keras.py lstm gru

(keras 3.15.1 came with tensorflow-cpu.) The same machine and the same versions give the same bytes. Only some names of
inner values differ: in keras_attention (tf2onnx puts addresses into them) and keras_zeropad (through a SavedModel).

tf2onnx 1.17.0 with Keras 3: `convert.from_keras` takes functional models, but raises KeyError on a Sequential.
`model.export(format="onnx")`, a SavedModel on the command line and `convert.from_function` take everything, and call
the outputs `Identity:0` or after the SavedModel's signature. For a Conv2D with groups (StatefulPartitionedCall) or the
exact gelu (Erfc), tf2onnx writes a file with TensorFlow's own operators in it, without an error.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from unittest import mock

os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", "TF_ENABLE_ONEDNN_OPTS": "0"}

import exporting
import keras
import numpy as np
import onnx
import tensorflow as tf
import tf2onnx
from keras import layers

SEED = 3
SAMPLES = 512
BATCH = 32
PACKAGES = ("tensorflow_cpu", "keras", "tf2onnx", "onnx", "onnxruntime", "numpy")

Data = tuple[np.ndarray, np.ndarray]  # inputs, targets


# --- networks, all channels last ----------------------------------------------------------------------------------


def conv_norm(x: keras.KerasTensor, c: int, size: int, stride: int = 1, act: str = "relu6") -> keras.KerasTensor:
    x = layers.Conv2D(c, size, stride, padding="same", use_bias=False)(x)
    return layers.Activation(act)(layers.BatchNormalization()(x))


def mobilenet(x: keras.KerasTensor) -> keras.KerasTensor:
    """SAME with stride 2 on an even size pads one side only."""
    x = conv_norm(x, 6, 3, stride=2)
    for c, stride in ((8, 1), (12, 2)):
        x = layers.DepthwiseConv2D(3, stride, padding="same", use_bias=False)(x)
        x = layers.ReLU(6.0)(layers.BatchNormalization()(x))
        x = conv_norm(x, c, 1)
    x = layers.GlobalAveragePooling2D()(x)
    return layers.Dense(4, activation="softmax")(layers.Dropout(0.1)(x))


def residual(x: keras.KerasTensor) -> keras.KerasTensor:
    x = conv_norm(x, 6, 3, act="relu")
    y = conv_norm(x, 6, 3, act="relu")
    y = layers.BatchNormalization()(layers.Conv2D(6, 3, padding="same")(y))
    x = layers.ReLU()(layers.Add()([x, y]))
    x = layers.MaxPooling2D(3, 2, padding="same")(x)
    x = layers.AveragePooling2D(2, 2, padding="same")(x)
    return layers.Dense(4)(layers.Flatten()(x))


def conv1d(x: keras.KerasTensor) -> keras.KerasTensor:
    x = layers.BatchNormalization()(layers.Conv1D(8, 5, padding="same", activation="relu")(x))
    x = layers.MaxPooling1D(2)(x)
    x = layers.Conv1D(8, 3, padding="causal", dilation_rate=2, activation="relu")(x)
    x = layers.SeparableConv1D(8, 3, strides=2, padding="same", activation="relu")(x)
    return layers.Dense(4, activation="softmax")(layers.GlobalMaxPooling1D()(x))


def lstm(x: keras.KerasTensor) -> keras.KerasTensor:
    return layers.Dense(4, activation="softmax")(layers.LSTM(12)(x))


def gru(x: keras.KerasTensor) -> keras.KerasTensor:
    return layers.Dense(4)(layers.GRU(12)(x))


def gru_unrolled(x: keras.KerasTensor) -> keras.KerasTensor:
    return layers.Dense(4)(layers.GRU(8, unroll=True)(x))


def bidirectional(x: keras.KerasTensor) -> keras.KerasTensor:
    x = layers.Bidirectional(layers.LSTM(6, return_sequences=True))(x)
    x = layers.TimeDistributed(layers.Dense(6, activation="relu"))(x)
    return layers.Dense(4, activation="softmax")(layers.GlobalAveragePooling1D()(x))


def upsampling(x: keras.KerasTensor) -> keras.KerasTensor:
    a = layers.Conv2D(6, 3, padding="same", activation="relu")(x)
    b = layers.Conv2D(8, 3, 2, padding="same", activation="relu")(a)
    c = layers.Conv2D(8, 3, 2, padding="same", activation="relu")(b)
    b = layers.Concatenate()([b, layers.UpSampling2D(2)(c)])
    b = layers.Conv2D(6, 1, activation="relu")(b)
    a = layers.Add()([a, layers.UpSampling2D(2, interpolation="bilinear")(b)])
    c = layers.Conv2DTranspose(4, 3, 2, padding="same", activation="relu")(c)
    a = layers.Concatenate()([a, layers.Conv2DTranspose(4, 2, 2)(c)])
    return layers.Conv2D(1, 3, padding="same")(a)


def batchnorm(x: keras.KerasTensor) -> keras.KerasTensor:
    """Normalisations where no convolution can take them in: first of all, after an activation, after a pool."""
    x = layers.BatchNormalization(scale=False)(x)
    x = layers.Conv2D(6, 3, activation="relu")(x)
    x = layers.BatchNormalization()(x)
    x = layers.BatchNormalization(center=False)(layers.MaxPooling2D()(x))
    x = layers.Conv2D(8, 3, activation="tanh", use_bias=False)(x)
    x = layers.BatchNormalization()(layers.Flatten()(x))
    return layers.Dense(4, activation="softmax")(x)


def zeropad(x: keras.KerasTensor) -> keras.KerasTensor:
    """ZeroPadding2D in front of a valid convolution or pool with stride 2, as keras.applications pads."""
    x = layers.ZeroPadding2D(((0, 1), (0, 1)))(x)
    x = layers.Conv2D(6, 3, 2, activation="relu")(x)
    x = layers.MaxPooling2D(3, 2)(layers.ZeroPadding2D(1)(x))
    x = layers.Cropping2D(((0, 0), (1, 0)))(layers.Conv2D(8, 2, padding="same", activation="relu")(x))
    x = layers.Permute((2, 1, 3))(x)
    return layers.Dense(4, activation="softmax")(layers.Reshape((-1,))(x))


def separable(x: keras.KerasTensor) -> keras.KerasTensor:
    x = layers.SeparableConv2D(8, 3, padding="same", activation="swish")(x)
    x = layers.SeparableConv2D(8, 3, padding="same", dilation_rate=2, depth_multiplier=2)(x)
    x = layers.PReLU(shared_axes=[1, 2])(x)
    x = layers.LeakyReLU(negative_slope=0.2)(layers.Conv2D(8, 3, 2)(x))
    gate = layers.GlobalAveragePooling2D(keepdims=True)(x)
    gate = layers.Conv2D(8, 1, activation="hard_sigmoid")(layers.Conv2D(4, 1, activation="elu")(gate))
    x = layers.Multiply()([x, gate])
    return layers.Dense(4)(layers.GlobalMaxPooling2D()(x))


def gelu(x: keras.KerasTensor) -> keras.KerasTensor:
    """Gelu by tanh: TensorFlow writes the exact one with Erfc, which tf2onnx does not know."""
    return keras.activations.gelu(x, approximate=True)


def dense(x: keras.KerasTensor) -> keras.KerasTensor:
    x = layers.Normalization(mean=0.1, variance=0.6)(x)
    x = layers.LayerNormalization()(gelu(layers.Dense(16)(x)))
    x = layers.Dense(16, activation="selu")(x)
    x = layers.Dense(8, activation="softplus")(layers.Dropout(0.1)(x))
    return layers.Dense(4, activation="sigmoid")(x)


def attention(x: keras.KerasTensor) -> keras.KerasTensor:
    x = layers.Dense(8)(x)
    x = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 4)(x, x))
    x = layers.LayerNormalization()(x + layers.Dense(8)(gelu(layers.Dense(16)(x))))
    return layers.Dense(4)(layers.Flatten()(x))


def embedding(x: keras.KerasTensor) -> keras.KerasTensor:
    x = layers.Embedding(64, 8)(x)
    x = layers.Conv1D(8, 3, activation="relu")(x)
    return layers.Dense(4, activation="softmax")(layers.GlobalAveragePooling1D()(x))


def rearranged(x: keras.KerasTensor) -> keras.KerasTensor:
    """TensorFlow's own functions between the layers, slices and two heads' worth of arithmetic."""
    x = keras.ops.concatenate([x, x[:, ::-1]], axis=-1) * 2.0 - 0.5
    x = layers.Lambda(lambda t: tf.nn.space_to_depth(t, 2))(x)
    x = layers.Conv2D(8, 3, padding="same", activation="relu")(x)
    a, b = keras.ops.split(x, 2, axis=-1)
    x = keras.ops.maximum(a, b) - keras.ops.clip(keras.ops.abs(a - b), 0.0, 0.5)
    x = layers.Lambda(lambda t: tf.nn.depth_to_space(t, 2))(x)
    x = keras.ops.transpose(x, (0, 3, 1, 2))
    x = keras.ops.reshape(x[:, :, 1:-1, 2:], (-1, 6, 6))
    x = keras.ops.sqrt(keras.ops.mean(keras.ops.square(x), axis=2) + 1e-3)
    return keras.ops.softmax(layers.Dense(4)(x))


# --- what they learn ----------------------------------------------------------------------------------------------


def images(channels: int, size: int) -> Callable[[int, int], Data]:
    """float32 [n, size, size, channels] and the class."""

    def make(n: int, seed: int) -> Data:
        x, y = exporting.pictures(n, channels, size, seed)
        return np.ascontiguousarray(x.transpose(0, 2, 3, 1)), y

    return make


def waves(channels: int, length: int, *, flat: bool = False) -> Callable[[int, int], Data]:
    """float32 [n, length, channels], or in one dimension, and the class."""

    def make(n: int, seed: int) -> Data:
        x, y = exporting.series(n, channels, length, seed)
        x = np.ascontiguousarray(x.transpose(0, 2, 1))
        return x.reshape(n, -1) if flat else x, y

    return make


def words(n: int, seed: int) -> Data:
    x, y = exporting.tokens(n, 10, 64, seed)
    return x.astype(np.int32), y


def noisy(n: int, seed: int) -> Data:
    """Gratings with noise, and the same without."""
    x, _ = exporting.pictures(n, 1, 12, seed, noise=0)
    x = x.transpose(0, 2, 3, 1).copy()
    return exporting.on_grid(x + np.random.default_rng(seed).normal(0, 0.5, x.shape)), x


# --- cases --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """route: how tf2onnx is called; opset None: the one it takes by itself (15)."""

    name: str
    network: Callable[[keras.KerasTensor], keras.KerasTensor]
    data: Callable[[int, int], Data]
    route: str = "from_keras"
    opset: int | None = None
    target: str = "probabilities"  # what comes out: "probabilities", "logits" or "picture"
    epochs: int = 6
    batch: int | None = None
    note: str = ""


CASES = (
    Case("mobilenet", mobilenet, images(3, 10)),
    Case("mobilenet_nchw", mobilenet, images(3, 10), "nchw", 17, note="`inputs_as_nchw`"),
    Case("residual", residual, images(3, 10), "export", 17, target="logits"),
    Case("conv1d", conv1d, waves(3, 24), opset=17),
    Case("lstm", lstm, waves(6, 12), epochs=15),
    Case("lstm_batch1", lstm, waves(6, 12), "function", 17, epochs=15, batch=1),
    Case("gru", gru, waves(6, 12), "export", epochs=15, target="logits"),
    Case("gru_unrolled", gru_unrolled, waves(6, 6), "export", 17, epochs=15, target="logits", note="`unroll=True`"),
    Case("bidirectional", bidirectional, waves(6, 12), opset=17, epochs=15),
    Case("upsampling", upsampling, noisy, opset=17, target="picture"),
    Case("batchnorm", batchnorm, images(3, 10)),
    Case("zeropad", zeropad, images(3, 10), "saved_model", 16),
    Case("separable", separable, images(3, 10), "function", 17, epochs=12, batch=1, target="logits"),
    Case("dense", dense, waves(2, 12, flat=True), opset=15, epochs=12),
    Case("attention", attention, waves(6, 8), "export", 17, epochs=15, target="logits"),
    Case("embedding", embedding, words, opset=17),
    Case("rearranged", rearranged, images(1, 8), opset=18, epochs=12),
)


# --- work ---------------------------------------------------------------------------------------------------------


def train(case: Case) -> keras.Model:
    keras.backend.clear_session()
    keras.utils.set_random_seed(SEED)
    x, y = case.data(SAMPLES, SEED)
    first = keras.Input(x.shape[1:], dtype=str(x.dtype), name="x")
    model = keras.Model(first, case.network(first), name=case.name)
    if case.target == "picture":
        loss: keras.losses.Loss = keras.losses.MeanSquaredError()
    else:
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=case.target == "logits")
    model.compile(keras.optimizers.Adam(1e-2), loss)
    model.fit(x, y, batch_size=BATCH, epochs=case.epochs, verbose=0)
    return model


def number_nodes() -> None:
    """tf2onnx keeps nodes in sets, which go by address. Numbers instead, so that names come out the same each time."""
    serial = itertools.count()
    plain = tf2onnx.graph.Node.__init__

    def numbered(self: tf2onnx.graph.Node, *args: object, **kwargs: object) -> None:
        self._serial = next(serial)
        plain(self, *args, **kwargs)

    tf2onnx.graph.Node.__init__ = numbered
    tf2onnx.graph.Node.__hash__ = lambda self: self._serial


def write(model: keras.Model, case: Case, path: Path) -> None:
    """Call tf2onnx, by way of Keras where that is the route."""
    opset = {"opset": case.opset} if case.opset else {}
    (first,) = model.inputs
    signature = (tf.TensorSpec((case.batch, *first.shape[1:]), first.dtype, name="x"),)
    if case.route == "from_keras":
        tf2onnx.convert.from_keras(model, output_path=str(path), **opset)
    elif case.route == "nchw":
        tf2onnx.convert.from_keras(model, signature, inputs_as_nchw=["x"], output_path=str(path), **opset)
    elif case.route == "function":
        call = tf.function(lambda x: model(x, training=False))
        tf2onnx.convert.from_function(call, signature, output_path=str(path), **opset)
    elif case.route == "export":
        model.export(str(path), format="onnx", verbose=False, opset_version=case.opset)
    elif case.route == "saved_model":
        with tempfile.TemporaryDirectory() as folder:
            model.export(folder, verbose=False)
            command = ["tf2onnx", "--saved-model", folder, "--output", str(path), "--opset", str(case.opset)]
            with mock.patch.object(sys, "argv", command):
                tf2onnx.convert.main()
    else:
        raise ValueError(case.route)


def make(case: Case, out: Path) -> None:
    model = train(case)
    calibration, _ = case.data(exporting.CALIBRATION_SAMPLES, SEED + 100)
    test, target = case.data(exporting.TEST_SAMPLES, SEED + 200)
    truth = np.concatenate([model(test[k : k + 1], training=False).numpy() for k in range(len(test))])
    right = f"{int((truth.argmax(1) == target).sum())} of {len(test)} right" if case.target != "picture" else ""
    print(f"{case.name}: {model.count_params()} parameters {right}", flush=True)
    path = out / f"keras_{case.name}.onnx"
    path.unlink(missing_ok=True)
    write(model, case, path)
    exported = onnx.load(path)
    if case.route == "nchw":
        calibration, test = (np.ascontiguousarray(x.transpose(0, 3, 1, 2)) for x in (calibration, test))
    how = {
        "from_keras": "`convert.from_keras`",
        "nchw": "`convert.from_keras`",
        "function": "`convert.from_function`",
        "export": '`model.export(format="onnx")`',
        "saved_model": "`--saved-model`",
    }[case.route]
    about = {
        "exporter": f"keras {version('keras')}, tf2onnx {version('tf2onnx')}",
        "versions": {package: version(package) for package in PACKAGES},
        "note": ", ".join(t for t in (how, case.note) if t),
    }
    weights = {tensor.name for tensor in exported.graph.initializer}
    (first,) = (i.name for i in exported.graph.input if i.name not in weights)
    (last,) = (o.name for o in exported.graph.output)
    exporting.finish(path, {first: calibration}, {first: test}, {last: truth}, about)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Train and export the small Keras networks.")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(c.name for c in CASES)}")
    parser.add_argument("--out", type=Path, default=exporting.OUT, help="folder for the files (default: %(default)s)")
    chosen = parser.parse_args(arguments)
    if os.environ.get("PYTHONHASHSEED") != "0":  # tf2onnx orders and names its nodes by sets
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | {"PYTHONHASHSEED": "0"})
    chosen.out.mkdir(parents=True, exist_ok=True)
    number_nodes()
    tf.config.threading.set_intra_op_parallelism_threads(1)  # sums in one fixed order
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.experimental.enable_op_determinism()
    for case in CASES:
        if not chosen.cases or case.name in chosen.cases:
            make(case, chosen.out)
    exporting.write_readme(chosen.out)


if __name__ == "__main__":
    main()
