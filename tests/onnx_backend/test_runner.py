"""ONNX's own runner drives the engine through ONNX's backend interface, unchanged.

It compares with float results to 1e-3, which 8 bits cannot give; so the cases are those whose results are integers or
truth values and must be equal. They are fed and judged by onnx's code, not by ours.
"""

from __future__ import annotations

import io
import unittest
import warnings

import mica_backend
import numpy as np
import onnx.backend.test
import pytest
from onnx import TensorProto, helper

EXACT = (
    r"^test_(and|or|xor)(\d|_bcast)",
    r"^test_(max|min)_(int8|int32|int64|uint8)_cpu",
    r"^test_(greater|less)(_equal)?(_bcast)?_cpu",
    r"^test_equal(_bcast)?_cpu",
    r"^test_arg(max|min)_.*_example",
    r"^test_tri[lu](_square)?_cpu",
    r"^test_maxpool_2d_uint8_cpu",
    r"^test_clip_default_int8_inbounds_cpu",
)


@pytest.fixture(scope="module")
def runner() -> onnx.backend.test.BackendTest:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return onnx.backend.test.BackendTest(mica_backend, __name__)


def test_exact_cases_through_onnx_runner(runner: onnx.backend.test.BackendTest) -> None:
    for pattern in EXACT:
        runner.include(pattern)
    done = unittest.TextTestRunner(stream=io.StringIO()).run(runner.test_suite)
    problems = [f"{case.id()}: {text.strip().splitlines()[-1]}" for case, text in done.failures + done.errors]
    ran = done.testsRun - len(done.skipped)
    print(f"{ran} cases through onnx.backend.test")
    assert problems == []
    assert ran >= 50


def test_no_input_is_kept_as_a_state() -> None:
    """past_state and present_state would be one tensor for `mica pack`; a backend takes and returns both."""
    infos = {
        n: helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 4])
        for n in ("x", "past_state", "present_state", "y")
    }
    nodes = [
        helper.make_node("Add", ["x", "past_state"], ["present_state"]),
        helper.make_node("Relu", ["present_state"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "g", [infos["x"], infos["past_state"]], [infos["y"], infos["present_state"]])
    x, past = np.array([[1, -2, 3, -4]], np.float32), np.array([[4, 3, -2, -1]], np.float32)
    rep = mica_backend.prepare(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    for _ in range(2):
        y, present = rep.run([x, past])
        assert np.allclose(present, x + past, atol=0.1)
        assert np.allclose(y, np.maximum(x + past, 0), atol=0.1)
