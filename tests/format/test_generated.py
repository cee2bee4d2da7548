"""The files that scripts/gen_format.py writes agree with the format and the kernels."""

import dataclasses
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from mica.format import schema
from mica.kernels import FAMILIES, IN_PLACE, KERNEL_BY_NAME, KERNELS
from mica.kernels.windows import WINDOW

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def gen() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gen_format", ROOT / "scripts/gen_format.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts/gen_format.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_stale_file_is_seen(gen: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    before = gen.header()
    monkeypatch.setattr(schema, "MAX_RANK", 7)
    assert gen.header() != before


def test_a_new_kernel_comes_into_every_list(gen: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    new = dataclasses.replace(KERNELS[-1], id=99, name="new_s8")
    monkeypatch.setattr(gen, "KERNELS", (*KERNELS, new))
    monkeypatch.setattr(gen, "FAMILIES", {**FAMILIES, "softmax": (*FAMILIES["softmax"], new)})
    texts = {"the page of kernels": gen.kernels_page(), **gen.generated()}
    del texts["host_tools/mica/format/SPEC.md"]  # its tables are those of records
    for file, text in texts.items():
        found = re.search(r"new_s8|NEW_S8|/ref/new\.c", text)
        assert found, f"{file} does not know it"


def test_schema_agrees_with_itself() -> None:
    """Numbers that schema.py has to write twice."""
    assert {f.name: f.count for f in schema.STEP}["params"] == schema.MAX_PARAMS
    assert {f.name: f.count for f in schema.STEP}["blobs"] == 2 * schema.MAX_BLOBS
    assert {f.name: f.count for f in schema.TENSOR}["dims"] == schema.MAX_RANK
    assert len({k.id for k in KERNELS}) == len({k.name for k in KERNELS}) == len(KERNELS)
    for k in KERNELS:
        assert 0 < k.id <= schema.MAX_KERNEL_ID
        assert (
            k.n_inputs <= schema.MAX_INPUTS and len(k.blobs) <= schema.MAX_BLOBS and len(k.params) <= schema.MAX_PARAMS
        )
        assert len(set(k.params)) == len(k.params)
        # The C loaders read the window from parameters 0 to 7, and weights, bias, mult, shift from blobs 0 to 3.
        assert "kernel_h" not in k.params or k.params[:8] == WINDOW
        assert "weights" not in dict(k.blobs) or [b for b, _ in k.blobs] == ["weights", "bias", "mult", "shift"]
    assert set(IN_PLACE) <= set(KERNEL_BY_NAME)
    sizes = {"HEADER": 64, "SECTION": 16, "TENSOR": 48, "STEP": 148, "IO": 4, "METADATA": 8}
    for name, size in sizes.items():
        assert schema.record_bytes(getattr(schema, name)) == size, "a record may only grow with a new minor version"
