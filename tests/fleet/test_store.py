"""Desired states of boards: their generation numbers only rise."""

from __future__ import annotations

import pytest

from mica_fleet import store
from mica_fleet.site import Site
from mica_fleet.store import Store


def test_generations_follow_each_other_where_the_clock_stands_still(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock that is ahead gives its time; one that is behind, the next number, in another process too."""
    now = [100]
    monkeypatch.setattr(store.time, "time", lambda: now[0])
    first = Store(site)
    assert [first.tell("b1", {}), first.tell("b2", {}), first.tell("b1", {})] == [100, 101, 102]
    first.save()
    now[0] = 5
    second = Store(site)
    assert second.tell("b1", {}) == 103 and second.desired["b2"][0] == 101
    now[0] = 1000
    assert second.tell("b1", {}) == 1000
