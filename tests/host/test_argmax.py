"""A model that ends in ArgMax: its int32 output, from the command line to the evaluation."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from nets import Net
from onnx import TensorProto

from mica.cli.main import main
from mica.compile import compile_file
from mica.file.codec import encode
from mica.run.evaluation import Dataset, evaluate
from mica.run.golden import with_golden
from mica.run.host import HostRunner


@pytest.fixture
def classifier(tmp_path: Path) -> tuple[bytes, np.ndarray, np.ndarray]:
    """A packed model, samples [40, 1, 6], and the float model's classes."""
    net = Net(seed=2)
    x = net.input([1, 6])
    weights = net.rng.standard_normal((6, 4)).astype(np.float32)
    y = net.add("MatMul", x, net.const(weights))
    net.output(net.add("ArgMax", y, axis=1, keepdims=0), dtype=TensorProto.INT64)
    samples = net.rng.standard_normal((40, 1, 6)).astype(np.float32)
    c = compile_file(net.save(tmp_path), {"x": samples}, metadata={"labels": "ant\nbee\ncat\ndog"})
    return encode(with_golden(c.model, c.data, {"x": samples}, 2)), samples, (samples[:, 0] @ weights).argmax(axis=1)


def test_predict(classifier: tuple[bytes, np.ndarray, np.ndarray]) -> None:
    data, samples, labels = classifier
    with HostRunner(data) as runner:
        out = runner.model.tensors[runner.model.outputs[0]]
        assert (out.dtype, out.dims, out.scale, out.zero_point) == ("int32", (1,), 1.0, 0)
        found = runner.predict(samples)
    assert found.dtype == np.float32
    assert np.mean(found[:, 0] == labels) > 0.9
    assert [g.outputs[0].dtype for g in runner.model.golden] == [np.int32, np.int32]


def test_evaluation(classifier: tuple[bytes, np.ndarray, np.ndarray]) -> None:
    """top1 takes the class as the model gives it."""
    data, samples, labels = classifier
    with HostRunner(data) as runner:
        score = evaluate(Dataset(samples[:, 0], labels, "top1", 0, 0), (1, 6), runner.predict)
        expected = np.mean(runner.predict(samples)[:, 0] == labels)
    assert score.value == expected > 0.9


def test_run(
    classifier: tuple[bytes, np.ndarray, np.ndarray], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, samples, labels = classifier
    (tmp_path / "m.mica").write_bytes(data)
    np.save(tmp_path / "x.npy", samples[:1])
    assert main(["run", str(tmp_path / "m.mica"), str(tmp_path / "x.npy")]) == 0
    assert ("ant", "bee", "cat", "dog")[labels[0]] in capsys.readouterr().out
    assert main(["run", str(tmp_path / "m.mica"), str(tmp_path / "x.npy"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["outputs"][0]["int32"] == [labels[0]]
