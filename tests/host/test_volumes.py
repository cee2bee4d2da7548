"""Convolutions and pools over three axes, as networks of videos and radar have them. ONNX Runtime gives the expected values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from nets import Net, assert_same, core, ops, refusal_of


def volume(op: str, kernel: list[int], channels: int = 4, opset: int = 17, **attrs: Any) -> Net:
    net = Net(opset=opset)
    x = net.input([1, channels, 5, 6, 7])
    if op == "Conv":
        net.output(net.add(op, x, net.random(6, channels // attrs.get("group", 1), *kernel), net.random(6), **attrs))
    else:
        net.output(net.add(op, x, kernel_shape=kernel, **attrs))
    return net


CASES: list[tuple[str, list[int], dict[str, Any]]] = [
    ("Conv", [3, 3, 3], {"pads": [1, 1, 1, 1, 1, 1]}),
    ("Conv", [2, 3, 2], {"pads": [1, 0, 1, 0, 2, 1], "strides": [2, 1, 3], "dilations": [2, 2, 1]}),
    ("Conv", [1, 3, 3], {"group": 2, "strides": [1, 2, 2]}),
    ("Conv", [3, 1, 1], {"strides": [2, 1, 1], "opset": 9, "pads": [1, 0, 0, 1, 0, 0]}),
    ("Conv", [5, 6, 7], {}),
    ("Conv", [3, 2, 3], {"auto_pad": "SAME_UPPER", "strides": [2, 2, 1]}),
    ("Conv", [2, 2, 2], {"auto_pad": "SAME_LOWER"}),
    ("MaxPool", [2, 3, 2], {"strides": [2, 2, 1], "pads": [1, 1, 0, 0, 1, 1]}),
    ("MaxPool", [2, 2, 2], {"dilations": [2, 1, 2]}),
    ("AveragePool", [2, 3, 2], {"strides": [1, 2, 2], "pads": [0, 1, 1, 1, 1, 0]}),
    ("AveragePool", [3, 2, 2], {"pads": [1, 1, 0, 1, 0, 1], "count_include_pad": 1, "opset": 9}),
]


@pytest.mark.parametrize(("op", "kernel", "attrs"), CASES, ids=str)
def test_equals_onnx_runtime(tmp_path: Path, op: str, kernel: list[int], attrs: dict[str, Any]) -> None:
    net = volume(op, kernel, **attrs)
    g = core(net, tmp_path)
    assert_same(net, g)
    assert ops(g).count("Conv2d") == (op == "Conv")


def test_refusals() -> None:
    with pytest.raises(AssertionError, match="groups over three axes"):
        refusal_of(volume("Conv", [3, 3, 3], group=2))
    with pytest.raises(AssertionError, match="ceil_mode"):
        refusal_of(volume("MaxPool", [2, 2, 2], ceil_mode=1))
