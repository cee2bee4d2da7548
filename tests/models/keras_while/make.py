"""Recurrent layers as Keras writes them into .tflite: WHILE.
Needs tensorflow (2.21, Keras 3.15 wrote those of this folder)."""

from pathlib import Path

import numpy as np
import tensorflow as tf

L = tf.keras.layers
NETS = {
    "bi_gru_seq": lambda: L.Bidirectional(L.GRU(10, return_sequences=True)),
    "gru_before": lambda: L.GRU(12, reset_after=False),
    "lstm_seq": lambda: L.LSTM(12, return_sequences=True),
}

for name, layer in NETS.items():
    tf.keras.utils.set_random_seed(3)
    model = tf.keras.Sequential([tf.keras.Input((20, 3), batch_size=1), layer(), L.Dense(4)])
    for w in model.weights:
        if "bias" in w.path:
            w.assign(np.random.default_rng(0).normal(0, 0.3, w.shape))
    data = tf.lite.TFLiteConverter.from_keras_model(model).convert()
    (Path(__file__).parent / f"{name}.tflite").write_bytes(data)
