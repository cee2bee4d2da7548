#!/usr/bin/env python3
"""Train the network of the demo and write the files of host_tools/mica/demo: model, calibration and test samples.

The results are committed, so neither mica, nor its demo, nor its tests need this script or PyTorch. To run it again:

    python3 -m venv /tmp/train
    /tmp/train/bin/pip install torch==2.13.0 numpy scikit-learn onnx onnxruntime
    /tmp/train/bin/python tests/models/train_digits.py               # about 1 minute on one core
    /tmp/train/bin/python tests/models/train_digits.py --out /tmp/d  # the same, leaving the package alone

Order of work, so that the test figure is an honest one:

    1,797 scans -> 360 test | 1,437 train            stratified, fixed seed, no picture twice
                   train    -> 288 validation | 1,149 fit
    every recipe in RECIPES: fit, score on validation;   the best one is trained again on all of train
    test is looked at once, by onnxruntime, after the export

Same machine and same versions give the same bytes. Another CPU or another PyTorch rounds differently, so the weights
and perhaps a sample or two of the accuracy change. The committed files' figures: host_tools/mica/demo/README.md.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

SEED = 1998  # the year of the data set
TEST_SAMPLES = 360
VALIDATION_SAMPLES = 288
CALIBRATION_SAMPLES = 150
SCALE = 1 / 16  # model input = pixel * SCALE + OFFSET; a pixel counts the ink dots of a 4x4 block, 0..16
OFFSET = 0.0
FILES = ("digits.onnx", "digits_calib.npz", "digits_test.npz", "labels.txt")
OUT = Path(__file__).resolve().parents[2] / "host_tools" / "mica" / "demo"


@dataclass(frozen=True)
class Recipe:
    """A choice for model selection. `shift`: pictures move by up to that many pixels in training."""

    channels: tuple[int, int]
    epochs: int
    shift: int


RECIPES = (
    Recipe(channels=(12, 24), epochs=60, shift=1),
    Recipe(channels=(16, 32), epochs=60, shift=0),
    Recipe(channels=(16, 32), epochs=60, shift=1),
    Recipe(channels=(16, 32), epochs=120, shift=1),
)


def network(channels: tuple[int, int]) -> nn.Sequential:
    """Full convolution, two depthwise-separable blocks each with pooling, dense layer. The names go into the ONNX file.

    [N,1,8,8] -> conv1 3x3 [N,a,8,8] -> dw2 3x3, pw2 1x1 [N,b,8,8] -> pool2 [N,b,4,4]
              -> dw3 3x3, pw3 1x1 [N,b,4,4] -> pool3 [N,b,2,2] -> flatten [N,4b] -> dense [N,10] -> softmax
    """
    a, b = channels
    return nn.Sequential(
        OrderedDict(
            **convolution("conv1", 1, a, 3),
            **convolution("dw2", a, a, 3, groups=a),
            **convolution("pw2", a, b, 1),
            pool2=nn.MaxPool2d(2),
            **convolution("dw3", b, b, 3, groups=b),
            **convolution("pw3", b, b, 1),
            pool3=nn.MaxPool2d(2),
            flatten=nn.Flatten(),
            dense=nn.Linear(4 * b, 10),
            softmax=nn.Softmax(dim=1),
        )
    )


def convolution(name: str, cin: int, cout: int, size: int, groups: int = 1) -> dict[str, nn.Module]:
    """Convolution, batch normalisation, ReLU. No bias: the normalisation that follows has one."""
    return {
        name: nn.Conv2d(cin, cout, size, padding=size // 2, groups=groups, bias=False),
        f"{name}_norm": nn.BatchNorm2d(cout),
        f"{name}_relu": nn.ReLU(),
    }


def shifted(x: torch.Tensor, reach: int, rng: torch.Generator) -> torch.Tensor:
    """Each picture of [N,1,8,8] moved by -reach..reach pixels in both directions, blank pixels moving in."""
    n, _, height, width = x.shape
    padded = nn.functional.pad(x, (reach,) * 4)
    dy, dx = torch.randint(0, 2 * reach + 1, (2, n), generator=rng)
    rows = (dy[:, None] + torch.arange(height))[:, :, None]
    columns = (dx[:, None] + torch.arange(width))[:, None, :]
    return padded[torch.arange(n)[:, None, None], 0, rows, columns][:, None]


def train(recipe: Recipe, x: torch.Tensor, y: torch.Tensor) -> nn.Sequential:
    """Trained network in evaluation mode, from x float32 [N,1,8,8] and y int64 [N]."""
    torch.manual_seed(SEED)
    rng = torch.Generator().manual_seed(SEED)
    net = network(recipe.channels)
    logits_of = net[:-1]  # without the softmax, which the loss has inside
    batch = 32
    steps = -(-len(x) // batch) * recipe.epochs
    optimiser = torch.optim.AdamW(net.parameters(), lr=5e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=5e-3, total_steps=steps)
    loss_of = nn.CrossEntropyLoss(label_smoothing=0.05)
    net.train()
    for _ in range(recipe.epochs):
        for chosen in torch.randperm(len(x), generator=rng).split(batch):
            pictures = shifted(x[chosen], recipe.shift, rng) if recipe.shift else x[chosen]
            optimiser.zero_grad()
            loss_of(logits_of(pictures), y[chosen]).backward()
            optimiser.step()
            schedule.step()
    return net.eval()


def select(x: torch.Tensor, y: torch.Tensor) -> Recipe:
    """The recipe that does best on validation samples taken out of x, y; in a tie the smaller loss wins."""
    fit, validation = train_test_split(np.arange(len(y)), test_size=VALIDATION_SAMPLES, stratify=y, random_state=SEED)
    scores = []
    for recipe in RECIPES:
        net = train(recipe, x[fit], y[fit])
        with torch.no_grad():
            logits = net[:-1](x[validation])
        accuracy = float((logits.argmax(1) == y[validation]).float().mean())
        loss = float(nn.functional.cross_entropy(logits, y[validation]))
        print(f"validation accuracy {accuracy:.4f}  loss {loss:.4f}  {recipe}")
        scores.append((accuracy, -loss))
    return RECIPES[scores.index(max(scores))]


def export(net: nn.Sequential, path: Path) -> None:
    """One ONNX file, batch dimension N dynamic, batch normalisation left for the compiler to fold."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the TorchScript exporter, which needs no more packages
        torch.onnx.export(
            net,
            (torch.zeros(1, 1, 8, 8),),
            str(path),
            dynamo=False,
            opset_version=13,
            input_names=["image"],
            output_names=["probabilities"],
            dynamic_axes={"image": {0: "N"}, "probabilities": {0: "N"}},
            training=torch.onnx.TrainingMode.PRESERVE,  # EVAL would fold the normalisation here
            do_constant_folding=False,
        )
    onnx.checker.check_model(str(path), full_check=True)


