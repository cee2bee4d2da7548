"""The quality line for each kind of output: classes, maps of classes, scores, and numbers (no answers to compare)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nets import Net

from mica.compile import compile_file, quality

SHAPE = (3, 8, 8)
Build = Callable[[Net, str], str]


def dense(net: Net, x: str, n: int, gain: float = 0.3) -> str:
    return net.add("Gemm", net.add("Flatten", x), net.random(192, n, scale=gain), net.random(n))


def pixels(net: Net, x: str, n: int) -> str:
    return net.add("Conv", x, net.random(n, 3, 1, 1), net.random(n))


def facts(build: Build, tmp_path: Path, x: np.ndarray | None = None, labels: str = "", n: int = 100) -> dict[str, Any]:
    net = Net()
    net.output(build(net, net.input([1, *SHAPE])))
    x = np.random.default_rng(1).standard_normal((n, *SHAPE)).astype(np.float32) if x is None else x
    found = quality.measure(
        compile_file(net.save(tmp_path), {"x": x}, metadata={"labels": labels} if labels else {}, plain=True)
    )
    assert found is not None
    return found.facts()


KINDS: dict[str, tuple[Build, str]] = {
    "softmax": (lambda net, x: net.add("Softmax", dense(net, x, 5), axis=-1), "class"),
    "log softmax": (lambda net, x: net.add("LogSoftmax", dense(net, x, 5), axis=-1), "class"),
    "largest": (lambda net, x: net.add("ArgMax", dense(net, x, 5), axis=1), "class"),
    "class of each pixel": (lambda net, x: net.add("ArgMax", pixels(net, x, 4), axis=1), "map"),
    "softmax of each pixel": (lambda net, x: net.add("Softmax", pixels(net, x, 4), axis=1), "map"),
    "sigmoid": (lambda net, x: net.add("Sigmoid", dense(net, x, 1)), "scores"),
    "score map": (lambda net, x: net.add("Sigmoid", pixels(net, x, 1)), "scores"),
    "forecast": (lambda net, x: dense(net, x, 8), "numbers"),
    "autoencoder": (lambda net, x: net.add("Sigmoid", pixels(net, x, 3)), "numbers"),
    "sound": (lambda net, x: net.add("Tanh", dense(net, x, 512)), "numbers"),
}  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_kinds(name: str, tmp_path: Path) -> None:
    build, kind = KINDS[name]
    q = facts(build, tmp_path)
    (output,) = q["outputs"]
    assert output["kind"] == kind
    assert (q["agreement"] is not None) == (kind in ("class", "map"))
    said = {
        "class": "same answer as float on ",
        "map": "% of the places",
        "scores": "that float has above 0.5 found",
        "numbers": "off by ",
    }
    assert [k for k, words in said.items() if words in q["line"]] == [kind], q["line"]


def test_labels_make_logits_classes(tmp_path: Path) -> None:
    """A network of a classifier without its softmax; a forecast of four numbers is the same graph."""
    assert facts(lambda net, x: dense(net, x, 4), tmp_path)["outputs"][0]["kind"] == "numbers"
    q = facts(lambda net, x: dense(net, x, 4), tmp_path, labels="a\nb\nc\nd")
    assert q["outputs"][0]["kind"] == "class" and q["agreement"] > 0.9
    assert facts(lambda net, x: pixels(net, x, 4), tmp_path, labels="a\nb\nc\nd")["outputs"][0]["kind"] == "map"


def test_pixels_of_a_map_count_each(tmp_path: Path) -> None:
    """A map of 64 pixels is hardly ever the same in all; nearly all of its pixels are."""
    q = facts(lambda net, x: net.add("ArgMax", pixels(net, x, 4), axis=1), tmp_path)
    (o,) = q["outputs"]
    assert o["of"] == 64 * q["samples"] and 0.95 < q["agreement"] < 1
    for axis in (1, -1):
        p = facts(lambda net, x, axis=axis: net.add("Softmax", pixels(net, x, 4), axis=axis), tmp_path)
        assert p["outputs"][0]["of"] == (64 if axis == 1 else 32) * p["samples"] and p["agreement"] > 0.95


def test_found_and_missed(tmp_path: Path) -> None:
    q = facts(lambda net, x: net.add("Sigmoid", dense(net, x, 1)), tmp_path)
    (o,) = q["outputs"]
    assert 0 < o["of"] < q["samples"] and o["of"] - 1 <= o["found"] <= o["of"]

    def never(net, x):
        return net.add("Sigmoid", net.add("Sub", dense(net, x, 1, 0.1), net.const(np.float32(6))))

    q = facts(never, tmp_path)
    assert "float has nothing above 0.5 in them" in q["line"] and "(unsure: " in q["line"] and q["agreement"] is None


def test_an_offset_is_no_signal(tmp_path: Path) -> None:
    """Pressure around 1,013 in steps of 4: of the 10 that it varies by, some 20 dB are left, not 58."""
    q = facts(lambda net, x: net.add("Add", dense(net, x, 1, 0.7), net.const(np.float32(1013))), tmp_path)
    (o,) = q["outputs"]
    assert 8 < q["sqnr_db"] < 22 and 0.5 < o["error"] < 3 and o["largest"] >= o["error"]
    assert f"only {o['distinct']} different answers where float has {o['expected']}" in q["line"]
    alone = facts(lambda net, x: dense(net, x, 1, 0.7), tmp_path)
    assert alone["sqnr_db"] > q["sqnr_db"] + 15 and "different answers" not in alone["line"]


def test_few_samples_say_that_they_are_few(tmp_path: Path) -> None:
    """Only fewer than eight samples, or those that leave a wide interval, are called few."""
    said = [facts(lambda net, x, by=by: dense(net, x, 2, by), tmp_path, n=n) for n in (7, 40, 400) for by in (0.1, 3.0)]
    assert all("(unsure: 7 samples are few)" in q["line"] for q in said[:2])
    assert all(("are few" in q["line"]) == (q["plus_minus_db"] > quality.UNSURE) for q in said[2:4])
    assert all("are few" not in q["line"] and "+/-" in q["line"] and q["samples"] == 64 for q in said[4:])


def test_one_sample_that_decides(tmp_path: Path) -> None:
    """Among the samples one is far beyond the range of the others; there will be more of its kind."""
    x = np.random.default_rng(1).standard_normal((200, *SHAPE)).astype(np.float32)
    x[103] *= 6
    q = facts(lambda net, x: dense(net, x, 2), tmp_path, x)
    assert q["plus_minus_db"] > quality.UNSURE and ("others may go beyond" in q["line"] or "a few of them" in q["line"])
