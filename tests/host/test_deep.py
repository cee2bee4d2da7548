"""Long rows of nodes, and windows that make a small file's work large: an answer or one line, and soon."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nets import Net, core, imported

from mica.errors import Unsupported
from mica.importer.bounds import MAX_TOGETHER, Bound

DEEP = sys.getrecursionlimit() + 100


def row(kind: str) -> Net:
    net = Net()
    shape = [1, 2, 2, 2] if kind == "Transpose" else [1, 8]
    at = net.input(shape)
    number = net.const(np.full(8, 0.01, np.float32))
    for _ in range(DEEP):
        at = {
            "Add": lambda at: net.add("Add", at, number),
            "Transpose": lambda at: net.add("Transpose", at, perm=[0, 2, 3, 1]),
        }[kind](at)
    net.output(at, shape)
    return net


@pytest.mark.parametrize("kind", ["Add", "Transpose"])
def test_nodes_in_a_row(tmp_path: Path, kind: str) -> None:
    """More than Python's recursion goes deep."""
    assert len(core(row(kind), tmp_path).nodes) == 1


def test_a_mask_is_found_far_above_its_softmax(tmp_path: Path) -> None:
    net = Net()
    x = net.input([1, 4, 4])
    mask = np.where(np.triu(np.ones((4, 4), bool), 1), -np.inf, 0).astype(np.float32)
    at = net.add("Add", x, net.const(mask))
    for _ in range(DEEP):
        at = net.add("Add", at, net.const(np.zeros((4, 4), np.float32)))
    net.output(net.add("Softmax", at, axis=-1), [1, 4, 4])
    assert [n.op for n in core(net, tmp_path).nodes].count("Mask") == 1


WINDOWS: dict[str, tuple[str, list[int], dict[str, Any]]] = {
    "strides": ("ConvTranspose", [1, 1, 3, 3], {"strides": [1000, 1000]}),
    "strides, cut off again": (
        "ConvTranspose",
        [1, 1, 3, 3],
        {"strides": [4000, 4000], "pads": [14000, 14000, 14000, 14000]},
    ),
    "dilations": ("Conv", [1, 1, 3, 3], {"dilations": [9000, 9000], "pads": [9000, 9000, 9000, 9000]}),
    "pads": ("Conv", [1, 1, 3, 3], {"strides": [9000, 9000], "pads": [9000, 9000, 9000, 9000]}),
    "a pool's pads": ("AveragePool", [], {"kernel_shape": [9000, 9000], "strides": [9000, 9000], "pads": [8999] * 4}),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_what_a_few_bytes_make_large_is_refused_by_the_importer(tmp_path: Path, name: str) -> None:
    op, weights, attrs = WINDOWS[name]
    net = Net()
    x = net.input([1, 1, 8, 8])
    net.output(net.add(op, x, *([net.random(*weights)] if weights else []), **attrs), ["a", "b", "c", "d"])
    with pytest.raises(Unsupported, match=r"[\d,]{10,} elements; expected at most [\d,]{10}"):
        imported(net, tmp_path)


def test_many_large_tensors_are_too_many_together(tmp_path: Path) -> None:
    net = Net()
    at = net.input([1, 1, 64, 64])
    sizes = net.const(np.array([1, 1, 48, 48], np.float32))
    for _ in range(8):
        large = net.add("Resize", at, "", sizes, mode="nearest")
        at = net.add("MaxPool", large, kernel_shape=[48, 48], strides=[48, 48])
    net.output(at, [1, 1, 64, 64])
    with pytest.raises(Unsupported, match=f"all tensors up to here have .* expected at most {MAX_TOGETHER:,}"):
        imported(net, tmp_path)


def test_the_products_of_one_node_are_bounded() -> None:
    bound = Bound(1000)
    square = {"kernel_shape": [3, 3]}
    bound.windows("Conv", [(1, 64, 100, 100), (64, 64, 3, 3)], (1, 64, 98, 98), square)
    with pytest.raises(ValueError, match="it multiplies 40,000,000,000 times"):
        bound.windows("Conv", [(1, 1, 400, 400), (1, 1, 200, 200)], (1, 1, 1000, 1000), {"strides": [1, 1]})


def test_the_last_resort_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from mica.cli import info, main

    def endless(*args: object) -> int:
        return endless(*args)

    monkeypatch.setattr(info, "run", endless)
    monkeypatch.delenv("MICA_DEBUG", raising=False)
    assert main.main(["info", "x.mica"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("mica: error: too many things lie one inside or behind the other") and said.count("\n") == 1
