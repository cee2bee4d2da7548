"""The type stubs of firmware/typings say what the runtime has: names, parameters and defaults; and examples pass mypy."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mica.format.codec import ModelFile, StepRecord, TensorRecord, encode
from mica.link.board import Link

FIRMWARE = Path(__file__).resolve().parent.parent.parent / "firmware"
STUBS = FIRMWARE / "typings"
MODULES = sorted(p.relative_to(FIRMWARE) for name in ("mica", "mica_fleet") for p in (FIRMWARE / name).glob("*.py"))


def public(name: str) -> bool:
    return not name.startswith("_") or name == "__init__"


def signature(f: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Parameters with their defaults, as text, without annotations."""
    a = f.args
    for arg in [*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, [a.vararg, a.kwarg])]:
        arg.annotation = None
    return ast.unparse(a).replace(", /", "")


def names_of(tree: ast.Module | ast.ClassDef) -> dict[str, str]:
    """Public functions, classes and attributes of a module or class, by name; what each of them is."""
    found: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and public(node.name):
            decorators = {ast.unparse(d) for d in node.decorator_list}
            if "property" in decorators:
                found[node.name] = "attribute"
            elif "overload" not in decorators or node.name not in found:
                found[node.name] = signature(node)
        elif isinstance(node, ast.ClassDef) and public(node.name):
            found[node.name] = "class"
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and public(node.target.id):
            found[node.target.id] = "attribute"
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name) and public(target.id):
                    found[target.id] = "attribute"
    return found


def attributes_set(cls: ast.ClassDef) -> set[str]:
    """Public attributes that methods of a class give to self."""
    return {
        node.attr
        for node in ast.walk(cls)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
        and public(node.attr)
    }


def classes(tree: ast.Module) -> dict[str, ast.ClassDef]:
    return {n.name: n for n in tree.body if isinstance(n, ast.ClassDef) and public(n.name)}


def functions(names: dict[str, str]) -> dict[str, str]:
    return {n: what for n, what in names.items() if what not in ("class", "attribute")}


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_stub(module: Path) -> None:
    stub_file = STUBS / module.with_suffix(".pyi")
    assert stub_file.is_file(), f"{module} has no stub"
    source, stub = ast.parse((FIRMWARE / module).read_text()), ast.parse(stub_file.read_text())
    real, said = names_of(source), names_of(stub)
    assert functions(said) == functions(real)
    # A stub may name types that are none at run time; a class of the runtime has to be in it.
    assert set(classes(source)) <= set(classes(stub))
    for name, cls in classes(source).items():
        real, said = names_of(cls), names_of(classes(stub)[name])
        if "__init__" not in real:
            said.pop("__init__", None)
        assert functions(said) == functions(real), name
        attributes = {n for n, what in real.items() if what == "attribute"} | attributes_set(cls)
        assert {n for n, what in said.items() if what == "attribute"} == attributes, name


def test_package() -> None:
    """What `mica.X` gives is what its stub exports."""
    source = ast.parse((FIRMWARE / "mica" / "__init__.py").read_text())
    imported = {alias.name for n in ast.walk(source) if isinstance(n, ast.ImportFrom) for alias in n.names} - {"line"}
    later = {
        n.targets[0].id: ast.literal_eval(n.value.args[0])
        for n in source.body
        if isinstance(n, ast.Assign)
        and ast.unparse(n.value).startswith("_later(")
        and isinstance(n.targets[0], ast.Name)
    }
    # A module by its name, a name by its place in one.
    assert all(home.split(".")[-1] == name for name, home in later.items())
    stub = ast.parse((STUBS / "mica" / "__init__.pyi").read_text())
    exported = {alias.asname for n in stub.body if isinstance(n, ast.ImportFrom) for alias in n.names}
    assert exported == {*imported, *later}


def test_c_module(unix_board: Link) -> None:
    """Names of the C module and of its classes, asked of the module itself."""
    code = "import _mica\nfor o in (_mica, _mica.Model, _mica.Arena): print(*[n for n in dir(o) if n[0] != '_'])"
    module, model, arena = (set(line.split()) for line in unix_board.exec(code).decode().splitlines())
    stub = ast.parse((STUBS / "_mica.pyi").read_text())
    said = names_of(stub)
    types_only = {"Buffer", "Info", "Tokens", "TensorInfo", "StepInfo", "ModelInfo", "step"}
    assert set(said) - types_only == module
    for name, real in (("Model", model), ("Arena", arena)):
        assert set(functions(names_of(classes(stub)[name]))) - {"__init__"} == real, name
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


def test_examples_pass_mypy() -> None:
    """Stubs that are wrong about what examples do would be wrong for everybody."""
    files = sorted((FIRMWARE / "examples").glob("*.py"))
    command = [sys.executable, "-m", "mypy", "--config-file=", "--no-incremental", "--scripts-are-modules"]
    command += ["--disable-error-code=import-not-found", "--disable-error-code=union-attr"]
    done = subprocess.run(
        [*command, *map(str, files)],
        capture_output=True,
        text=True,
        env={**os.environ, "MYPYPATH": str(STUBS)},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
