"""Heads that learn, in integers, beside heads in float and scikit-learn's: accuracy on data that a user can get.

Draws are fixed by a seed; MICA_TEST_ALL=1 takes more of them. Without ../shared the words and the machines are skipped.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import few_shot_data as sets
import numpy as np
import pytest
from few_shot_data import Data

from mica.learn import Head
from mica.run.evaluation import auc

DRAWS = 6 if not os.environ.get("MICA_TEST_ALL") else 40
SOFTMAX, PROTOTYPE = 0.015, 0.02  # what integers may cost against float
SHARED = pytest.mark.skipif(
    not sets.MODELS.is_dir(), reason="the reference models are not beside the project (../shared/models)"
)
MODEL = bytes(8)
Array = np.ndarray


@dataclass(frozen=True)
class Draw:
    """Places of examples that are taught, and of those that are judged, with their classes as 0, 1, ..."""

    taught: Array
    labels: Array
    judged: Array
    truth: Array


def draws(y: Array, classes: Array, ways: int, shots: int, n: int) -> Iterator[Draw]:
    rng = np.random.default_rng(1)
    for _ in range(n):
        parts = [rng.permutation(np.flatnonzero(y == c)) for c in rng.choice(classes, ways, replace=False)]
        judged = [p[shots : shots + 20] for p in parts]
        taught = np.concatenate([p[:shots] for p in parts])
        labels = np.repeat(np.arange(ways), shots)
        order = rng.permutation(len(taught))
        truth = np.repeat(np.arange(ways), [len(p) for p in judged])
        yield Draw(taught[order], labels[order], np.concatenate(judged), truth)


def by_head(kind: str, x: Array, d: Draw) -> float:
    head = Head(kind, x.shape[1], model=MODEL)
    for k, label in zip(d.taught, d.labels, strict=True):
        head.teach(x[k], str(label))
    return float(np.mean([int(head.closest(x[k])[0]) == t for k, t in zip(d.judged, d.truth, strict=True)]))


def by_float_means(x: Array, d: Draw) -> float:
    means = np.stack([x[d.taught[d.labels == k]].mean(0) for k in range(d.labels.max() + 1)])
    return float(np.mean(((x[d.judged][:, None] - means) ** 2).sum(2).argmin(1) == d.truth))


def by_float_softmax(x: Array, d: Draw, rate: float = 0.05, spread: float = 3.0) -> float:
    """Gradient descent, one example at a time, as often as the head goes through its own."""
    taught = x[d.taught].astype(np.float64)
    centre = taught.mean(0)
    scale = spread / np.sqrt(((taught - centre) ** 2).sum(1).mean())
    a, n = (taught - centre) * scale, len(taught)
    w, b = np.zeros((d.labels.max() + 1, x.shape[1])), np.zeros(d.labels.max() + 1)
    for _ in range(max(15, min(1500 // n, 60))):
        for one, label in zip(a, d.labels, strict=True):
            e = np.exp((o := w @ one + b) - o.max())
            g = e / e.sum() - (np.arange(len(b)) == label)
            w, b = w - rate * np.outer(g, one), b - rate * g
    return float(np.mean((((x[d.judged] - centre) * scale) @ w.T + b).argmax(1) == d.truth))


def figures(data: Data, classes: Array, ways: int, shots: int, n: int = DRAWS) -> dict[str, float]:
    """Mean accuracies, printed beside scikit-learn's where it is installed."""
    rows = []
    for d in draws(data.y, classes, ways, shots, n):
        row = {"prototype": by_head("prototype", data.whole, d), "softmax": by_head("softmax", data.whole, d)}
        row |= {"float prototype": by_float_means(data.real, d), "float softmax": by_float_softmax(data.real, d)}
        rows.append(row | _scikit_learn(data.real, d))
    found = {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
    print(f"{ways} classes, {shots} examples of each: " + ", ".join(f"{k} {v:.3f}" for k, v in found.items()))
    return found


def _scikit_learn(x: Array, d: Draw) -> dict[str, float]:
    if importlib.util.find_spec("sklearn") is None:
        return {}
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import NearestCentroid

    taught, judged = x[d.taught] / x[d.taught].std(), x[d.judged] / x[d.taught].std()
    with np.errstate(all="ignore"):
        return {
            type(m).__name__: float(m.fit(taught, d.labels).score(judged, d.truth))
            for m in (LogisticRegression(max_iter=300), NearestCentroid())
        }


def check(found: dict[str, float]) -> None:
    assert found["softmax"] >= found["float softmax"] - SOFTMAX, found
    assert found["prototype"] >= found["float prototype"] - PROTOTYPE, found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("few")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("classes", "ways", "least"), [("known", 5, 0.97), ("new", 4, 0.82), ("all", 10, 0.80)])
