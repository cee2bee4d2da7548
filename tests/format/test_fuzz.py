"""The fuzzer runs for some thousand files; and it finds a mistake that is put into the loader for it."""

from __future__ import annotations

import shutil
from pathlib import Path

import c_build
import fuzzing
import pytest

INPUTS = 6000


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fuzz")
    fuzzing.compile_engine(folder, c_build.SOURCES)
    return folder


def test_engine(objects: Path, tmp_path: Path) -> None:
    outcome = fuzzing.run(fuzzing.link(objects), tmp_path / "files", seed=1, inputs=INPUTS)
    assert outcome.found is None and outcome.figures, f"{outcome.found}: {outcome.report[:4000]}"
    f = outcome.figures
    print(
        f"{f['inputs']} files, {f['loaded']} of them ran; {f['edges_of_seeds']} -> {f['edges']} edges, {f['kept']} kept"
    )
    assert f["inputs"] >= INPUTS and f["loaded"] > INPUTS // 150
    # It goes by what it reaches: files that are not the seeds show the way.
    assert f["kept"] > 50 and f["edges"] > f["edges_of_seeds"] + 50


def test_it_finds_a_mistake(objects: Path, tmp_path: Path) -> None:
    """Without the check that a constant ends inside DATA, something is soon read behind the file."""
    load = (c_build.USERMOD / "runtime" / "load.c").read_text()
    check = "offset > data->bytes || found > data->bytes - offset"
    assert load.count(check) == 1
    for path in objects.glob("*.o"):
        shutil.copy(path, tmp_path)
    broken = tmp_path / "load.c"
    broken.write_text(load.replace(check, "false"))
    fuzzing.compile_engine(tmp_path, [str(broken)])
    outcome = fuzzing.run(fuzzing.link(tmp_path), tmp_path / "files", seed=1, inputs=20 * INPUTS)
    assert outcome.found is not None and outcome.found.name == "crash.mica"
    assert "ERROR: AddressSanitizer" in outcome.report
