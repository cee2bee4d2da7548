"""Contracts: of random ones over six boards none is broken by a pick, and what cannot be kept is said in one line."""

from __future__ import annotations

import functools
import re
from types import SimpleNamespace

import numpy as np
import pytest
from targets import ALL, PICO, PICO2, nightly

from mica.boards import load_board
from mica.errors import Unsupported
from mica.run.host import open_runner
from mica.training import families, onnx_file, search
from mica.training.families import Model
from mica.training.forest import Forest
from mica.training.search import Candidate, Contract

BOARDS = ("RPI_PICO", "RPI_PICO2", "RPI_PICO2_RISCV", "SEEED_XIAO_RP2350", "MPS2_AN385", "VIRT_RV32")
SHAPES = {"motion": (40, 3), "table": (5,), **({"picture": (48, 48, 3), "sound": (49, 20)} if ALL else {})}
LABELS = ("a", "b", "c")
CONTRACTS = 200


def _model(kind: str, plan: families.Plan) -> Model:
    shape = SHAPES[kind]
    rng = np.random.default_rng(0)
    if plan.family == "forest":
        return Forest.grown(rng.standard_normal((60, *shape)), rng.integers(0, 3, 60), 3, plan.sizes, 0)
    return plan.build(rng, shape, 3, np.zeros(1), np.ones(1))


@functools.cache
def _samples(kind: str) -> np.ndarray:
    shape = {"sound": (15840,), "picture": (3, 48, 48)}.get(kind, SHAPES[kind])
    x = np.random.default_rng(1).standard_normal((8, *shape))
    return (x * 4000).astype(np.int16) if kind == "sound" else x.astype(np.float32)


def _recipe(kind: str) -> SimpleNamespace:
    return SimpleNamespace(shape=SHAPES[kind], front_end="logmel:mels=20,floor=1e-6" if kind == "sound" else None)


@functools.cache
def _candidates(kind: str, board: str) -> tuple[Candidate, ...]:
    """Return all candidates with their costs, without limits; on each run every other one."""
    plans = [p for p in families.plans(kind, SHAPES[kind]) if not p.front_end][:: 1 if ALL else 2]
    free = Contract(load_board(board))
    return tuple(search.judged(p, _model(kind, p), _recipe(kind), _samples(kind), LABELS, free) for p in plans)


def _random(rng: np.random.Generator, found: tuple[Candidate, ...], board: str) -> Contract:
    """Return some limits, from less than the smallest needs to more than the largest."""

    def limit(values: list[float]) -> float | None:
        low, high = np.log(0.7 * min(values)), np.log(1.3 * max(values))
        return float(np.exp(rng.uniform(low, high))) if rng.random() < 0.6 else None

    ms = limit([c.ms for c in found if c.ms is not None])
    ram, flash = limit([c.ram for c in found]), limit([c.flash for c in found])
    return Contract(load_board(board), ms, ram and int(ram), flash and int(flash))


def test_no_pick_breaks_a_contract() -> None:
    rng = np.random.default_rng(0)
    picked = refused = 0
    for k in range(CONTRACTS):
        kind, board = list(SHAPES)[k % len(SHAPES)], BOARDS[k // len(SHAPES) % len(BOARDS)]
        found = _candidates(kind, board)
        assert all(c.ms is not None and not c.fault for c in found)
        contract = _random(rng, found, board)
        kept = [
            c
            for c in found
            if (contract.ms is None or (c.ms or 0) * (1 + c.error) <= contract.ms)
            and (contract.ram is None or c.ram <= contract.ram)
            and (contract.flash is None or c.flash <= contract.flash)
        ]
        try:
            picks = search.entrants([c.under(contract) for c in found])
        except Unsupported as e:
            limits = {f"--{n}" for n in ("ms", "ram", "flash") if getattr(contract, n) is not None}
            named = re.findall(r"(--\w+): takes .* are allowed; allow more of it", str(e))
            assert not kept and "\n" not in str(e) and named and set(named) <= limits
            refused += 1
            continue
        assert {p.plan for p in picks} <= {c.plan for c in kept} and 1 <= len(picks) <= search.TRAINED + 2
        largest = max(kept, key=search.size)
        assert largest.plan in {p.plan for p in picks}  # what fits is used
        picked += 1
    assert picked > 80 and refused > 30


@nightly
@pytest.mark.parametrize("target", [PICO, PICO2, "MPS2_AN385", "VIRT_RV32"])
@pytest.mark.parametrize("kind", ["motion", "table", "picture", "sound"])
def test_the_board_keeps_it_too(target: str, kind: str) -> None:
    """Cycles of picks, waits for flash among them, on the emulated board: at most what the contract allowed. QEMU
    counts instructions, as the costs of its boards do."""
    board = load_board(target.removesuffix("@emu"))
    found = _candidates(kind, board.name)
    rng = np.random.default_rng(3)
    for c in [found[k] for k in rng.choice(len(found), 3, replace=False)]:
        contract = Contract(board, ms=(c.ms or 0) * (1 + c.error) * 1.001)
        assert not c.under(contract).fault
        file = onnx_file.model(_model(kind, c.plan), SHAPES[kind], LABELS)
        state = search.compiled(file, _samples(kind), contract, plain=True, **search.front_end(_recipe(kind)))
        with open_runner(state.compiled.data, target, icount=board.port.name == "qemu") as runner:
            x = _samples(kind)[0]
            tensor = state.compiled.model.tensors[state.compiled.model.inputs[0]]
            inputs = runner.quantise([x.reshape(tensor.dims)]) if x.dtype != np.int16 else [x.reshape(tensor.dims)]
            measured = runner.bench(inputs, 1)
        assert measured.unit in ("cycles", "instructions")
        ms = 1000 * measured.total / board.clock
        print(f"{target} {c.name}: predicted {c.ms:.3f} give or take {c.error:.1%}, measured {ms:.3f}")
        assert ms <= (contract.ms or 0)
