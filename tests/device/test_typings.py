"""The runtime's type stubs are whole, the C module's stub lists all that it has, and examples pass mypy with them."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mica.file.codec import ModelFile, StepRecord, TensorRecord, encode
from mica.link.board import Link
from mica.toolchain.stubs import write

FIRMWARE = Path(__file__).resolve().parent.parent.parent / "firmware"
STUBS = FIRMWARE / "typings"


def public(name: str) -> bool:
    return not name.startswith("_") or name == "__init__"


def names_of(tree: ast.Module | ast.ClassDef) -> dict[str, str]:
    """Public functions, classes and attributes of a module or class, by name, with the kind of each."""
    found: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and public(node.name):
            decorators = {ast.unparse(d) for d in node.decorator_list}
            if "property" in decorators:
                found[node.name] = "attribute"
            elif "overload" not in decorators or node.name not in found:
                found[node.name] = "function"
        elif isinstance(node, ast.ClassDef) and public(node.name):
            found[node.name] = "class"
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and public(node.target.id):
            found[node.target.id] = "attribute"
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name) and public(target.id):
                    found[target.id] = "attribute"
    return found


def classes(tree: ast.Module) -> dict[str, ast.ClassDef]:
    return {n.name: n for n in tree.body if isinstance(n, ast.ClassDef) and public(n.name)}


def functions(names: dict[str, str]) -> set[str]:
    return {n for n, what in names.items() if what == "function"}


def mypy(stubs: Path, *arguments: object) -> None:
    command = [sys.executable, "-m", "mypy", "--config-file=", "--no-incremental", *map(str, arguments)]
    env = {**os.environ, "MYPYPATH": str(stubs)}
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of stubs as an installation has it."""
    firmware = tmp_path_factory.mktemp("stubs") / "firmware"
    shutil.copytree(FIRMWARE, firmware, ignore=shutil.ignore_patterns("examples"))
    write(firmware)
    return firmware / "typings"


def test_every_function_has_types(stubs: Path) -> None:
    mypy(stubs, "--disallow-untyped-defs", *sorted(stubs.rglob("*.pyi")))


def test_names_and_settings(stubs: Path) -> None:
    """The package's names are those that are imported late, too, and settings are parameters by name."""
    tree = ast.parse((stubs / "mica" / "__init__.pyi").read_text())
    exported = {alias.asname for n in tree.body if isinstance(n, ast.ImportFrom) for alias in n.names}
    later = re.findall(r"^(\w+) = later\.later", (FIRMWARE / "mica" / "__init__.py").read_text(), re.MULTILINE)
    assert exported == {"Arena", "Quantised", "cores", "info", "Layer", "Model", "register", *later}
    audio = (stubs / "mica" / "audio.pyi").read_text()
    assert "listen = Listener" in audio
    assert "def __init__(self, model: Model, source: Any, *, rate: int=0, labels: " in audio
    assert "threshold: float | Mapping[str, float]=0.7" in audio


def test_c_module(unix_board: Link) -> None:
    """Names of the C module and of its classes, asked of the module itself."""
    code = "import _mica\nfor o in (_mica, _mica.Model, _mica.Arena): print(*[n for n in dir(o) if n[0] != '_'])"
    module, model, arena = (set(line.split()) for line in unix_board.exec(code).decode().splitlines())
    stub = ast.parse((STUBS / "_mica.pyi").read_text())
    said = names_of(stub)
    types_only = {"Buffer", "Info", "Tokens", "TensorInfo", "StepInfo", "ModelInfo", "step"}
    of_annotations = "Around Fill Frame Function Input Inputs Operand Outputs Part Visit Watchdog Which"
    of_annotations += " Clamp Groups Mean Sum Window"  # of mica.kernels
    types_only |= set(of_annotations.split())
    assert set(said) - types_only == module
    for name, real in (("Model", model), ("Arena", arena)):
        assert functions(names_of(classes(stub)[name])) - {"__init__"} == real, name
    # Attributes and the tuples' fields, of a model of one layer.
    unix_board.put(encode(ONE_LAYER), "one")
    for name, expression in TUPLES.items():
        fields = {n for n, what in names_of(classes(stub)[name]).items() if what == "attribute"}
        code = f"import _mica\nm = _mica.load(one)\nx = {expression}\n"
        if expression == "m":
            for field in sorted(fields):
                assert unix_board.exec(f"{code}print(hasattr(x, {field!r}))") == b"True\n", field
        else:
            real = unix_board.exec(f"{code}print(*dir(x))").decode().split()
            assert {n for n in real if public(n)} - {"count", "index"} == fields, name


_TABLE = np.arange(-128, 128).astype(np.int8)
ONE_LAYER = ModelFile(
    tensors=[TensorRecord(n, "int8", (1, 4), 1.0, 0, offset=0) for n in "xy"],
    steps=[StepRecord("same", "lut_s8", (0,), (1,), {}, {"table": _TABLE})],
    inputs=[0],
    outputs=[1],
)
TUPLES = {
    "Model": "m",
    "Info": "_mica.info()",
    "TensorInfo": "m.tensor(0)",
    "StepInfo": "m.step_info(0)",
    "ModelInfo": "m.info",
}


def test_examples_pass_mypy(stubs: Path) -> None:
    """The stubs fit the examples, and so the programs of users."""
    lenient = ("--scripts-are-modules", "--disable-error-code=import-not-found", "--disable-error-code=union-attr")
    mypy(stubs, *lenient, *sorted((FIRMWARE / "examples").glob("*.py")))
