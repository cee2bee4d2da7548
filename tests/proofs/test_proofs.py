"""Theorems hold, and each finds the fault that is planted for it. `scripts/prove` runs the slow ones whole."""

from __future__ import annotations

import re

import pytest
from targets import ALL

pytest.importorskip("z3", reason="scripts/setup installs z3-solver")

from prove import PAGE, page
from requantisation import has
from theorems import THEOREMS, Theorem
from words import ROOT, Tree

HERE = [t for t in THEOREMS if ALL or not t.nightly]
EACH = pytest.mark.parametrize("theorem", HERE, ids=lambda t: t.name)


@EACH
def test_theorem_holds(theorem: Theorem) -> None:
    assert theorem.prove(Tree(whole=ALL)) is None


@EACH
def test_planted_fault_is_found(theorem: Theorem) -> None:
    if theorem.name in ("requant_avx2", "requant_vnni") and not has(theorem.name.removeprefix("requant_")):
        pytest.skip("this processor does not run the function")
    assert theorem.prove(Tree(theorem.fault, whole=False)) is not None


def test_sentences_are_those_of_the_pages() -> None:
    pages = {path: " ".join((ROOT / path).read_text(encoding="utf-8").split()) for path in {t.page for t in THEOREMS}}
    assert [t.name for t in THEOREMS if t.sentence not in pages[t.page]] == []


def test_every_function_of_the_loader_has_a_theorem() -> None:
    covered = {name for t in THEOREMS for name in t.covers.split()}
    left = []
    for file in ("check.c", "load.c", "record.c", "single.c"):
        text = Tree().read(f"usermod_c/runtime/{file}")
        found = re.findall(r"^[a-z][\w ]*?[ *](\w+)\([^;{}]*\) \{$", text, flags=re.M)
        left += [name for name in found if name not in covered]
    assert left == []


def test_every_operator_has_a_theorem() -> None:
    operators = re.findall(r" X\((\w+), \w+_s\d+, ", Tree().read("usermod_c/include/mica_format.h"))
    assert [op for op in operators if f"op_{op}" not in {t.name for t in THEOREMS}] == [] != operators


def test_page_is_that_of_the_theorems() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run scripts/prove --page"
