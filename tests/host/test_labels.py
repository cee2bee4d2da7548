"""Names of classes, as editors of every system write them, and as many as there are classes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from mica.errors import MicaError
from mica.file.codec import ModelFile
from mica.run import labels

NAMES = ["caf\u00e9", "tea with milk", "\u6c34"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_encodings(encoding: str, end: str, tmp_path: Path) -> None:
    path = tmp_path / "labels.txt"
    path.write_bytes((end.join(NAMES) + end).encode(encoding))
    assert labels.read(path) == NAMES


def model(*outputs: tuple[str, tuple[int, ...]]) -> ModelFile:
    """A model with outputs only."""
    tensors = [SimpleNamespace(name=f"y{k}", dtype=dtype, dims=dims) for k, (dtype, dims) in enumerate(outputs)]
    return cast(ModelFile, SimpleNamespace(tensors=tensors, outputs=list(range(len(tensors))), metadata={}))


@pytest.mark.parametrize(
    ("count", "outputs"),
    [
        (10, [("int8", (1, 10))]),
        (3, [("int8", (1, 4)), ("int8", (1, 3))]),
        (21, [("int8", (1, 64, 64, 21))]),  # a segmented picture
        (5, [("int32", (1, 1))]),  # an ArgMax of any number of classes
        (2, [("int8", (1, 1))]),  # a sigmoid
    ],
)
def test_as_many_as_classes(count: int, outputs: list[tuple[str, tuple[int, ...]]]) -> None:
    labels.check(["a"] * count, model(*outputs), Path("labels.txt"))


@pytest.mark.parametrize(("count", "dims"), [(9, (1, 10)), (11, (1, 10)), (3, (1, 1)), (20, (1, 64, 64, 21))])
def test_more_or_fewer(count: int, dims: tuple[int, ...]) -> None:
    with pytest.raises(MicaError, match=rf"labels.txt: {count} names; expected .*'y0' has "):
        labels.check(["a"] * count, model(("int8", dims)), Path("labels.txt"))
