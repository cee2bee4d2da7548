"""Heads that learn: the engine's C code equals the oracle in numpy, byte for byte, in every kind and size."""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mica.reference import learning
from mica.reference.learning import ANOMALY, FIT, JUDGE, PROTOTYPE, SOFTMAX, TEACH, block_bytes
from mica.reference.learning import MOST_COUNT as ALL
from mica.toolchain.process import need_program

ROOT = Path(__file__).resolve().parents[2]
USERMOD = ROOT / "usermod_c"
# Width, classes, kept, examples, and how large the elements are.
SIZES = (
    (1, 1, 1, 3, 127),
    (3, 2, 2, 9, 127),
    (5, 3, 4, 30, 60),
    (7, 2, 3, 20, 100),
    (64, 5, 20, 60, 40),
    (64, 3, 4, 30, 1),
    (65, 7, 3, 25, 128),
    (200, 4, 6, 30, 128),
    (4096, 2, 2, 4, 128),
)
Op = Callable[..., bool]


class _Learn(ctypes.Structure):
    """mica_learn_t."""

    _fields_ = (
        ("numbers", ctypes.c_int32 * 7),
        ("classes", ctypes.c_uint32),
        ("work", ctypes.c_void_p),
        ("blocks", ctypes.c_void_p * learning.MOST_CLASSES),
    )


@pytest.fixture(scope="module")
def in_c(tmp_path_factory: pytest.TempPathFactory) -> Op:
    """The C code, with the arguments of the oracle."""
    made = tmp_path_factory.mktemp("learn") / "learn.so"
    folders = [f"-I{USERMOD / 'include'}", f"-I{USERMOD / 'kernels'}"]
    words = ["-std=c99", "-O2", "-shared", "-fPIC", *folders, str(USERMOD / "kernels" / "learn.c"), "-o", str(made)]
    subprocess.run([need_program("gcc", "gcc"), *words], check=True)
    library = ctypes.CDLL(str(made))
    library.mica_learn_fit.restype = library.mica_learn_check.restype = ctypes.c_bool
    library.mica_learn_block_bytes.restype = ctypes.c_size_t

    def learn(op: int, numbers: Any, work: bytearray, blocks: list[bytearray], arg: int) -> bool:
        width = numbers[1]
        there = [(ctypes.c_char * len(b)).from_buffer(b) for b in (work, *blocks)]
        at = [ctypes.addressof(t) for t in there]
        p = _Learn((ctypes.c_int32 * 7)(*numbers), len(blocks), at[0], (ctypes.c_void_p * 64)(*at[1:]))
        assert library.mica_learn_check(ctypes.byref(p))
        assert all(len(b) == library.mica_learn_block_bytes(ctypes.byref(p), numbers[2]) for b in blocks)
        more, x = False, ctypes.c_void_p(at[0] + width)
        if op == TEACH:
            library.mica_learn_teach(ctypes.byref(p), arg, x)
        elif op == FIT:
            more = library.mica_learn_fit(ctypes.byref(p), arg)
        else:
            library.mica_learn_judge(ctypes.byref(p), x)
            numbers[4:] = p.numbers[4:]
        return more

    return learn


class Case:
    """Buffers of a head, and one of the two that works on them."""

    def __init__(self, learn: Op, kind: int, width: int, keep: int, classes: int, setting: int = 32):
        self.learn, self.width, self.numbers = learn, width, [kind, width, keep, setting, 0, 0, 0]
        self.work = bytearray((3 if kind == SOFTMAX else 2) * width)
        self.blocks = [bytearray(block_bytes(kind, width, keep)) for _ in range(classes)]

    def __call__(self, op: int, x: bytes = b"", arg: int = 0) -> bool:
        self.work[self.width : 2 * self.width] = x or bytes(self.width)
        return self.learn(op, self.numbers, self.work, self.blocks, arg)

    def fit(self, examples: list[tuple[bytes, int]]) -> int:
        for x, k in examples:
            self(TEACH, x, k)
        step = 0
        while self(FIT, arg=step):
            step += 1
        return step

    def judge(self, x: bytes) -> list[int]:
        self(JUDGE, x)
        return self.numbers[4:]


