"""Heads on the host: the bytes of boards, against float heads, damaged states, and what is refused."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from targets import sampled
from usermod_models import build

from mica.errors import MicaError
from mica.learn import KINDS, Head, digest

USERMOD = Path(__file__).resolve().parents[1] / "usermod"
LABELS = ("left", "right", "up", "down", "none")
MODEL = bytes(range(8))
HEADER_BYTES = 36


class _Examples:
    """Those of tests/usermod/learner.py."""

    def __init__(self) -> None:
        self.seed = 1

    def __call__(self, k: int, spread: int = 41) -> np.ndarray:
        x = np.zeros(64, np.int64)
        for i in range(64):
            self.seed = (self.seed * 4093 + 12289) & 0xFFFFF
            x[i] = (k * 37 + i * (53 + k)) % 121 - 60 + (self.seed >> 4) % spread - spread // 2
        return x.astype(np.int8)


def _taught(kind: str, example: _Examples, n: int = 1000, model: bytes = MODEL) -> Head:
    head = Head(kind, 64, model=model)
    for i in range(n):
        head.teach(example(i % 5), LABELS[i % 5])
    return head


def test_boards_give_the_same_bytes() -> None:
    """The host computes the lengths, checksums and answers of learner.exp from the same examples."""

    lines = (USERMOD / "learner.exp").read_text().splitlines()
    example, model = _Examples(), digest(build()["embedding"])
    for j, kind in enumerate(KINDS):
        head = _taught(kind, example, model=model)
        state = head.state()
        right = unknown = 0
        for n in range(50):
            found = head.predict(example(n % 5))
            right += found is not None and found[0] == LABELS[n % 5]
            unknown += head.predict(example(7 + n)) is None
        closest = head.closest(example(3))
        said = lines[3 * j].split(" ", 3)
        assert said[:3] == [kind, str(len(state)), str(crc32(state))]
        assert said[3] == f"{head.counts} {right} {unknown} {closest[0]} {closest[1] * 256} {closest[2] * 256}"
        head.forget("up")
        assert lines[3 * j + 1].endswith(f"> {crc32(head.state())}")
        assert right == 50 and unknown >= 45


def test_boards_give_the_same_bytes_at_any_width() -> None:
    """learner_widths.exp: embeddings of 5 and 7 numbers, which are padded to whole words in a state."""
    lines = []
    for width in (5, 7):
        model = digest(build()[f"narrow{width}"])
        for kind in KINDS:
            head = Head(kind, width, model=model)
            for n in range(40):
                x = np.array([n % 3 * 70 + i * 11 + n for i in range(width)], np.int64).astype(np.uint8).view(np.int8)
                head.teach(x, ("a", "bcd", "ef")[n % 3])
            state = head.state()
            assert Head.from_state(state, model=model).state() == state
            lines.append(f"{width} {kind} {len(state)} {crc32(state)} True")
    assert (USERMOD / "learner_widths.exp").read_text().splitlines() == lines


@pytest.mark.parametrize("kind", KINDS)
def test_states(kind: str) -> None:
    head = _taught(kind, _Examples(), 40)
    state = head.state()
    other = Head.from_state(state, model=MODEL)
    assert (other.kind, other.width, other.labels, other.counts) == (kind, 64, list(LABELS), [8] * 5)
    x = _Examples()(1)
    assert other.state() == state and other.predict(x) == head.predict(x)
    other.teach(x, "sixth")
    other.forget("sixth")
    assert other.state() == state
    with pytest.raises(MicaError, match="another model"):
        Head.from_state(state, model=bytes(8))


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_states(kind: str) -> None:
    """Cut at every length, every byte changed, and fields at their edges under a right checksum: an error, or a head that works."""
    state = _taught(kind, _Examples(), 12).state()
    for n in range(len(state)):
        with pytest.raises(MicaError):
            Head.from_state(state[:n])
        with pytest.raises(MicaError):
            Head.from_state(state[:n] + bytes([state[n] ^ 1 << n % 8]) + state[n + 1 :])
    rng = random.Random(5)
    kept = 0
    for _ in range(sampled(20000, 2000)):
        data = bytearray(state)
        for _ in range(rng.choice((1, 1, 2, 5))):
            at = rng.randrange(8, min(len(data), rng.choice((HEADER_BYTES, HEADER_BYTES + 40, len(data)))))
            data[at] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
        if rng.random() < 0.3:
            data = data[: rng.randrange(HEADER_BYTES, len(data) + 1)] + bytes(rng.randrange(9))
            struct.pack_into("<I", data, 8, len(data))
        struct.pack_into("<I", data, 4, crc32(data[8:]))
        try:
            head = Head.from_state(bytes(data))
        except MicaError:
            continue
        kept += 1
        if head.labels and head.width == 64 and (kind != "softmax" or kept < 30):  # which learns slowly here
            head.teach(np.zeros(64, np.int8), head.labels[0])
            head.teach(np.zeros(64, np.int8), "new")
            head.teach(np.zeros(64, np.int8), "new")
            if kind != "anomaly":
                head.predict(np.zeros(64, np.int8))
            head.state()
    assert kept > 100


def test_heads_add_up() -> None:
    """Two boards' prototypes, added, are the prototypes of one that was taught all; labels of one alone come along."""
    example = _Examples()
    whole, parts = Head("prototype", 64, model=MODEL), [Head("prototype", 64, model=MODEL) for _ in range(2)]
    for i in range(40):
        x, label = example(i % 5), LABELS[i % 5]
        whole.teach(x, label)
        parts[i // 5 % 2].teach(x, label)
    parts[1].teach(example(9), "ninth")
    parts[0].add(parts[1])
    parts[0].forget("ninth")
    assert parts[0].state() == whole.state()
    for other in (
        Head("softmax", 64, model=MODEL),
        Head("prototype", 64, model=bytes(8)),
        Head("prototype", 3, model=MODEL),
    ):
        with pytest.raises(MicaError, match="only prototypes"):
            whole.add(other)


def _float_head(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    weights = np.zeros((x.shape[1], 5))
    for _ in range(500):
        o = np.exp(x @ weights)
        weights -= 0.05 * (x.T @ (o / o.sum(1, keepdims=True) - np.eye(5)[y]) / 10 + 0.1 * weights)
    return weights


def test_softmax_against_float() -> None:
    """The integer head finds as many as a float head of ordinary gradient descent, on labels that overlap; so do prototypes."""
    rng = np.random.default_rng(3)
    right = np.zeros(3)
    for size in (8, 40, 100):
        means = rng.normal(0, size / 2.5, (5, 64))
        x, y = [], []
        for i in range(600):
            x.append(np.clip(means[i % 5] + rng.normal(0, size, 64), -128, 127).astype(np.int8))
            y.append(LABELS[i % 5])
        heads = [Head(kind, 64, model=MODEL) for kind in ("softmax", "prototype")]
        for head in heads:
            for a, b in zip(x[:100], y[:100], strict=True):
                head.teach(a, b)
        weights = _float_head(np.array(x[:100]) / size, np.arange(100) % 5)
        guesses = [[head.closest(a)[0] for a in x[100:]] for head in heads]
        guesses.append([LABELS[k] for k in (np.array(x[100:]) / size @ weights).argmax(1)])
        right += [np.mean([a == b for a, b in zip(g, y[100:], strict=True)]) for g in guesses]
    softmax, prototype, float_ = right / 3
    assert 0.7 < float_ < 0.99 and softmax > float_ - 0.015 and prototype > float_ - 0.02


@pytest.mark.parametrize("kind", KINDS)
def test_room_comes_with_examples(kind: str) -> None:
    """A label takes the room of its examples, of `keep` at most, taught or restored; a larger head loads as it is."""
    head = Head(kind, 7, model=MODEL, keep=1024)
    for n in range(1, 1040):
        head.teach(np.full(7, n % 100, np.int8), "a")
        (block,) = head._learnt[1]
        assert (
            len(block)
            == head._bytes(head._numbers, n)
            == 16 + 28 * (kind != "anomaly") + (-(-7 * min(n, 1024) // 4) * 4 if kind != "prototype" else 0)
        )
        if n in (1, 5, 1023, 1024, 1030):
            again = Head.from_state(head.state())
            assert [len(b) for b in again._learnt[1]] == [len(block)] and again.state() == head.state()
            again.teach(np.ones(7, np.int8), "a")
            assert again.counts == [n + 1]
    wide = Head(kind, 4096, model=MODEL, keep=1024)
    for k in range(64):
        wide.teach(np.full(4096, k, np.int8), str(k))
    assert sum(map(len, Head.from_state(wide.state())._learnt[1])) < 64 * 21_000


def test_what_is_refused() -> None:
    head = Head("prototype", 4, model=MODEL)
    x = np.zeros(4, np.int8)
    with pytest.raises(MicaError, match="taught nothing yet"):
        head.predict(x)
    for bad in (np.zeros(3, np.int8), np.zeros(4), [1, 2, 3, 4]):
        with pytest.raises(MicaError, match="an embedding of"):
            head.teach(bad, "a")
    for label in ("", "a\n", "é" * 32, 5):
        with pytest.raises(MicaError, match="label"):
            head.teach(x, label)  # type: ignore[arg-type]
    with pytest.raises(MicaError, match="was not taught; there are none"):
        head.forget("a")
    for i in range(64):
        head.teach(x, str(i))
    with pytest.raises(MicaError, match="one too many"):
        head.teach(x, "64")
    alarm = Head("anomaly", 4, model=MODEL)
    alarm.teach(x, "fan")
    with pytest.raises(MicaError, match="one recording says nothing"):
        alarm.predict(x)
    for kind, more in (
        ("svm", {}),
        ("softmax", {"keep": 0}),
        ("softmax", {"loose": 0}),
        ("anomaly", {"alarms": 0}),
        ("anomaly", {"judged": -1}),
        ("prototype", {"loose": float("inf")}),
    ):
        with pytest.raises(MicaError):
            Head(kind, 4, model=MODEL, **more)  # type: ignore[arg-type]


def test_the_table_of_memory_is_true() -> None:
    """teach.md says what a label takes of each kind."""
    page = (Path(__file__).resolve().parents[2] / "host_tools" / "docs" / "teach.md").read_text()
    for kind in range(3):
        sizes = [Head._bytes(None, (kind, width, 20), 20) for width in (64, 256)]  # type: ignore[arg-type]
        assert f"| {sizes[0]:,} and {sizes[1]:,} bytes |" in page
