"""`mica verify` finds a byte that differs, and says where."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from helpers import DEMO, mica, pack, reference_model

from mica.cli.verify import inputs_for, report, verify
from mica.file.codec import decode, encode
from mica.run.board import BoardRunner
from mica.run.host import HostRunner


@pytest.mark.parametrize("target", ["UNIX", "MPS2_AN385"])
def test_a_corrupt_weight_on_the_board_is_found(digits: Path, target: str) -> None:
    data = digits.read_bytes()
    model = decode(data)
    layer = next(i for i, s in enumerate(model.steps) if s.kernel == "depthwise_conv2d_s8")
    step = model.steps[layer]
    weights = step.blobs["weights"].copy()
    weights.reshape(-1)[4] ^= 0x40
    bad = dataclasses.replace(model)
    bad.steps = list(model.steps)
    bad.steps[layer] = dataclasses.replace(step, blobs={**step.blobs, "weights": weights})
    with HostRunner(data) as host, BoardRunner(encode(bad), target) as board:
        samples = inputs_for(host, str(DEMO / "digits_test.npz"), 2)
        result = verify(host, board, samples)
        difference = result["first_difference"]
        assert not result["equal"]
        assert (difference["layer"], difference["name"]) == (layer, step.name)
        # The values it names are the values that the two sides have there.
        a = host.layer_output(samples[difference["sample"]], layer)
        b = board.layer_output(samples[difference["sample"]], layer)
    at = np.ravel_multi_index(difference["index"], model.tensors[step.outputs[0]].dims)
    assert (a.reshape(-1)[at], b.reshape(-1)[at]) == (difference["host"], difference["target"])
    assert difference["host"] != difference["target"]
    assert np.array_equal(a.reshape(-1)[:at], b.reshape(-1)[:at])
    line = report(result)
    for word in (step.name, str(difference["index"]), f"host {difference['host']}", f"{target} {difference['target']}"):
        assert word in line


def test_golden_vectors_are_what_is_verified_by_itself(digits: Path) -> None:
    data = digits.read_bytes()
    vectors = decode(data).golden
    with HostRunner(data) as host:
        samples = inputs_for(host, None, None)
        assert len(samples) == len(vectors) == 2
        for g, inputs in zip(vectors, samples, strict=True):
            np.testing.assert_array_equal(g.inputs[0], inputs[0])
            assert host.layer_hashes(inputs) == g.layer_crcs
        assert verify(host, host, samples)["equal"]
        assert len(inputs_for(host, None, 1)) == 1


@pytest.mark.parametrize("target", ["UNIX", "MPS2_AN385"])
def test_state_is_kept_on_boards(digits_rows: Path, target: str) -> None:
    """A picture row by row: host and board agree in each run, and both go back to the beginning."""
    data = digits_rows.read_bytes()
    with HostRunner(data) as host, BoardRunner(data, target) as board:
        samples = inputs_for(host, None, None)
        assert len(samples) == 9
        first = board.run(samples)
        again = board.run(samples)
        board.reset()
        assert [[y.tobytes() for y in r] for r in board.run(samples)] == [[y.tobytes() for y in r] for r in first]
        assert any(a[0].tobytes() != b[0].tobytes() for a, b in zip(first, again, strict=True)), "the state counts"
        for a, g in zip(first, decode(data).golden, strict=True):
            np.testing.assert_array_equal(a[0], g.outputs[0])
        board.reset()
        result = verify(host, board, samples)
        assert result["equal"], report(result)
        board.board.put(data, "whole")  # golden vectors are not sent with a model
        assert board.board.exec("import mica\nprint(mica.Model(whole).selftest())") == b"None\n"


@pytest.mark.parametrize("name", ["kws", "ic"])
@pytest.mark.parametrize("target", ["UNIX", "MPS2_AN385"])
def test_reference_models_are_equal(name: str, target: str, tmp_path: Path) -> None:
    folder = reference_model(name)
    packed = pack(folder / "model.onnx", tmp_path / "m.mica", "--calib", folder / "calib.npz", "--plain")
    r = mica("verify", packed, "--on", target, "--data", folder / "eval.npz", "--samples", 3, "--json")
    assert r.code == 0, r.out + r.err
    assert r.json["equal"]
    assert r.json["samples"] == 3
