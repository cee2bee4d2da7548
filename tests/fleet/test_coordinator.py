"""A fleet of threads: boards that fail, lie, hang or are not there, and the answers are those of one engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from mica.errors import MicaError
from mica.run.host import HostRunner
from mica.run.runner import Inputs, Runner
from mica_fleet.coordinator import FleetRunner
from mica_fleet.dispatch import Settings
from mica_fleet.links import Events, Link, RunnerLink

QUICK = Settings(least_lease=0.2)


class Trouble(HostRunner):
    """A board on this computer; `each` is called before every run, with how many there were, and may raise."""

    def __init__(self, data: bytes, each: Callable[[int], None], lie: bool = False) -> None:
        super().__init__(data)
        self.each, self.lie, self.runs = each, lie, 0

    def run(self, samples: Sequence[Inputs]) -> list[list[np.ndarray]]:
        self.runs += 1
        self.each(self.runs)
        results = super().run(samples)
        if self.lie:
            results[0][0] = results[0][0] ^ np.int8(1)
        return results


def sound(n: int) -> None:
    time.sleep(0.001)


def dies(n: int) -> None:
    if n % 7 == 0:
        raise MicaError("the connection broke")


def hangs(n: int) -> None:
    if n == 3:
        time.sleep(1.0)


@pytest.fixture(scope="module")
def model(small_model: bytes) -> bytes:
    return small_model


@pytest.fixture(scope="module")
def small_model() -> bytes:
    from usermod_models import small  # type: ignore[import-not-found]

    from mica.file.codec import encode

    return bytes(encode(small()))


def fleet(
    model: bytes, boards: dict[str, Callable[[], Runner]], said: list[str] | None = None, settings: Settings = QUICK
) -> FleetRunner:
    def links(events: Events) -> list[Link]:
        return [RunnerLink(name, open_it, events, retry=0.02) for name, open_it in boards.items()]

    return FleetRunner(model, "fleet:test", links, (said if said is not None else []).append, settings)


def samples(model: bytes, n: int) -> list[Inputs]:
    rng = np.random.default_rng(0)
    with HostRunner(model) as host:
        dims = [host.model.tensors[t].dims for t in host.model.inputs]
    return [[rng.integers(-128, 128, d).astype(np.int8) for d in dims] for _ in range(n)]


def outputs(runner: Runner, xs: list[Inputs]) -> list[list[bytes]]:
    return [[y.tobytes() for y in ys] for ys in runner.run(xs)]


def test_boards_that_die_hang_and_lie_lose_nothing(model: bytes) -> None:
    xs = samples(model, 200)
    with HostRunner(model) as host:
        right = outputs(host, xs)
    said: list[str] = []
    boards: dict[str, Callable[[], Runner]] = {
        "sound": lambda: Trouble(model, sound),
        "dies": lambda: Trouble(model, dies),
        "hangs": lambda: Trouble(model, hangs),
        "lies": lambda: Trouble(model, sound, lie=True),
    }
    with fleet(model, boards, said) as runner:
        assert outputs(runner, xs) == right
        assert outputs(runner, xs[:5]) == right[:5]  # a second job

        def all_said() -> bool:
            is_found = any(line.startswith("lies answered wrongly and is in quarantine") for line in said)
            return is_found and "dies is lost: the connection broke" in said and "dies is back" in said

        for _ in range(50):  # a board's thread that begins late has its share of a later job
            if all_said():
                break
            assert outputs(runner, xs) == right
    assert all_said(), said


def test_a_board_that_cannot_be_reached_is_named_once_and_the_others_work(model: bytes) -> None:
    def nowhere() -> Runner:
        raise MicaError("no such port")

    said: list[str] = []
    xs = samples(model, 20)
    with fleet(model, {"a": lambda: Trouble(model, sound), "b": nowhere}, said) as runner:
        assert len(runner.run(xs)) == 20
        for _ in range(100):  # until b has been tried
            time.sleep(0.1)
            runner.run(xs[:1])
            if said:
                break
        time.sleep(0.1)
        runner.run(xs[:1])
    assert said.count("b cannot be reached: no such port") == 1


def test_a_fleet_of_liars_and_one_of_nobody_say_so(model: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    xs = samples(model, 20)
    with (
        fleet(model, {"a": lambda: Trouble(model, sound, lie=True)}) as runner,
        pytest.raises(MicaError, match=r"every board is in quarantine: a answered wrongly"),
    ):
        runner.run(xs)

    def nowhere() -> Runner:
        raise MicaError("no such port")

    monkeypatch.setattr("mica_fleet.coordinator._PATIENCE", 1.5)
    monkeypatch.setattr("mica_fleet.coordinator._QUIET", 0.1)
    said: list[str] = []
    with (
        fleet(model, {"a": nowhere}, said) as runner,
        pytest.raises(MicaError, match=r"fleet:test: nothing for \d+ s \(a: no such port\)"),
    ):
        runner.run(xs)
    assert said.count("no board of fleet:test is up yet; waiting up to 2 s") == 1, said


def test_a_sample_that_no_board_can_run_is_named(model: bytes) -> None:
    xs = samples(model, 3)
    xs[1] = [np.zeros(3, np.int8)]
    with (
        fleet(model, {"a": lambda: Trouble(model, sound)}) as runner,
        pytest.raises(MicaError, match=r"sample 1 was given up: a: 3 bytes of inputs; the model takes \d+"),
    ):
        runner.run(xs)


def test_a_model_with_state_is_refused() -> None:
    from usermod_models import golden_state

    from mica.file.codec import encode

    with pytest.raises(MicaError, match="with state"):
        fleet(bytes(encode(golden_state())), {})
