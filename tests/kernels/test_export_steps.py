"""Every kernel's ONNX form in ONNX Runtime, beside the oracle: on the cases of all kernels, within one step.

The cases have factors that no quantiser would choose, so a form that takes a scale for granted is found.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import onnx
import onnxruntime
import pytest
from case import Case
from cases import CASES
from one_step import model_of

from mica.exporter import DOMAIN, FORMS, exact, export
from mica.format.values import dequantise_f32, quantise_f32
from mica.kernels import KERNEL_BY_NAME, KERNELS, audio, axes, pcen, tabular, vectors, wide

# Cases of each kernel that ONNX's operators cannot say, at the most: everything else has a form.
WITHOUT_FORM = {
    "conv_transpose2d_s8": 3,  # outputs larger than output_padding may make them
    "average_pool2d_s8": 2,  # windows beyond the pads, which are not counted there
    "div_s8": 11,  # a factor of 0
    "softmax_s8": 21,  # tables of a few bits
    "log_softmax_s8": 36,
}
MOST = 60  # cases of each kernel, evenly spread
BY_KERNEL: dict[str, list[Case]] = defaultdict(list)
for _case in CASES:
    BY_KERNEL[_case.kernel].append(_case)


def run(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL  # the model as it stands
    options.log_severity_level, options.intra_op_num_threads = 3, 1
    made = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return np.asarray(made.run(None, feeds)[0])


def compared(c: Case, exact: bool = False) -> np.ndarray | None:
    """Steps by which each value of ONNX Runtime differs from the oracle's; None of a case without a form."""
    file = model_of(c)
    model = export(file, exact=exact)
    onnx.checker.check_model(model)
    if any(n.domain == DOMAIN for n in model.graph.node):
        return None
    feeds = {}
    for t, x in zip(file.inputs, c.xs, strict=True):
        r = file.tensors[t]
        feeds[r.name] = x if r.dtype == "int32" else np.asarray(dequantise_f32(x, r.scale, r.zero_point))
    y, r = run(model, feeds), file.tensors[file.outputs[0]]
    expected = KERNEL_BY_NAME[c.kernel].oracle(c.xs, c.blobs, c.p, c.q)
    found = y if r.dtype == "int32" else quantise_f32(y, r.scale, r.zero_point)
    return np.abs(found.astype(int) - expected.astype(int))


@pytest.mark.parametrize("kernel", FORMS)
def test_within_a_step_of_the_oracle(kernel: str) -> None:
    cases = BY_KERNEL[kernel]
    values = equal = without = 0
    for c in cases[:: -(-len(cases) // MOST)]:
        d = compared(c)
        if d is None:
            without += 1
            continue
        assert d.max() <= 1, c.name
        values, equal = values + d.size, equal + int(np.count_nonzero(d == 0))
    assert without <= WITHOUT_FORM.get(kernel, 0)
    assert equal >= 0.95 * values > 0


@pytest.mark.parametrize("kernel", exact.FORMS)
def test_the_exact_form_is_exact(kernel: str) -> None:
    cases = BY_KERNEL[kernel]
    for c in cases[:: -(-len(cases) // MOST)]:
        d = compared(c, exact=True)
        assert d is not None and d.max() == 0, c.name


def test_kernels_without_a_form_are_known() -> None:
    more = (*tabular.KERNELS, *vectors.KERNELS, *audio.KERNELS, *pcen.KERNELS, *axes.KERNELS, *wide.KERNELS)
    rows = {k.name for k in more}
    assert {k.name for k in KERNELS} - set(FORMS) == {"attend_s8", "recurrent_s8", "rotate_s8", *rows}


def test_a_step_without_a_form_is_a_node_of_our_own() -> None:
    c = BY_KERNEL["recurrent_s8"][0]
    model = export(model_of(c), [{"cycles": "123"}])
    onnx.checker.check_model(model)
    (node,) = (n for n in model.graph.node if n.domain == DOMAIN)
    assert node.op_type == "recurrent_s8" and "cycles 123" in node.doc_string
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(attributes["matrix"]), c.blobs["matrix"])
    assert attributes["cell"] == c.p["cell"]
    assert {p.key: p.value for p in node.metadata_props} == {"kernel": "recurrent_s8", "macs": "0", "cycles": "123"}