def test_digits_with_four_left_out(classes: str, ways: int, least: float, folder: Path) -> None:
    data = sets.digits(folder)
    known = np.array([k for k in range(10) if k not in data.new])
    found = figures(data, {"known": known, "new": np.array(data.new), "all": np.arange(10)}[classes], ways, 5)
    check(found)
    assert min(found["prototype"], found["softmax"]) >= least


@pytest.mark.filterwarnings("ignore")
def test_gestures_by_features_alone() -> None:
    found = figures(sets.gestures(), np.arange(3), 3, 5)
    check(found)
    assert found["prototype"] >= 0.92


def test_a_gesture_that_nobody_taught_is_unknown() -> None:
    """Two gestures are taught 5 times each, as teach.md does; the third is unknown, and the two are not.

    24 draws: .964 right and .048 taken; with loose=2.5 .933 and .022; by one spread for all labels .67 and .12.
    """
    data, found = sets.gestures(), []
    for d in draws(data.y, np.arange(3), 2, 5, 2 * DRAWS):
        head = Head("prototype", data.whole.shape[1], model=MODEL)
        for k, label in zip(d.taught, d.labels, strict=True):
            head.teach(data.whole[k], str(label))
        others = data.whole[~np.isin(data.y, data.y[d.taught])][:60]
        answers = [head.predict(data.whole[k]) for k in d.judged]
        right = [a is not None and int(a[0]) == t for a, t in zip(answers, d.truth, strict=True)]
        found.append((np.mean(right), np.mean([head.predict(x) is not None for x in others])))
    right_, taken = np.mean(found, axis=0)
    print(f"{right_:.3f} right, {taken:.3f} of the third taken")
    assert right_ >= 0.94 and taken <= 0.08


