"""Files whose steps have other parameters than the compiler gave them, with the checksum put right.

One verdict of loader and decoder. What loads gives the same bytes in whole steps, in ranges of rows,
on two cores and in every build.
"""

from __future__ import annotations

import random
import struct
from functools import cache
from pathlib import Path

import c_build
import pytest
from models import MODELS
from pad_model import pad_model
from test_corrupt import OK, build, compare, places, put
from usermod_models import by_rows, fed, signal

from mica.file import codec
from mica.kernels import KERNEL_BY_NAME

SEEDS = (*MODELS, by_rows, fed, signal)


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("driver")
    return [build(folder, b) for b in c_build.BUILDS]


@cache
def _parameters() -> list[tuple[str, bytes, list[int]]]:
    """(name, file, offsets of the parameters) of each step of each model."""
    found = []
    for make in SEEDS:
        data = codec.encode(make())
        at = {name: at for name, at, _ in places(data)}
        for k, step in enumerate(codec.decode(data).steps):
            n = len(KERNEL_BY_NAME[step.kernel].params)
            if n:
                found.append((f"{make.__name__}, {step.name}", data, [at[f"STEPS {k}.params[{i}]"] for i in range(n)]))
    return found


def changed(seed: int, n: int) -> list[tuple[str, bytes]]:
    """n files, each with up to three parameters of a step changed: to small numbers mostly,
    which are sound more often than others."""
    rng = random.Random(seed)
    files = []
    for i in range(n):
        name, data, at = rng.choice(_parameters())
        for _ in range(rng.randint(1, 3)):
            near = struct.unpack_from("<i", data, rng.choice(at))[0] + rng.randint(-1, 1)
            value = rng.choice((rng.randrange(4), rng.randrange(10), near))
            data = put(data, rng.choice(at), "i32", max(-(2**31), min(value, 2**31 - 1)))
        files.append((f"{name}, seed {seed}, file {i}", codec.with_crc(data)))
    return files


def test_steps_that_the_compiler_never_writes(driver: list[Path]) -> None:
    assert compare(driver, [("pads", codec.encode(pad_model()))], share=1) == {OK: 1}


def test_changed_steps(driver: list[Path]) -> None:
    statuses = compare(driver, changed(1, 1000), share=1)
    assert statuses[OK] > 250, "many of them are sound"
