"""Bytes that the planner saves on whole networks: activations as the ONNX file has them against the arena.

A runtime without fusion and without a plan would take the bytes of all activations of the ONNX graph after constant
folding, each stored once as int8. The same figure for the fused graph shows the plan's own part of the saving.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zoo
from nets import MODELS, Net
from targets import nightly

from mica.compile import compile_file
from mica.importer import import_onnx
from mica.ir.graph import Graph

SAVED = 3.77  # geometric mean over the six

NETS: dict[str, Callable[[], Net]] = {"mobilenet_v2": zoo.mobilenet_v2, "yolo_v1": zoo.yolo_v1}
REFERENCE = ("ad", "ic", "kws", "vww")


def activation_bytes(g: Graph) -> int:
    """Bytes of the imported graph: its inputs, and every result of a node. Before passes run: they change it."""
    return sum(g.value(name).size for name in (*g.inputs, *(o for n in g.nodes for o in n.outputs if o)))


@nightly
def test_arena_of_whole_networks(tmp_path: Path) -> None:
    if not MODELS.is_dir():
        pytest.skip(f"{MODELS} is missing: the reference models are not part of the repository")
    saved, fused = {}, {}
    for name in (*REFERENCE, *NETS):
        path = NETS[name]().save(tmp_path, f"{name}.onnx") if name in NETS else MODELS / name / "model.onnx"
        g = import_onnx(path)
        sample = {i: np.random.default_rng(0).random((1, *g.value(i).shape), np.float32) for i in g.inputs}
        p = compile_file(path, sample).plan
        bound = "its lower bound" if p.arena_bytes == p.lower_bound else f"lower bound {p.lower_bound:,}"
        before = activation_bytes(g)
        saved[name], fused[name] = before / p.arena_bytes, p.activation_bytes / p.arena_bytes
        print(f"{name:13}{before:>12,} bytes, fused {p.activation_bytes:>10,} -> {p.arena_bytes:>9,} ({bound}):")
        print(f"{'':13}{saved[name]:.2f}x, of the fused {fused[name]:.2f}x")
        assert p.arena_bytes == p.lower_bound, name
    print(f"geometric mean {mean(saved):.2f}x, of the fused {mean(fused):.2f}x")
    assert min(mean(saved), mean(fused)) >= SAVED


def mean(factors: dict[str, float]) -> float:
    """Geometric mean."""
    return float(np.exp(np.mean(np.log(list(factors.values())))))
