"""Train a forest that tells three wines from each other with scikit-learn, and write net.onnx,
samples.npz and labelled.npz.

pip install scikit-learn skl2onnx
"""

import numpy as np
from skl2onnx import to_onnx
from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

data = load_wine()
names = np.array(["barolo", "grignolino", "barbera"])[data.target]  # classes may have names
features = data.data.astype(np.float32)  # [n, 13], each in its own unit
x, x_test, y, y_test = train_test_split(features, names, test_size=60, random_state=0, stratify=names)

net = make_pipeline(StandardScaler(), RandomForestClassifier(10, max_depth=4, random_state=0)).fit(x, y)
print(f"accuracy in scikit-learn: {net.score(x_test, y_test):.3f}")

with open("net.onnx", "wb") as file:
    file.write(to_onnx(net, x[:1], options={"zipmap": False}).SerializeToString())
np.savez_compressed("samples.npz", x=x)
np.savez_compressed("labelled.npz", x=x_test, y=y_test.astype(str))  # text, not Python objects
