"""A short form of `scripts/soak --memory`: memory runs out, and Ctrl-C comes, at any place of a program with models.

After each fault the arena is free, or stop() frees it as documented; models give their answers;
hooks are as their handles say.
"""

from __future__ import annotations

from collections.abc import Iterator

import injecting
import pytest

from mica.link.board import Link

MOST = 12  # places of each kind in each scenario; the soak takes up to 500, and others in each round


@pytest.fixture(scope="module")
def there() -> Iterator[Link]:
    with injecting.board() as board:
        yield board


def test_scenarios(there: Link) -> None:
    names = injecting.scenarios(there)
    assert len(names) >= 30
    sums: dict[str, int] = {}
    broken = []
    for name in names:
        try:
            tried = injecting.inject(there, name, MOST, 1)
        except AssertionError as e:
            broken.append(str(e))
            continue
        for kind, n in tried.items():
            sums[kind] = sums.get(kind, 0) + n
    assert not broken, "\n".join(broken)
    assert all(n >= 4 * len(names) for n in sums.values()), sums


def test_every_place_of_a_text(there: Link) -> None:
    """Each allocation, and each place for Ctrl-C, of a text that ends at a stop,
    from a model with a state: never another text."""
    tried = injecting.inject(there, "text_state_stop", 0, 1)
    assert all(n > 100 for n in tried.values()), tried
