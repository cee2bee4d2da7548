"""Passes over a long chain make as many tables of readers and producers as over a short one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hostile_files import model_of
from onnx import helper

from mica.importer import import_onnx
from mica.ir.graph import Graph
from mica.passes import pipeline


def _tables(op: str, n: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Return the number of calls of Graph.producers() and consumers() for a chain of n nodes of this kind."""
    nodes = [
        helper.make_node(op, [f"a{k}" if k else "image"], ["out" if k == n - 1 else f"a{k + 1}"]) for k in range(n)
    ]
    (folder / "chain.onnx").write_bytes(model_of(nodes, [], [1, 8]))
    counts: Counter[str] = Counter()
    for name in ("producers", "consumers"):
        made = getattr(Graph, name)
        monkeypatch.setattr(Graph, name, lambda self, made=made, name=name: counts.update([name]) or made(self))
    pipeline.run(import_onnx(folder / "chain.onnx", {}))
    monkeypatch.undo()
    return counts


@pytest.mark.parametrize("op", ["Identity", "Dropout", "Relu", "Tanh", "Neg", "Softmax"])
def test_tables_of_a_chain(op: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short, long = (_tables(op, n, tmp_path, monkeypatch) for n in (20, 60))
    assert short and long == short
