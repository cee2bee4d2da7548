"""Train a small network on handwritten digits with PyTorch, and write net.onnx, samples.npz and labelled.npz.

pip install torch==2.13.0 onnx onnxscript scikit-learn
"""

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

torch.manual_seed(0)
data = load_digits()
images = data.images[:, None].astype(np.float32) / 16  # [n, 1, 8, 8], 0 to 1
x, x_test, y, y_test = train_test_split(images, data.target, test_size=200, random_state=0, stratify=data.target)

net = nn.Sequential(
    nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(), nn.Linear(64, 10),
)  # fmt: skip
optimiser = torch.optim.Adam(net.parameters(), 0.005)
inputs, targets = torch.from_numpy(x), torch.from_numpy(y)
for _ in range(30):
    for batch in torch.randperm(len(inputs)).split(64):
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(inputs[batch]), targets[batch]).backward()
        optimiser.step()
net.eval()
right = (net(torch.from_numpy(x_test)).argmax(1).numpy() == y_test).mean()
print(f"accuracy of the float network: {right:.3f}")

# The exported model ends in a softmax, so that the board's answers are probabilities.
model = nn.Sequential(net, nn.Softmax(1))
torch.onnx.export(
    model, (torch.zeros(1, 1, 8, 8),), "net.onnx", input_names=["image"], dynamo=True, external_data=False
)
np.savez_compressed("samples.npz", x=x[:100])  # for calibration: real inputs, as the network takes them
np.savez_compressed("labelled.npz", x=x_test, y=y_test)
