"""`--for` and `--family` leave parts out of firmware and native modules."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import usermod_models as models

from mica.boards import load_board
from mica.errors import MicaError
from mica.file.codec import ModelFile, encode
from mica.kernels import FAMILIES, PARTS
from mica.resources import data_dir
from mica.toolchain import contents

# Of a model: the parts that it needs.
THREES = {"paired", "winograd"}  # of convolutions three wide
NEEDED = {
    models.small: THREES,
    models.signal: {"lines", "windows"},
    models.by_rows: {"strips"} | THREES,
    models.joined: {"output_groups"},
    models.seen: {"pictures"} | THREES,
    models.hearing: {"audio", "pdm"},
    models.moving: {"audio", "motion"},
    models.language: {"text"},
}


def _kept(found: contents.Contents) -> set[str]:
    """Parts of which nothing is left out."""
    assert found.kernels is not None
    return {
        p.name
        for p in contents.PARTS
        if p.name != contents.FALLBACK
        and (not p.code or p.code in found.kernels)
        and not set(p.modules) & set(found.modules)
    }


@pytest.mark.parametrize("make", NEEDED, ids=lambda make: make.__name__)
def test_a_model_keeps_what_it_needs(make: Callable[[], ModelFile], tmp_path: Path) -> None:
    path = tmp_path / "m.mica"
    path.write_bytes(encode(make()))
    found = contents.chosen([str(path)])
    assert found.kernels is not None and {s.kernel for s in make().steps} <= found.kernels
    assert _kept(found) == NEEDED[make]
    assert not found.fallback
    both = contents.chosen([str(path)], ["fallback", "boxes"])
    assert _kept(both) == NEEDED[make] | {"boxes"} and both.fallback


def test_parts_are_there() -> None:
    """Each names modules of the runtime, none twice, and code that the engine can leave out;
    all such code is in a part."""
    runtime = {p.stem for p in (data_dir("firmware") / "mica").glob("*.py")}
    modules = [m for p in contents.PARTS for m in p.modules]
    assert set(modules) <= runtime and len(modules) == len(set(modules))
    kernels = {k.name for rows in FAMILIES.values() for k in rows}
    assert {p.code for p in contents.PARTS if p.code} == set(PARTS) - kernels
    for files, parts in contents.FAMILY.values():
        assert set(files) <= set(FAMILIES) and set(parts) <= {p.name for p in contents.PARTS}


def test_the_core_needs_no_part() -> None:
    """No module that is always there imports one of a part at its top."""
    modules = {m for p in contents.PARTS for m in p.modules}
    for path in (data_dir("firmware") / "mica").glob("*.py"):
        if path.stem in modules:
            continue
        found = set(re.findall(r"^(?:from|import) mica\.(\w+)", path.read_text(), re.M))
        assert not found & modules, path.name


def test_an_import_says_what_to_do() -> None:
    found = contents.chosen([], family="vision")
    with pytest.raises(ImportError, match=r"built for vision and has no mica\.motion: build it --with motion$"):
        exec(contents.stub(found.modules["motion"]))


def test_every_kernel_is_in_a_family_or_wide() -> None:
    inside = {file for files, _ in contents.FAMILY.values() for file in files}
    assert set(FAMILIES) - inside == {"wide"}


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: contents.chosen([], family="visoin"), "--family visoin; known are vision, sound, language"),
        (lambda: contents.chosen(["a.mica"], family="vision"), "give either --family or --for"),
        (lambda: contents.check_names(["fleet", "moton"]), "--with moton; known are fleet, "),
    ],
)
def test_mistakes(call: Callable[[], object], says: str) -> None:
    with pytest.raises(MicaError) as failed:
        call()
    assert str(failed.value).startswith(says)


def test_packages_and_parts() -> None:
    assert contents.check_names(["motion", "fleet"]) == ["fleet"]


def test_kernels_in_micropython_need_to_be_asked_for() -> None:
    """A firmware with all kernels has none that could stand in for one, but on machines that are no boards."""
    whole = contents.chosen([])
    assert whole.kernels is None and not whole.modules and not whole.fallback
    assert contents.chosen([], ["fallback"]) == contents.ALL
    assert contents.usual(load_board("RPI_PICO")) == whole
    assert contents.usual(load_board("UNIX")) == contents.usual(load_board("MPS2_AN385")) == contents.ALL
    assert contents.chosen([], family="vision").fallback  # which lacks kernels


@pytest.mark.parametrize(
    "change",
    [{}, {"stride_h": 2, "stride_w": 2}, {"stride_w": 2}, {"stride_h": 3, "stride_w": 3}, {"dilation_h": 2}],
    ids=str,
)
def test_depthwise_windows(change: dict[str, int]) -> None:
    """3x3 ones of stride 1 or 2 do without the code for others, whichever of the two directions is another."""
    model = models.small()
    step = next(s for s in model.steps if s.kernel == "depthwise_conv2d_s8")
    step.params.update(change)
    assert ("windows" in _kept(contents.model_contents([model]))) == (
        change not in ({}, {"stride_h": 2, "stride_w": 2})
    )
    model.tensors[step.outputs[0]].dims = (
        *model.tensors[step.outputs[0]].dims[:-1],
        2 * model.tensors[step.inputs[0]].dims[-1],
    )
    assert "windows" in _kept(contents.model_contents([model]))
