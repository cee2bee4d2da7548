"""Sums that no order changes, and elementary functions of additions and multiplications alone."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from mica.quantise import rounding
from mica.reference import exact, functions

RNG = np.random.default_rng(11)
EDGES = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-300, -1e-300, 1.0, -1.0, 0.5, 1e300, -1e300, 710.0, -745.0])


def test_no_order_changes_a_product() -> None:
    a = RNG.normal(size=(40, 700)).astype(np.float32)
    w = (RNG.normal(size=(30, 700)) * 10.0 ** RNG.integers(-6, 6, (30, 1))).astype(np.float32)
    y = exact.with_rows(a, exact.constant_rows(w))
    order = RNG.permutation(700)
    assert np.array_equal(y, exact.with_rows(a[:, order], exact.constant_rows(w[:, order])))
    one_by_one = np.zeros_like(y)
    rows = exact.constant_rows(w)
    left = exact.whole(a, exact.bits(700)[0])
    for k in range(700):
        one_by_one += np.multiply.outer(left.numbers[:, k], rows.numbers[:, k])
    assert np.array_equal(y, one_by_one * left.unit * rows.unit[:, 0])
    expected = a.astype(np.float64) @ w.astype(np.float64).T
    scale = np.abs(a).max() * np.abs(w).max(axis=1) * math.sqrt(700)
    assert np.abs((y - expected) / scale).max() < 2.0**-20
    assert np.array_equal(exact.product(a, w[:1].T), exact.product(a[:, order], w[:1, order].T))


@pytest.mark.parametrize("terms", [1, 2, 9, 512, 513, 2**17])
def test_bits_leave_room_for_all_terms(terms: int) -> None:
    a, b = exact.bits(terms)
    assert terms * 2 ** (a + b) <= 2**53 < 4 * terms * 2 ** (a + b)


def test_operands_are_as_large_as_said() -> None:
    x = np.array([[3.0, -4.0, 1e-9], [2.0**-140, 0.0, -(2.0**-141)]])
    assert np.abs(exact.whole(x, 20).numbers).max() <= 2**20
    numbers, unit = exact.whole_rows(x, 20)
    assert (np.abs(numbers).max(axis=1) <= 2**20).all() and (np.abs(numbers).max(axis=1) >= 2**19).all()
    assert np.abs(numbers * unit - x).max(axis=1) == pytest.approx(0.0, abs=1e-5)
    assert not np.isfinite(exact.product(np.array([[np.inf, 1.0]]), np.ones((2, 1)))).any()
    assert (exact.product(np.zeros((2, 3)), np.ones((3, 1))) == 0).all()


def test_constants_are_forgotten_with_their_array() -> None:
    w = RNG.normal(size=(3, 4))
    key = id(w)
    assert exact.constant_rows(w) is exact.constant_rows(w)
    assert key in exact._constants
    del w
    assert key not in exact._constants


def test_constants_of_large_networks_are_not_kept() -> None:
    """They would take twice the file's size in memory: test_host_memory.py has the whole command."""
    some, rest = RNG.normal(size=(exact.KEPT // 2000, 1000)), RNG.normal(size=(exact.KEPT // 2000 + 1, 1000))
    kept = exact.constant_rows(some)
    assert exact.constant_rows(some) is kept
    made, again = exact.constant_rows(rest), exact.constant_rows(rest)
    assert made is not again and np.array_equal(made.numbers, again.numbers) and np.array_equal(made.unit, again.unit)
    del some, kept
    assert exact.constant_rows(rest) is exact.constant_rows(rest), "there is room now"


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (functions.exp, np.exp),
        (functions.expm1, np.expm1),
        (functions.log, np.log),
        (functions.log1p, np.log1p),
        (functions.sinh, np.sinh),
        (functions.cosh, np.cosh),
        (functions.tanh, np.tanh),
        (functions.asinh, np.arcsinh),
        (functions.acosh, np.arccosh),
        (functions.atanh, np.arctanh),
        (functions.atan, np.arctan),
        (functions.asin, np.arcsin),
        (functions.acos, np.arccos),
        (functions.sin, np.sin),
        (functions.cos, np.cos),
        (functions.tan, np.tan),
        (functions.erf, np.vectorize(math.erf)),
    ],
    ids=lambda f: getattr(f, "__name__", "erf"),
)
def test_function(ours: Callable[[np.ndarray], np.ndarray], theirs: Callable[[np.ndarray], np.ndarray]) -> None:
    x = np.concatenate([RNG.uniform(-20, 20, 5000), RNG.normal(size=5000), RNG.uniform(-300, 300, 5000)])
    with np.errstate(all="ignore"):
        edges = (
            EDGES[np.abs(np.nan_to_num(EDGES)) < 1e6]
            if ours in (functions.sin, functions.cos, functions.tan)
            else EDGES
        )
        x = np.concatenate([x, edges])
        expected, found = theirs(x), ours(x)
    assert np.array_equal(np.isfinite(expected), np.isfinite(found))
    assert np.array_equal(np.isnan(expected), np.isnan(found))
    finite = np.isfinite(expected)
    np.testing.assert_allclose(found[finite], expected[finite], rtol=1e-12, atol=1e-15)


