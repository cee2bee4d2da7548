"""The fuzzer runs for some thousand files; and it finds mistakes that are put into the loader for it."""

from __future__ import annotations

import re
from pathlib import Path

import c_build
import fuzzing
import pytest

INPUTS = 6000


builds = pytest.mark.parametrize("build", c_build.BUILDS, ids=lambda build: build.name)


@builds
def test_engine(build: c_build.Build, tmp_path: Path) -> None:
    inputs = INPUTS if build.name == "ref" else INPUTS // 2
    outcome = fuzzing.run(fuzzing.make(tmp_path, build), tmp_path / "files", seed=1, inputs=inputs)
    assert outcome.found is None and outcome.figures, f"{outcome.found}: {outcome.report[:4000]}"
    f = outcome.figures
    print(
        f"{f['inputs']} files, {f['loaded']} of them ran; {f['edges_of_seeds']} -> {f['edges']} edges, {f['kept']} kept"
    )
    assert f["inputs"] >= inputs and f["loaded"] > inputs // 150
    # It goes by what it reaches: files that are not the seeds show the way.
    assert f["kept"] > 50 and f["edges"] > f["edges_of_seeds"] + 50


def test_a_seed_gives_the_same_files(tmp_path: Path) -> None:
    """Neither where the program lies in memory nor the order of a folder changes the files that are found."""
    fuzz = fuzzing.make(tmp_path, c_build.BUILDS[0])
    first, second = (fuzzing.run(fuzz, tmp_path / name, seed=2, inputs=500).figures for name in ("one", "two"))
    assert first == second and first["kept"] > 20


# File of the engine, what stands there, a mistake in its place, and how it shows.
MISTAKES = {
    # Something is soon read behind the file; with 32 bits, a sum may pass the end of the address space first.
    "a constant may pass the end of DATA": (
        "runtime/record.c",
        "offset > data->bytes || found > data->bytes - offset",
        "false",
        "ERROR: AddressSanitizer|runtime error: pointer index",
    ),
    # Only a range that does not begin at the first row shows it.
    "rows begin at the first": (
        "kernels/ref/gather.c",
        "(size_t)row_begin * p->y_n",
        "0 * p->y_n",
        "ERROR: ranges of rows",
    ),
    # Only a part of a step shows it.
    "padding does not keep a convolution from being cut into pixels": (
        "runtime/op_conv.c",
        "w->pad_top || w->pad_left || ",
        "",
        "give other bytes than whole steps",
    ),
}


@builds
@pytest.mark.parametrize("mistake", MISTAKES)
def test_it_finds_a_mistake(mistake: str, build: c_build.Build, tmp_path: Path) -> None:
    """Put into the engine for it."""
    file, before, after, shown = MISTAKES[mistake]
    source = c_build.USERMOD / file
    text = source.read_text()
    assert text.count(before) == 1, "the file has changed: choose another mistake"
    broken = tmp_path / source.name
    broken.write_text(text.replace(before, after))
    fuzz = fuzzing.make(tmp_path, build, replaced={str(source): str(broken)})
    outcome = fuzzing.run(fuzz, tmp_path / "files", seed=1, inputs=20 * INPUTS)
    assert outcome.found is not None and outcome.found.name == "crash.mica"
    assert re.search(shown, outcome.report)
