"""Train a small network on handwritten digits with Keras, and write net.tflite, samples.npz and labelled.npz.

pip install tensorflow scikit-learn
"""

import keras
import numpy as np
import tensorflow as tf
from keras import layers
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

keras.utils.set_random_seed(0)
data = load_digits()
images = data.images[..., None].astype(np.float32) / 16  # [n, 8, 8, 1], 0 to 1
x, x_test, y, y_test = train_test_split(images, data.target, test_size=200, random_state=0, stratify=data.target)

net = keras.Sequential([
    layers.Input((8, 8, 1)),
    layers.Conv2D(8, 3, padding="same", activation="relu"), layers.MaxPooling2D(),
    layers.Conv2D(16, 3, padding="same", activation="relu"), layers.MaxPooling2D(),
    layers.Flatten(), layers.Dense(10, activation="softmax"),
])  # fmt: skip
net.compile(keras.optimizers.Adam(0.005), "sparse_categorical_crossentropy", metrics=["accuracy"])
net.fit(x, y, batch_size=64, epochs=30, verbose=0)
print(f"accuracy of the float network: {net.evaluate(x_test, y_test, verbose=0)[1]:.3f}")

with open("net.tflite", "wb") as file:
    file.write(tf.lite.TFLiteConverter.from_keras_model(net).convert())  # float32: mica quantises it
np.savez_compressed("samples.npz", x=x[:100])  # for calibration: real inputs, as the network takes them
np.savez_compressed("labelled.npz", x=x_test, y=y_test)
