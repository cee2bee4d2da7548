"""Two neighbouring outputs that share products, on the Cortex-M0+: the oracle's bytes wherever that applies,
whether it pays or not."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import bare_metal
import pytest
from bare_metal import CORES, USERMOD, Job
from isa_cases import in_codes, paired, winograds
from targets import NTH_SLIP

CORE = CORES["m0plus-qemu"]
ALWAYS = ("-DMICA_PAIRED_ALWAYS",)


@pytest.fixture(scope="module")
def jobs() -> list[Job]:
    return [*paired(), *winograds(), *in_codes([*paired(), *winograds()][::3])]


@pytest.fixture(scope="module")
def expected(jobs: list[Job]) -> dict[str, list[int]]:
    return {job.name: bare_metal.expected(job) for job in jobs}


def test_equals_the_oracle(jobs: list[Job], expected: dict[str, list[int]]) -> None:
    assert not bare_metal.available(CORE), bare_metal.available(CORE)
    program = bare_metal.build(CORE, more=ALWAYS)
    for parts in (1, 2, 3):
        cut = [dataclasses.replace(job, parts=parts) for job in jobs]
        wrong = bare_metal.differences(cut, bare_metal.run(CORE, program, cut), expected)
        assert not wrong, f"{parts} parts, {len(wrong)} of {len(jobs)}:\n" + "\n".join(wrong[:20])


# File, what stands there, a slip in its place.
SLIPS = [
    ("paired.S", "adcs r2, r4", "adds r2, r2, r4"),
    ("paired.S", "add r11, r5", "add r11, r4"),
    ("paired.S", "add r4, sp, #F_REQUANT", "add r4, sp, #F_REQUANT\n    adds r0, #1"),
    ("paired.S", "lsrs r5, r2, #14", "lsrs r5, r2, #15"),
    ("paired.S", "adcs \\first, \\b", "adds \\first, \\first, \\b"),
    ("conv2d_paired.c", "pairs[i] + 0x8000;", "pairs[i];"),
    ("conv2d_paired.c", "3 * in_c >> half", "3 * in_c"),
    ("conv2d_paired.c", "second = 3 * kind", "second = 2 * kind"),
    ("conv2d_paired.c", "mica_fill(outside, p->x_zero", "mica_fill(outside, 0"),
    ("conv2d_paired.c", ": rows - cut->rows;", ": rows - 1u;"),
    ("conv2d_paired.c", "? 0 : sums;", "? 0 : 0;"),
]


def test_each_slip_has_its_place() -> None:
    """The kernels may have changed: choose another slip."""
    for file, before, _ in SLIPS:
        assert before in (bare_metal.isa_folder(CORE.isa, USERMOD) / file).read_text(), (file, before)


@pytest.mark.parametrize(("file", "before", "after"), SLIPS[::NTH_SLIP], ids=lambda v: str(v).replace("\n", ";")[:30])
def test_a_slip_is_caught(
    file: str, before: str, after: str, jobs: list[Job], expected: dict[str, list[int]], tmp_path: Path
) -> None:
    usermod = tmp_path / "usermod_c"
    shutil.copytree(USERMOD, usermod)
    source = bare_metal.isa_folder(CORE.isa, usermod) / file
    text = source.read_text()
    assert before in text, "the kernel has changed: choose another slip"
    source.write_text(text.replace(before, after, 1))
    few = [job for job in jobs if "fine" in job.name or not job.name.count("x16")]
    results = bare_metal.run(CORE, bare_metal.build(CORE, usermod=usermod, more=ALWAYS), few)
    assert bare_metal.differences(few, results, expected)