@SHARED
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("ways", "shots", "least"), [(2, 3, 0.95), (5, 5, 0.91), (10, 20, 0.91)])
def test_words_that_the_network_knows(ways: int, shots: int, least: float) -> None:
    found = figures(sets.words(), np.arange(10), ways, shots, DRAWS if ways < 10 else max(4, DRAWS // 4))
    check(found)
    assert min(found["prototype"], found["softmax"]) >= least


@SHARED
@pytest.mark.filterwarnings("ignore")
def test_words_that_the_network_never_saw() -> None:
    """micro_speech knows yes and no; its embedding holds little of other words, but integers lose nothing of that."""
    data = sets.new_words()
    found = figures(data, np.array(data.new), 2, 10, DRAWS // 2)
    check(found)
    assert found["softmax"] > 0.55  # chance is 0.5


@SHARED
@pytest.mark.parametrize(
    ("kind", "loose", "least", "most"),
    [("prototype", 2.75, 0.9, 0.07), ("softmax", 2.75, 0.88, 0.07), ("prototype", 2, 0.84, 0.04)],
)
def test_what_was_never_taught_is_unknown(kind: str, loose: float, least: float, most: float) -> None:
    """Of other words, silence and noise at most 5 % are taken for one of three words where 80 % of these are accepted.

    A head by itself accepts nine in ten and takes 7 %, since right answers that are lost are the dearer fault.
    loose=2 accepts as much as heads did before and takes 4 %.
    """
    data, noise = sets.words(), sets.noise()
    usual, strict = [], []
    for d in draws(data.y, np.arange(10), 3, 10, DRAWS):
        head = Head(kind, data.whole.shape[1], model=MODEL, loose=loose)
        for k, label in zip(d.taught, d.labels, strict=True):
            head.teach(data.whole[k], str(label))
        others = data.whole[~np.isin(data.y, data.y[d.taught])]
        margins = {
            name: np.array([head.closest(x)[2] for x in rows])
            for name, rows in (("taught", data.whole[d.judged]), ("others", others), ("noise", noise))
        }
        usual.append([float(np.mean(m >= 0)) for m in margins.values()])
        limit = np.quantile(margins["taught"], 0.2)
        strict.append([float(np.mean(margins[name] >= limit)) for name in ("others", "noise")])
    accepted, taken, of_noise = np.mean(usual, axis=0)
    print(f"{kind} {loose}: {accepted:.3f} accepted, {taken:.3f} of others and {of_noise:.3f} of noise taken")
    print(f"where 0.8 are accepted: {np.mean(strict, axis=0)[0]:.3f} and {np.mean(strict, axis=0)[1]:.3f} taken")
    assert np.mean(strict, axis=0).max() <= 0.05
    assert accepted >= least and max(taken, of_noise) <= most


@SHARED
def test_a_machine_that_sounds_odd(folder: Path) -> None:
    """The nearest of 20 normal recordings; all other recordings of the same four machines are judged."""
    data, machine = sets.machines(folder)
    found: dict[str, list[float]] = {"nearest": [], "float nearest": [], "LocalOutlierFactor": []}
    told: dict[int, list[float]] = {0: [], 1: []}
    for draw in range(max(DRAWS, 20)):  # fewer leave a point of chance
        rng = np.random.default_rng(draw)
        far: dict[str, list[Array]] = {name: [] for name in found}
        odd: list[Array] = []
        for m in np.unique(machine):
            normal = rng.permutation(np.flatnonzero((machine == m) & (data.y == 0)))
            judged = np.concatenate([normal[20:], np.flatnonzero((machine == m) & (data.y == 1))])
            head = Head("anomaly", data.whole.shape[1], model=MODEL)
            for k in normal[:20]:
                head.teach(data.whole[k], "normal")
            for name, x in (("nearest", data.whole.astype(int)), ("float nearest", data.real)):
                far[name].append(np.abs(x[judged][:, None] - x[normal[:20]]).sum(2).min(1))
            far["LocalOutlierFactor"].append(_outliers(data.real[normal[:20]], data.real[judged]))
            odd.append(data.y[judged])
            for k in judged[::4]:
                told[int(data.y[k])].append(head.predict(data.whole[k]) is None)
        for name, scores in far.items():
            found[name].append(auc(np.concatenate(scores), np.concatenate(odd)))
    means = {name: float(np.mean(values)) for name, values in found.items()}
    print("AUC: " + ", ".join(f"{k} {v:.3f}" for k, v in means.items()))
    print(f"alarms: {np.mean(told[1]):.3f} of odd ones, {np.mean(told[0]):.3f} of normal ones")
    assert means["nearest"] >= 0.86 and means["nearest"] >= means["float nearest"] - SOFTMAX
    assert np.mean(told[1]) > np.mean(told[0])


def test_faults_of_a_motor() -> None:
    """Imbalance, a bearing and a belt, as strong as few_shot_data.py has them: 85 % are found at 1 % false alarms.

    Six motors: .995, .81 and .93 found.
    """
    motors, found = sets.motors(), []
    for draw in range(3):
        order = np.random.default_rng(draw).permutation(len(motors[""]))
        head = Head("anomaly", motors[""].shape[1], model=MODEL, alarms=14.4, judged=1440)
        for k in order[:20]:
            head.teach(motors[""][k], "well")
        far = {fault: np.array([-head.closest(x)[2] for x in rows]) for fault, rows in motors.items()}
        well = far.pop("")[order[20:]]
        limit = np.quantile(well, 0.99)
        found.append([float(np.mean(well > 0)), *(np.mean(v > limit) for v in far.values())])
    false, *alarms = np.mean(found, axis=0)
    print(f"false alarms {false:.3f} where 0.01 are expected; found {dict(zip(far, alarms, strict=True))}")
    assert np.mean(alarms) >= 0.85 and min(alarms) >= 0.7
    assert false <= 0.04  # a limit from 20 recordings is a rough one


def _outliers(taught: Array, judged: Array) -> Array:
    if importlib.util.find_spec("sklearn") is None:
        return np.zeros(len(judged))
    from sklearn.neighbors import LocalOutlierFactor

    return -np.asarray(LocalOutlierFactor(n_neighbors=5, novelty=True).fit(taught).score_samples(judged))