def test_power() -> None:
    x = np.concatenate([RNG.uniform(-5, 5, 500), RNG.uniform(0, 1000, 500), [0.0, np.inf, 1.0, -1.0]])
    for y in (0, 1, 2, 3, -1, -2, 0.5, -0.5, 1.5, 0.3, -2.7, 20, 1 / 3):
        with np.errstate(all="ignore"):
            expected = np.power(x, float(y))
        np.testing.assert_allclose(functions.power(x, y), expected, rtol=1e-11)
    assert np.array_equal(functions.power(2.0, np.arange(-1022.0, 1023)), np.ldexp(1.0, np.arange(-1022, 1023)))
    assert np.array_equal(functions.power(np.arange(50.0), 3.0), np.arange(50.0) ** 3)


def test_triangle() -> None:
    a = RNG.normal(size=(3, 200, 90)) * 10.0 ** RNG.uniform(-4, 4, (1, 1, 90))
    h = a.transpose(0, 2, 1) @ a
    low = rounding.triangle(h)
    root = np.linalg.cholesky(h)
    expected = root / np.diagonal(root, axis1=1, axis2=2)[:, None, :]
    d = np.sqrt(np.diagonal(h, axis1=1, axis2=2))
    assert np.abs((low - expected) * d[:, None, :] / d[:, :, None]).max() < 1e-5
    assert np.array_equal(np.triu(low), np.broadcast_to(np.eye(90), h.shape))
    assert np.array_equal(rounding.triangle(np.full((1, 1, 1), 1e-30) * np.eye(4)), np.eye(4)[None])


def test_errors_handed_on_are_those_of_the_inverse() -> None:
    """GPTQ's own formula: a weight's error goes along the columns of the root of the inverse covariance."""
    a = RNG.normal(size=(300, 70)) @ RNG.normal(size=(70, 70))
    c, rows = a.T @ a / 300, RNG.normal(size=(5, 70))
    steps = np.abs(rows).max(axis=1)[None] / 12.0
    order = np.argsort(-np.diagonal(c), kind="stable")
    h = c[np.ix_(order, order)] + 0.1 * np.diagonal(c).mean() * np.eye(70)
    low = np.linalg.cholesky(np.linalg.inv(h))
    low /= np.diagonal(low)
    left, expected = rows[:, order] / steps[0][:, None], np.zeros((5, 70))
    for j in range(70):
        expected[:, order[j]] = np.rint(left[:, j])
        left[:, j:] -= np.outer(left[:, j] - np.rint(left[:, j]), low[j:, j])
    assert np.mean(rounding.in_turn(rows, steps, rounding.turns(c[None], [0.1]))[0, 0] != expected) < 0.02


def test_dampings_and_steps_do_not_meet() -> None:
    """Several dampings and steps in one go give the same results as one by one."""
    a = RNG.normal(size=(3, 90, 40))
    c, rows = a.transpose(0, 2, 1) @ a / 90, RNG.normal(size=(6, 40))
    steps = np.abs(rows).max(axis=1) / np.array([[127.0], [15.0]])
    dampings = (0.01, 0.1, 1.0)
    together = rounding.in_turn(rows, steps, rounding.turns(c, dampings))
    assert together.shape == (3, 2, 6, 40)
    for k, damping in enumerate(dampings):
        alone = rounding.in_turn(rows, steps, rounding.turns(c, [damping]))
        assert np.array_equal(together[k], alone[0])
    assert not np.array_equal(together[0], together[2])
