"""Heads on the host: the bytes of boards, against float heads, damaged states, and what is refused."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any
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
WIDTHS = (5, 7, 64)  # the first two fill no whole word
HEADER_BYTES = 36


class _Examples:
    """Those of tests/usermod/learner.py."""

    def __init__(self, width: int = 64) -> None:
        self.seed, self.width = 1, width

    def __call__(self, k: int, spread: int = 41) -> np.ndarray:
        x = np.zeros(self.width, np.int64)
        for i in range(self.width):
            self.seed = (self.seed * 4093 + 12289) & 0xFFFFF
            x[i] = (k * 37 + i * (53 + k)) % 121 - 60 + (self.seed >> 4) % spread - spread // 2
        return x.astype(np.int8)


def _taught(kind: str, example: _Examples, n: int = 1000, model: bytes = MODEL) -> Head:
    head = Head(kind, example.width, model=model)
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


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", KINDS)
def test_states(kind: str, width: int) -> None:
    head = _taught(kind, _Examples(width), 40)
    state = head.state()
    other = Head.from_state(state, model=MODEL)
    assert (other.kind, other.width, other.labels, other.counts) == (kind, width, list(LABELS), [8] * 5)
    x = _Examples(width)(1)
    assert other.state() == state and other.predict(x) == head.predict(x)
    other.teach(x, "sixth")
    other.forget("sixth")
    assert other.state() == state
    with pytest.raises(MicaError, match="another model"):
        Head.from_state(state, model=bytes(8))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", KINDS)
def test_damaged_states(kind: str, width: int) -> None:
    """Cut at every length, every byte changed, and fields at their edges under a right checksum: an error,
    or a head that works."""
    state = _taught(kind, _Examples(width), 12).state()
    for n in range(len(state)):
        with pytest.raises(MicaError):
            Head.from_state(state[:n])
        with pytest.raises(MicaError):
            Head.from_state(state[:n] + bytes([state[n] ^ 1 << n % 8]) + state[n + 1 :])
    rng = random.Random(5)
    kept = 0
    for _ in range(sampled(20000, 2000 if width == 64 else 600)):
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
        if head.labels and head.width == width and (kind != "softmax" or kept < 30):  # which learns slowly here
            head.teach(np.zeros(width, np.int8), head.labels[0])
            head.teach(np.zeros(width, np.int8), "new")
            head.teach(np.zeros(width, np.int8), "new")
            if kind != "anomaly":
                head.predict(np.zeros(width, np.int8))
            head.state()
    assert kept > 100


@pytest.mark.parametrize("width", WIDTHS)
def test_heads_add_up(width: int) -> None:
    """Two boards' prototypes, added, are the prototypes of one that was taught all; labels of one alone come along."""
    example = _Examples(width)
    whole, *parts = (Head("prototype", width, model=MODEL) for _ in range(3))
    for i in range(40):
        x, label = example(i % 5), LABELS[i % 5]
        whole.teach(x, label)
        parts[i // 5 % 2].teach(x, label)
    parts[1].teach(example(9), "ninth")
    parts[0].add(parts[1])
    parts[0].forget("ninth")
    assert parts[0].state() == whole.state()
    for other in (
        Head("softmax", width, model=MODEL),
        Head("prototype", width, model=bytes(8)),
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
    """The integer head finds as many as a float head of ordinary gradient descent, on labels that overlap;
    so do prototypes."""
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


@pytest.mark.parametrize(("shots", "far"), [(5, 0.15), (20, 0.1)])
def test_scores_of_softmax_are_shares_that_are_right(shots: int, far: float) -> None:
    """The mean score is near the share of right answers, by leaving examples out;
    without that it promises much more."""
    found = []
    for draw in range(3):
        rng = np.random.default_rng(draw)
        means, head = rng.normal(0, 8, (4, 24)), Head("softmax", 24, model=MODEL)
        for n in range(4 * shots):
            head.teach(np.clip(np.rint(rng.normal(means[n % 4], 25)), -128, 127).astype(np.int8), str(n % 4))
        judged = [np.clip(np.rint(rng.normal(means[n % 4], 25)), -128, 127).astype(np.int8) for n in range(200)]
        answers = [head.closest(x) for x in judged]
        head._count(16)
        right = [label == str(n % 4) for n, (label, _, _) in enumerate(answers)]
        found.append([np.mean(v) for v in (right, [a[1] for a in answers], [head.closest(x)[1] for x in judged])])
    right_, score, without = np.mean(found, axis=0)
    print(f"{shots} examples: {right_:.3f} right, score {score:.3f}, all of a logit {without:.3f}")
    assert abs(score - right_) < far and without > right_ + 0.15


@pytest.mark.parametrize("kind", KINDS)
def test_room_comes_with_examples(kind: str) -> None:
    """A label takes the room of its examples, of `keep` at most, taught or restored; a larger head loads as it is."""
    head = Head(kind, 7, model=MODEL, keep=1024 if kind != "prototype" else None)
    for n in range(1, 1040):
        head.teach(np.full(7, n % 100, np.int8), "a")
        (block,) = head._learnt[1]
        assert (
            len(block)
            == head._bytes(head._numbers, n)
            == 16
            + 28 * (kind == "softmax")
            + 56 * (kind == "prototype")
            + (-(-7 * min(n, 1024) // 4) * 4 if kind != "prototype" else 0)
        )
        if n in (1, 5, 1023, 1024, 1030):
            again = Head.from_state(head.state())
            assert [len(b) for b in again._learnt[1]] == [len(block)] and again.state() == head.state()
            again.teach(np.ones(7, np.int8), "a")
            assert again.counts == [n + 1]
    wide = Head(kind, 4096, model=MODEL, keep=1024)
    for k in range(64):
        wide.teach(np.full(4096, k, np.int8), str(k))
    assert sum(map(len, Head.from_state(wide.state())._learnt[1])) < 64 * 33_000


@pytest.mark.parametrize("line", (Path(__file__).parent / "heads_of_version_1.txt").read_text().splitlines())
def test_heads_of_version_1_load(line: str) -> None:
    """A prototype's scatter is spread evenly over its numbers, which weigh the same; others are as if taught now."""
    kind, state = line.split()
    head, now = Head.from_state(bytes.fromhex(state)), Head(kind, 5, model=bytes(8))
    for n in range(12):
        x = np.array([n % 3 * 70 + i * 11 + n * n % 7 for i in range(5)]).astype(np.uint8).view(np.int8)
        now.teach(x, ("a", "bcd", "ef")[n % 3])
    assert (head.kind, head.labels, head.counts) == (kind, now.labels, now.counts) and head.predict(x) is not None
    if kind == "prototype":
        assert set(bytes(head._work[:5])) == {16} and head.predict(x)[0] == now.predict(x)[0]
    else:
        assert head.state() == now.state()
    assert Head.from_state(head.state()).state() == head.state()
    damaged = bytearray.fromhex(state)
    damaged[16 + 36 :] = bytes(len(damaged) - 52)
    struct.pack_into("<I", damaged, 4, crc32(damaged[8:]))
    with pytest.raises(MicaError, match="damaged"):
        Head.from_state(bytes(damaged))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [5, 7, 64])
def test_a_report(kind: str, width: int) -> None:
    """Two labels that are alike are less than a limit apart, a third is far; nothing that is judged depends on it."""
    rng = np.random.default_rng(width)
    means = {"a": np.full(width, 20), "b": np.full(width, 24), "c": np.full(width, -70)}
    head = Head(kind, width, model=MODEL)
    assert head.report() == []
    for n in range(24):
        label = "abc"[n % 3]
        head.teach(np.rint(rng.normal(means[label], 6)).astype(np.int8), label)
    state, rows = head.state(), {row[0]: row for row in head.report()}
    assert [row[1] for row in rows.values()] == [8, 8, 8] and head.state() == state
    assert rows["a"][3] == "b" and rows["b"][3] == "a" and max(rows["a"][4], rows["b"][4]) < 1 < rows["c"][4]
    if kind != "anomaly":
        assert all(0.5 < row[2] / (6 * width**0.5) < 2 for row in rows.values())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [5, 7, 64])
@pytest.mark.parametrize("shots", [1, 2, 3])
@pytest.mark.parametrize("repeated", ["all", "a"])
def test_repeats_say_no_more(kind: str, width: int, shots: int, repeated: str) -> None:
    """After a file was taught five times limits are those of one time: of all labels, or of one."""
    rng, names = np.random.default_rng(width), ("a", "b") if kind != "anomaly" else ("a",)
    x = {label: np.rint(rng.normal(40 - 80 * k, 9, (4, width))).astype(np.int8) for k, label in enumerate(names)}
    once, often = (Head(kind, width, model=MODEL) for _ in range(2))
    for label in names:
        again = repeated in ("all", label)
        for one in x[label][: shots if again else 4]:
            once.teach(one, label)
        for _ in range(5 if again else 1):
            for one in x[label][: shots if again else 4]:
                often.teach(one, label)
    heads = [Head.from_state(head.state()) for head in (once, often)]
    limits = [[block[4:8] for block in head._learnt[1]] for head in heads]
    assert limits[0] == limits[1] and heads[0]._work[:width] == heads[1]._work[:width]
    if kind == "anomaly" and shots == 1:
        for head in heads:
            with pytest.raises(MicaError, match="one recording says nothing"):
                head.predict(x["a"][3])
    elif kind == "prototype":
        # A state of an older mica has no bits: each of its examples counts.
        old = bytearray(heads[1].state())
        for block in heads[1]._learnt[1]:
            at = old.index(bytes(block))
            old[at + 8 : at + 12] = bytes(4)
        struct.pack_into("<I", old, 4, crc32(old[8:]))
        loaded = Head.from_state(bytes(old))
        assert loaded.counts == often.counts and all(b[8:12] == b"\xff" * 4 for b in loaded._learnt[1])
        assert Head.from_state(loaded.state()).state() == loaded.state()


def test_a_prototype_follows_a_drift() -> None:
    """A drift of three spreads over 400 examples, every fourth taught again: most are known with keep=, few without."""
    found = {}
    for keep in (10, None):
        rng, head, known = np.random.default_rng(4), Head("prototype", 32, model=MODEL, keep=keep), []
        means, way = rng.normal(0, 40, (5, 32)), rng.normal(0, 1, (5, 32))
        way *= 3 * 10 * 32**0.5 / np.linalg.norm(way, axis=1, keepdims=True)  # spreads of 10 in each number
        for n in range(900):
            k, late = n % 5, max(0, n - 500) / 400
            x = np.clip(np.rint(rng.normal(means[k] + late * way[k], 10)), -128, 127).astype(np.int8)
            answer = head.predict(x) if n >= 800 else None
            known += [answer is not None and answer[0] == str(k)] if n >= 800 else []
            if n < 500 or n // 5 % 4 == 0:
                head.teach(x, str(k))
        found[keep] = float(np.mean(known))
    print(found)
    assert found[10] >= 0.6 and found[None] < found[10] - 0.2


def test_a_wide_label_keeps_its_answers() -> None:
    """Beside narrow labels at 1.5 of its radius most examples of a wide one are known, and places between are not."""
    found = []
    for draw in range(8):
        rng = np.random.default_rng(draw)
        way = rng.normal(0, 1, 32)
        means = {"wide": 0 * way, "one": way * 18 * 32**0.5 / np.linalg.norm(way)}
        means["other"] = -means["one"]
        head, spreads = Head("prototype", 32, model=MODEL), {"wide": 12, "one": 4, "other": 4}

        def some(label: str, rng: Any = rng, means: Any = means, spreads: Any = spreads) -> np.ndarray:
            return np.clip(np.rint(rng.normal(means[label], spreads[label])), -128, 127).astype(np.int8)

        for _ in range(10):
            for label in means:
                head.teach(some(label), label)
        answers = [head.predict(some(label)) for label in means for _ in range(30)]
        right = [a is not None and a[0] == label for a, label in zip(answers, np.repeat(list(means), 30), strict=True)]
        between = head.predict(np.rint(means["one"] * 0.6).astype(np.int8))
        found.append((np.mean(right[:30]), np.mean(right[30:]), between is None))
    print(np.mean(found, axis=0))
    assert (np.mean(found, axis=0) >= (0.93, 0.97, 0.7)).all()


def test_who_drifts_is_found() -> None:
    """The labels whose new examples lie beyond the limits of the sum; heads that forget have no sum."""
    rng = np.random.default_rng(0)

    def head(shift: int, **settings: int) -> Head:
        made = Head("prototype", 32, model=MODEL, **settings)
        for n in range(20):
            mean = (60, -60)[n % 2] + shift * (n % 2)
            made.teach(np.rint(rng.normal(mean, 8, 32)).astype(np.int8), "ab"[n % 2])
        return made

    boards = [head(0), head(1), head(60)]
    total = Head.from_state(boards[0].state())
    for board in boards[1:]:
        total.add(board)
    assert [total.strange(board) for board in boards] == [[], [], ["b"]]
    assert head(0).strange(head(0)) == []
    for one, other in ((head(0), head(0, keep=5)), (head(0, keep=5), head(0))):
        with pytest.raises(MicaError, match="forgets"):
            one.add(other)


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
