"""Heads that learn: the engine's C code equals the oracle in numpy, byte for byte, in every kind and size."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from mica import engine
from mica.reference import learning
from mica.reference.learning import ANOMALY, FIT, JUDGE, PROTOTYPE, SOFTMAX, TEACH, Shape

ROOT = Path(__file__).resolve().parents[2]
# Width, classes, kept, examples, and how large the elements are.
SIZES = (
    (1, 1, 1, 3, 127),
    (3, 2, 2, 9, 127),
    (64, 5, 20, 60, 40),
    (64, 3, 4, 30, 1),
    (65, 7, 3, 25, 128),
    (200, 4, 6, 30, 128),
    (4096, 2, 2, 4, 128),
)
ops = learning.learn, engine.learn


def _examples(rng: np.random.Generator, width: int, classes: int, n: int, size: int) -> list[tuple[bytes, int]]:
    means = rng.integers(-size, size, (classes, width))
    # The first of each class comes first, so that no class is empty.
    labels = [*range(classes), *rng.integers(0, classes, n - classes).tolist()]
    return [
        (np.clip(means[k] + rng.normal(0, size / 2, width), -128, 127).astype(np.int8).tobytes(), k) for k in labels
    ]


@pytest.mark.skipif(not engine.AVAILABLE, reason="no C compiler")
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("kind", [PROTOTYPE, SOFTMAX, ANOMALY])
def test_the_engine_equals_the_oracle(kind: int, size: tuple[int, int, int, int, int]) -> None:
    width, classes, keep, n, most = size
    rng = np.random.default_rng(width)
    shape = Shape(kind, width, keep, 1440 if kind == ANOMALY else 32)
    examples = _examples(rng, width, classes, n, most)
    there = [(bytearray(2 * width), [bytearray(shape.block_bytes) for _ in range(classes)]) for _ in ops]
    for x, k in examples:
        for op, (work, blocks) in zip(ops, there, strict=True):
            op(TEACH, shape, work, blocks, x, k)
    step, more = 0, 1
    while more and step < 4:
        more, other = (
            op(FIT, shape, work, blocks, b"", step)[0] for op, (work, blocks) in zip(ops, there, strict=True)
        )
        assert more == other and there[0][1] == there[1][1] and there[0][0][:width] == there[1][0][:width], step
        step += 1
    assert step == (4 if kind == SOFTMAX else 1)
    for x, _ in _examples(rng, width, classes, 20, most):
        one, other = (op(JUDGE, shape, work, blocks, x, 0) for op, (work, blocks) in zip(ops, there, strict=True))
        assert one == other


def _fitted(shape: Shape, examples: list[tuple[bytes, int]], classes: int) -> tuple[bytearray, list[bytearray], int]:
    work, blocks = bytearray(2 * shape.width), [bytearray(shape.block_bytes) for _ in range(classes)]
    for x, k in examples:
        engine.learn(TEACH, shape, work, blocks, x, k)
    step = 0
    while engine.learn(FIT, shape, work, blocks, b"", step)[0]:
        step += 1
    return work, blocks, step


def test_softmax_finds_what_was_taught() -> None:
    """All epochs are done, and the weights stay far from their limit."""
    rng = np.random.default_rng(3)
    for width, most in ((64, 6), (64, 40), (512, 100)):
        examples = _examples(rng, width, 5, 100, most)
        shape = Shape(SOFTMAX, width, 30, 32)
        work, blocks, epochs = _fitted(shape, examples, 5)
        assert epochs == learning.epochs(100) == 15
        found = [engine.learn(JUDGE, shape, work, blocks, x, 0)[0] == k for x, k in examples]
        assert np.mean(found) > 0.95, (width, most)
        largest = max(np.abs(np.frombuffer(b, "<i4", width, 16)).max() for b in blocks)
        assert largest < 1 << 25 if width == 64 else largest < 1 << 22


def test_softmax_stops_where_the_weights_are_large() -> None:
    """Weights that are beyond the limit, and wrong, so that they are to change, end it in C as in numpy."""
    shape = Shape(SOFTMAX, 64, 2, 32)
    rng = np.random.default_rng(1)
    for op in ops:
        work, blocks = bytearray(128), [bytearray(shape.block_bytes) for _ in range(2)]
        for k in (0, 1):
            op(TEACH, shape, work, blocks, rng.integers(-90, 90, 64).astype(np.int8).tobytes(), k)
        assert op(FIT, shape, work, blocks, b"", 0)[0] == 1 and op(FIT, shape, work, blocks, b"", 1)[0] == 1
        np.frombuffer(blocks[1], "<i4", 64, 16)[:] *= -(1 << 12)
        assert op(FIT, shape, work, blocks, b"", 2)[0] == 0


def test_prototypes_are_means_in_any_order() -> None:
    """Sums do not depend on the order, and the class of an example is that of the nearest mean, but for rounding."""
    rng = np.random.default_rng(5)
    shape = Shape(PROTOTYPE, 64, 1, 32)
    examples = _examples(rng, 64, 4, 50, 30)
    _, blocks, _ = _fitted(shape, examples, 4)
    _, other, _ = _fitted(shape, examples[::-1], 4)
    assert blocks == other
    means = np.array([np.mean([np.frombuffer(x, np.int8) for x, k in examples if k == c], axis=0) for c in range(4)])
    for x, _ in _examples(rng, 64, 4, 100, 60):
        best, _, margin = engine.learn(JUDGE, shape, bytearray(128), blocks, x, 0)
        far = ((np.frombuffer(x, np.int8) - means) ** 2).sum(1)
        assert far[best] <= far.min() + 64 * 4
        limit = int.from_bytes(blocks[best][4:8], "little") / 16
        expected = 256 - 256 * far[best] / limit - 192 * far[best] / np.sort(far)[1]
        assert abs(margin - expected) < 2 + 256 * 80 / limit + 20000 / np.sort(far)[1]


def test_limit_of_alarms() -> None:
    """Of distances whose tail falls off as an exponential, one in N lies beyond the limit."""
    rng = np.random.default_rng(7)
    pairs, mean = 200, 12
    x = np.zeros((2 * pairs, pairs + 1), np.int8)  # pairs that are far from each other
    x[np.arange(2 * pairs), np.arange(2 * pairs) // 2] = 127
    x[1::2, pairs] = np.minimum(rng.exponential(mean, pairs), 127)
    for one_in in (10, 100, 1000):
        shape = Shape(ANOMALY, pairs + 1, 2 * pairs, one_in)
        blocks = _fitted(shape, [(row.tobytes(), 0) for row in x], 1)[1]
        limit = int.from_bytes(blocks[0][4:8], "little")
        assert 0.85 < limit / (mean * np.log(one_in)) < 1.15, one_in


def test_the_header_says_the_same() -> None:
    text = (ROOT / "usermod_c" / "kernels" / "learn.h").read_text()
    limits = dict(re.findall(r"#define MICA_LEARN_MAX_(\w+) \((\d+)\)", text))
    assert limits == {
        "CLASSES": str(learning.MOST_CLASSES),
        "WIDTH": str(learning.MOST_WIDTH),
        "KEPT": str(learning.MOST_KEPT),
    }
    names = re.findall(r"MICA_LEARN_(\w+)", text.split("enum {")[1].split("}")[0])
    assert names == ["PROTOTYPE", "SOFTMAX", "ANOMALY"]
    source = (ROOT / "usermod_c" / "kernels" / "learn.c").read_text()
    tables = [
        [int(v) for v in t.split(",") if v.strip()] for t in re.findall(r"uint16_t \w+\[\] = \{([^}]*)\}", source)
    ]
    assert tables == [learning.WHOLE.tolist(), learning.SIXTEENTHS.tolist()]
    assert np.abs(learning.EXP - 4096 * np.exp(-np.arange(160) / 16)).max() < 1