def _examples(rng: np.random.Generator, width: int, classes: int, n: int, size: int) -> list[tuple[bytes, int]]:
    means = rng.integers(-size, size, (classes, width))
    # The first of each class comes first, so that no class is empty.
    labels = [*range(classes), *rng.integers(0, classes, n - classes).tolist()]
    return [
        (np.clip(means[k] + rng.normal(0, size / 2, width), -128, 127).astype(np.int8).tobytes(), k) for k in labels
    ]


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("kind", [PROTOTYPE, SOFTMAX, ANOMALY])
def test_the_engine_equals_the_oracle(kind: int, size: tuple[int, int, int, int, int], in_c: Op) -> None:
    width, classes, keep, n, most = size
    rng = np.random.default_rng(width)
    one, other = (
        Case(op, kind, width, keep, classes, 1440 if kind == ANOMALY else 32) for op in (learning.learn, in_c)
    )
    for x, k in _examples(rng, width, classes, n, most):
        one(TEACH, x, k)
        other(TEACH, x, k)
    step, more = 0, True
    while more and step < 4:
        more = one(FIT, arg=step)
        assert more == other(FIT, arg=step) and one.blocks == other.blocks, step
        assert one.work[:width] == other.work[:width] and one.work[2 * width :] == other.work[2 * width :], step
        step += 1
    assert step == (4 if kind == SOFTMAX else 1)
    judged = [x for x, _ in _examples(rng, width, classes, 20, most)]
    for counts in (16, 9, 1, 0, 255) if kind == SOFTMAX else (16,):
        for block in one.blocks + other.blocks:
            block[13] = counts if kind == SOFTMAX else block[13]
        for x in judged:
            assert one.judge(x) == other.judge(x), counts


def test_softmax_finds_what_was_taught(in_c: Op) -> None:
    """All epochs are done, and the weights stay far from their limit."""
    rng = np.random.default_rng(3)
    for width, most in ((64, 6), (64, 40), (512, 100)):
        examples = _examples(rng, width, 5, 100, most)
        case = Case(in_c, SOFTMAX, width, 30, 5)
        assert case.fit(examples) == learning.epochs(100) == 15
        assert np.mean([case.judge(x)[0] == k for x, k in examples]) > 0.95, (width, most)
        largest = max(np.abs(np.frombuffer(b, "<i4", width, 16)).max() for b in case.blocks)
        assert largest < 1 << 25 if width == 64 else largest < 1 << 22


def test_softmax_stops_where_the_weights_are_large(in_c: Op) -> None:
    """Weights that are beyond the limit, and wrong, so that they are to change, end it in C as in numpy."""
    rng = np.random.default_rng(1)
    for op in (learning.learn, in_c):
        case = Case(op, SOFTMAX, 64, 2, 2)
        for k in (0, 1):
            case(TEACH, rng.integers(-90, 90, 64).astype(np.int8).tobytes(), k)
        assert case(FIT, arg=0) and case(FIT, arg=1)
        np.frombuffer(case.blocks[1], "<i4", 64, 16)[:] *= -(1 << 12)
        assert not case(FIT, arg=2)


def test_prototypes_are_means_in_any_order(in_c: Op) -> None:
    """Sums do not depend on the order, and the class of an example is that of the nearest mean, but for rounding."""
    rng = np.random.default_rng(5)
    examples = _examples(rng, 64, 4, 50, 30)
    case, turned = Case(in_c, PROTOTYPE, 64, ALL, 4), Case(in_c, PROTOTYPE, 64, ALL, 4)
    case.fit(examples)
    turned.fit(examples[::-1])
    assert case.blocks == turned.blocks
    means = np.array([np.mean([np.frombuffer(x, np.int8) for x, k in examples if k == c], axis=0) for c in range(4)])
    weights = np.frombuffer(case.work, np.uint8, 64) / 16
    for x, _ in _examples(rng, 64, 4, 100, 60):
        best, _, margin = case.judge(x)
        far = ((np.frombuffer(x, np.int8) - means) ** 2) @ weights
        assert far[best] <= far.min() + 64 * 4
        limits = np.array([int.from_bytes(b[4:8], "little") / 16 for b in case.blocks])
        own = far / limits
        expected = 256 - 256 * own[best] - 128 * own[best] / np.delete(own, best).min()
        assert abs(margin - expected) < 4 + 256 * 80 / limits.min() + 0.02 * abs(expected)


