"""Streaming models of TensorFlow Lite: variables that live from run to run, as microWakeWord's models have them."""

from __future__ import annotations

from pathlib import Path

import litert
import numpy as np
import pytest
from test_tflite_graphs import eights, packed, refused, run, same_as_litert
from tflite_files import Tflite
from tflite_nets import NEW, ROWS, STREAM, WIDTH, call_once, handle, stream


@pytest.mark.parametrize("again", (False, True))
def test_runs_follow_each_other(tmp_path: Path, again: bool) -> None:
    content, xs = stream(again=again), eights(1, NEW, 1, WIDTH, n=20)
    compiled = same_as_litert(content, tmp_path, xs, steps=0)
    assert [t.dims for t in compiled.model.tensors if t.space == "state"] == [(1, ROWS, 1, WIDTH)]
    assert (len(compiled.model.inputs), len(compiled.model.outputs)) == (1, 1)
    answers = run(compiled, xs)
    alone = run(packed(content, tmp_path), xs[-1:])
    assert not np.array_equal(answers[-1], alone[0])  # earlier inputs count


def test_two_handles_of_one_name_are_one_variable(tmp_path: Path) -> None:
    """Two graphs have a handle each; here one graph has two."""
    net = Tflite()
    x, y = net.tensor([1, 4], **STREAM), net.tensor([1, 4], **STREAM)
    call_once(net)
    net.operator("READ_VARIABLE", [handle(net, "v")], [y])
    net.operator("ASSIGN_VARIABLE", [handle(net, "v"), x], [])
    first = net.graph()
    zeros = first.constant(np.full((1, 4), -128, np.int8), STREAM["scale"], STREAM["zero"])
    first.operator("ASSIGN_VARIABLE", [handle(first, "v"), zeros], [])
    content, xs = net.bytes([x], [y], first), eights(1, 4, n=5)
    assert [litert.run(made, [x])[0].tolist() for made in [litert.interpreter(content)] for x in xs] == [
        q.tolist() for q in run(packed(content, tmp_path), xs)
    ]


def test_a_variable_that_does_not_begin_at_zero(tmp_path: Path) -> None:
    text = refused(stream(begin=np.zeros((1, ROWS, 1, WIDTH), np.int8)), tmp_path)
    assert text == (
        "cannot be packed: operator 0 (CALL_ONCE): the first value of the variable 'rows' is not 0; "
        "mica's states begin at 0"
    )


def test_a_variable_of_two_scales(tmp_path: Path) -> None:
    text = refused(stream(kept={"scale": 0.06, "zero": -128}), tmp_path)
    assert (
        "(ASSIGN_VARIABLE): the variable 'rows' is int8 [1, 5, 1, 8] and int8 [1, 5, 1, 8], or has two scales" in text
    )


@pytest.mark.parametrize("graph", (0, 2, -1))
def test_a_graph_that_is_not_there(tmp_path: Path, graph: int) -> None:
    assert refused(stream(graph=graph), tmp_path) == f"damaged: operator 0 (CALL_ONCE) runs graph {graph} of 2"


def test_a_handle_from_nowhere(tmp_path: Path) -> None:
    net = Tflite()
    x, y = net.tensor([1, 4], **STREAM), net.tensor([1, 4], **STREAM)
    net.operator("READ_VARIABLE", [x], [y])
    assert "a handle that no VAR_HANDLE makes" in refused(net.bytes([x], [y]), tmp_path)
