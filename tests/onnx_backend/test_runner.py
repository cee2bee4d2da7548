"""ONNX's own runner drives the engine through ONNX's backend interface, unchanged.

It compares with float results to 1e-3, which 8 bits cannot give; so the cases are those whose results are integers or
truth values and must be equal. They are fed and judged by onnx's code, not by ours.
"""

from __future__ import annotations

import io
import unittest
import warnings

import onnx.backend.test
import pytest

import mica.backend

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
        return onnx.backend.test.BackendTest(mica.backend, __name__)


def test_exact_cases_through_onnx_runner(runner: onnx.backend.test.BackendTest) -> None:
    for pattern in EXACT:
        runner.include(pattern)
    done = unittest.TextTestRunner(stream=io.StringIO()).run(runner.test_suite)
    problems = [f"{case.id()}: {text.strip().splitlines()[-1]}" for case, text in done.failures + done.errors]
    ran = done.testsRun - len(done.skipped)
    print(f"{ran} cases through onnx.backend.test")
    assert problems == []
    assert ran >= 50