def test_weights_and_limits_are_those_of_the_page(in_c: Op) -> None:
    """Both follow in float what SPEC says: numbers that vary little weigh more, and a label has a spread of its own."""
    rng = np.random.default_rng(11)
    means, wide = rng.integers(-60, 60, (3, 24)), np.array([1, 3, 2])
    x = [np.rint(rng.normal(means[k], wide[k] * np.linspace(1, 12, 24), (9 + k, 24))).clip(-128, 127) for k in range(3)]
    case = Case(in_c, PROTOTYPE, 24, ALL, 3, 48)
    case.fit([(one.astype(np.int8).tobytes(), k) for k, rows in enumerate(x) for one in rows])
    n, free = np.array([len(rows) for rows in x]), sum(len(rows) - 1 for rows in x)
    apart = np.stack([((rows - rows.mean(0)) ** 2).sum(0) for rows in x])
    inverse = 1 / (apart.sum(0) + 3 * apart.sum() / free / 24)
    weights = inverse / inverse.mean()
    assert (
        np.abs(np.frombuffer(case.work, np.uint8, 24) / 16 - weights).max() < 0.1 and weights.max() > 3 * weights.min()
    )
    gap = min(((x[j].mean(0) - x[k].mean(0)) ** 2) @ weights for j in range(3) for k in range(j))
    scatter = apart @ weights
    spread = (scatter + 4 * (scatter.sum() + 5 / 32 * gap) / (free + 1)) / (n + 3)
    limits = [int.from_bytes(b[4:8], "little") / 16 for b in case.blocks]
    assert np.allclose(limits, 3 * spread * (1 + 1 / n), rtol=0.02) and max(limits) > 2 * min(limits)


def test_one_example_of_each_label_has_a_limit(in_c: Op) -> None:
    """The limit is a share of the distance to the other label; one label of one example has none."""
    case = Case(in_c, PROTOTYPE, 7, ALL, 2, 48)
    case.fit([(bytes([100] * 7), 0), (bytes([20] * 7), 1)])
    assert (
        case.judge(bytes([100] * 7))[2] == 256 and case.judge(bytes([156] * 7))[2] < 0 < case.judge(bytes([90] * 7))[2]
    )
    alone = Case(in_c, PROTOTYPE, 7, ALL, 1, 48)
    alone.fit([(bytes([100] * 7), 0)])
    assert alone.blocks[0][4:8] == bytes(4) and alone.judge(bytes(7))[2] == 0


@pytest.mark.parametrize("keep", [1, 2, 3, 10])
def test_sums_fade(keep: int, in_c: Op) -> None:
    """A prototype stands for 2 * keep examples at most, in C as in numpy; the rest are sums that examples may have."""
    rng = np.random.default_rng(keep)
    cases = [Case(op, PROTOTYPE, 5, keep, 1, 48) for op in (learning.learn, in_c)]
    for n in range(1, 100):
        x = rng.integers(-128, 128, 5).astype(np.int8).tobytes()
        for case in cases:
            case(TEACH, x)
        assert cases[0].blocks == cases[1].blocks
        count, row = int.from_bytes(cases[0].blocks[0][:4], "little"), np.frombuffer(cases[0].blocks[0], "<i4", -1, 16)
        assert count == n if n <= 2 * keep else keep < count <= 2 * keep
        assert (row[:5].astype(int) ** 2 <= count * row[5:].astype(int)).all() and row[5:].max() <= count * 128**2
    for _ in range(10 * keep + 20):  # all that was there before fades
        for case in cases:
            case(TEACH, bytes([100] * 5))
    assert cases[0].blocks == cases[1].blocks and np.abs(row[:5] / int(cases[0].blocks[0][0]) - 100).max() < 4 / keep


def test_a_label_of_few_examples_weighs_as_much(in_c: Op) -> None:
    """One example of softmax against fifty of another label: it is found as often."""
    rng, found = np.random.default_rng(2), []
    for _ in range(4):
        means = rng.normal(0, 20, (2, 16))
        one = [np.rint(rng.normal(means[k], 18)).clip(-128, 127).astype(np.int8).tobytes() for k in [0] * 50 + [1] * 21]
        case = Case(in_c, SOFTMAX, 16, 50, 2)
        case.fit([(x, int(i == 50)) for i, x in enumerate(one[:51])])
        found += [case.judge(x)[0] for x in one[51:]]
    assert np.mean(found) > 0.6


def test_limit_of_alarms(in_c: Op) -> None:
    """Of distances whose tail falls off as an exponential, one in N lies beyond the limit."""
    rng = np.random.default_rng(7)
    pairs, mean = 200, 12
    x = np.zeros((2 * pairs, pairs + 1), np.int8)  # pairs that are far from each other
    x[np.arange(2 * pairs), np.arange(2 * pairs) // 2] = 127
    x[1::2, pairs] = np.clip(rng.exponential(mean, pairs), 1, 127)
    for one_in in (10, 100, 1000):
        case = Case(in_c, ANOMALY, pairs + 1, 2 * pairs, 1, one_in)
        case.fit([(row.tobytes(), 0) for row in x])
        limit = int.from_bytes(case.blocks[0][4:8], "little") / np.frombuffer(case.work, np.uint8)[pairs]
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
