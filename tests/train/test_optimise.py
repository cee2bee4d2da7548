"""The loop: what it learns, that a run that was stopped goes on to the same network, and Ctrl-C."""

from __future__ import annotations

import signal
from pathlib import Path

import numpy as np
import pytest

from mica.training.families import Plan
from mica.training.layers import Network
from mica.training.optimise import LATEST, Settings, Training
from mica.training.saved import Saved, Stop, fingerprint

SETTINGS = Settings(steps=120, seed=3)


def _network() -> Network:
    return Plan("dense", (8,)).build(np.random.default_rng(0), (2,), 2, np.zeros(2), np.ones(2))


def _rings(rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Points within a circle, and without: no line parts them."""
    x = rng.standard_normal((size, 2)).astype(np.float32)
    return x, ((x**2).sum(axis=1) > 1.2).astype(np.int64)


def test_it_learns() -> None:
    training = Training(_network(), Settings(steps=600))
    training.run(_rings, 600)
    x, y = _rings(np.random.default_rng(9), 500)
    assert np.mean(training.network.probabilities(x).argmax(axis=1) == y) > 0.93
    history = training.history()
    assert history[-1][0] == 600 and history[-1][1] < history[0][1] / 2


def test_what_is_easy_ends_early() -> None:
    def easy(rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
        y = rng.integers(0, 2, size)
        return np.repeat((y * 20.0 - 10)[:, None], 2, axis=1).astype(np.float32), y

    training = Training(_network(), Settings(steps=1000))
    training.run(easy, 1000)
    assert training.done == 500 + LATEST


@pytest.mark.parametrize("stopped", [1, 49, 50, 119])
def test_it_goes_on_to_the_same_network(tmp_path: Path, stopped: int) -> None:
    whole = Training(_network(), SETTINGS)
    whole.run(_rings, 120)
    first = Saved(tmp_path / "s", "key")
    first.add("a", Training(_network(), SETTINGS)).run(_rings, 120, lambda t: t.done < stopped)
    first.write()
    second = Saved(tmp_path / "s", "key")
    again = second.add("a", Training(_network(), SETTINGS))
    assert second.goes_on and again.done == stopped
    again.run(_rings, 120)
    for name, array in whole.network.arrays().items():
        assert np.array_equal(array, again.network.arrays()[name])
    second.forget()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("damage", ["other key", "cut", "empty", "text"])
def test_a_file_of_another_run_is_not_taken(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "s"
    saved = Saved(path, fingerprint(np.arange(3), "a"))
    saved.add("a", Training(_network(), SETTINGS)).run(_rings, 5)
    saved.write()
    data = path.read_bytes()
    path.write_bytes({"cut": data[: len(data) // 2], "empty": b"", "text": b"hello"}.get(damage, data))
    other = fingerprint(np.arange(3), "b") if damage == "other key" else fingerprint(np.arange(3), "a")
    assert not Saved(path, other).goes_on


def test_names_with_one_beginning_are_kept_apart(tmp_path: Path) -> None:
    first = Saved(tmp_path / "s", "key")
    for name, steps in (("1", 3), ("11", 7)):
        first.add(name, Training(_network(), SETTINGS)).run(_rings, steps)
    first.write()
    second = Saved(tmp_path / "s", "key")
    assert [second.add(name, Training(_network(), SETTINGS)).done for name in ("11", "1")] == [7, 3]


def test_what_was_not_begun_again_is_not_lost(tmp_path: Path) -> None:
    """A second run that is stopped in its first candidate leaves what the first run knew of the others."""
    first = Saved(tmp_path / "s", "key")
    for name in ("0", "final 0"):
        first.add(name, Training(_network(), SETTINGS)).run(_rings, 5)
    first.write()
    second = Saved(tmp_path / "s", "key")
    second.add("0", Training(_network(), SETTINGS)).run(_rings, 8)
    second.write()
    third = Saved(tmp_path / "s", "key")
    assert [third.add(name, Training(_network(), SETTINGS)).done for name in ("0", "final 0")] == [8, 5]


def test_ctrl_c_ends_between_two_steps() -> None:
    training = Training(_network(), SETTINGS)
    before = signal.getsignal(signal.SIGINT)

    def batch(rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
        if training.done == 10:
            signal.raise_signal(signal.SIGINT)
        return _rings(rng, size)

    with Stop().listening() as stop:
        training.run(batch, 120, lambda _: not stop.stopped)
    assert training.done == 11 and signal.getsignal(signal.SIGINT) is before


def test_a_second_ctrl_c_ends_all() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # nohup has it ignored
    try:
        with pytest.raises(KeyboardInterrupt), Stop().listening():
            for _ in range(2):
                signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