def macs(path: Path) -> int:
    """Multiply-accumulates of convolutions and dense layers for one picture, counted in the exported graph."""
    graph = onnx.shape_inference.infer_shapes(onnx.load(path)).graph
    weights = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    values = {v.name: tuple(d.dim_value or 1 for d in v.type.tensor_type.shape.dim) for v in graph.value_info}
    total = 0
    for node in graph.node:
        if node.op_type == "Conv":  # weight [Cout, Cin/group, KH, KW], output [1, Cout, H, W]
            _, cout, height, width = values[node.output[0]]
            total += height * width * cout * int(np.prod(weights[node.input[1]][1:]))
        elif node.op_type == "Gemm":
            total += int(np.prod(weights[node.input[1]]))
    return total


def score(path: Path, x: np.ndarray, y: np.ndarray) -> int:
    """Number of pictures of x float32 [N,1,8,8] that onnxruntime gets right."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (probabilities,) = session.run(["probabilities"], {"image": x})
    return int((np.asarray(probabilities).argmax(1) == y).sum())


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Train the digits network of the demo and write its files.")
    parser.add_argument("--out", type=Path, default=OUT, help="folder for the files (default: %(default)s)")
    out: Path = parser.parse_args(arguments).out
    out.mkdir(parents=True, exist_ok=True)

    torch.set_num_threads(1)  # sums in one fixed order
    torch.use_deterministic_algorithms(True)

    digits = load_digits()
    pixels = digits.images.astype(np.uint8)[:, None]  # [1797,1,8,8], integers 0..16
    labels = digits.target.astype(np.uint8)
    assert len(np.unique(pixels, axis=0)) == len(pixels), "a picture occurs twice: split by picture, not by row"

    # train_test_split shuffles, so the first n of each part are a fair subset of it.
    rest, test = train_test_split(np.arange(len(labels)), test_size=TEST_SAMPLES, stratify=labels, random_state=SEED)
    floats = pixels.astype(np.float32) * np.float32(SCALE) + np.float32(OFFSET)
    x, y = torch.from_numpy(floats[rest]), torch.from_numpy(labels[rest].astype(np.int64))

    recipe = select(x, y)
    net = train(recipe, x, y)
    export(net, out / "digits.onnx")

    calibration, _ = train_test_split(rest, train_size=CALIBRATION_SAMPLES, stratify=labels[rest], random_state=SEED)
    np.savez_compressed(out / "digits_calib.npz", x=floats[calibration])
    np.savez_compressed(
        out / "digits_test.npz",
        x=pixels[test],
        y=labels[test],
        scale=np.float32(SCALE),
        offset=np.float32(OFFSET),
    )
    (out / "labels.txt").write_text("".join(f"{digit}\n" for digit in range(10)), encoding="ascii")

    right = score(out / "digits.onnx", floats[test], labels[test])
    figures = {
        "recipe": asdict(recipe),
        "parameters": sum(p.numel() for p in net.parameters()),
        "macs": macs(out / "digits.onnx"),
        "train_right": score(out / "digits.onnx", floats[rest], labels[rest]),
        "train_samples": len(rest),
        "test_right": right,
        "test_samples": len(test),
        "test_accuracy": round(right / len(test), 4),
        "bytes": {name: (out / name).stat().st_size for name in FILES},
    }
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
