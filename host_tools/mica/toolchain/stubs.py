"""Stubs for editors: from the annotations of firmware/mica/*.py, which MicroPython drops, firmware/typings/mica/*.pyi.

    python -m mica.toolchain.stubs

An annotation may name any class of the runtime, or a name of typings/_mica.pyi,
collections.abc or typing: the stub imports it. Attributes of a class and of its `self` have the type of their
annotation, else of the literal or parameter that they are given.
`**settings` stands for the settings of the class, `# overload: ...` above a function for one of its signatures.
"""

import ast
import builtins
import collections.abc
import copy
import typing
from collections.abc import Iterable, Iterator
from pathlib import Path

HEAD = "# Written by mica.toolchain.stubs from the runtime itself.\n"
Function = ast.FunctionDef | ast.AsyncFunctionDef


def write(firmware: Path) -> None:
    """Write typings/PACKAGE/*.pyi for each package in this folder."""
    modules = {}
    for path in sorted(firmware.glob("*/*.py")):
        if (path.parent / "__init__.py").exists():
            name = path.parent.name if path.stem == "__init__" else f"{path.parent.name}.{path.stem}"
            modules[name] = path
    trees = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in modules.items()}
    c_module = ast.parse((firmware / "typings" / "_mica.pyi").read_text(encoding="utf-8"))
    homes = {name: "_mica" for node in c_module.body for name in _names(node)}
    classes = {c.name: c for tree in trees.values() for c in tree.body if isinstance(c, ast.ClassDef)}
    homes |= {c.name: name for name, tree in trees.items() for c in tree.body if isinstance(c, ast.ClassDef)}
    for name, path in modules.items():
        target = firmware / "typings" / path.relative_to(firmware).with_suffix(".pyi")
        target.parent.mkdir(exist_ok=True)
        target.write_text(HEAD + _stub(name, path, trees[name], homes, classes), encoding="utf-8")


def _names(node: ast.stmt) -> Iterator[str]:
    """The names that a statement defines."""
    if isinstance(node, ast.ClassDef | Function):
        yield node.name
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            yield from (n.id for n in ast.walk(target) if isinstance(n, ast.Name))


def _stub(module: str, path: Path, tree: ast.Module, homes: dict[str, str], classes: dict[str, ast.ClassDef]) -> str:
    lines = path.read_text(encoding="utf-8").splitlines()
    head: list[str] = []
    body: list[ast.stmt] = []
    for node in tree.body:
        if isinstance(node, ast.ImportFrom | ast.Try) and path.stem == "__init__":
            inner = node.body if isinstance(node, ast.Try) else [node]
            head += [
                f"from {'.' * n.level}{n.module} import {a.name} as {a.name}"
                for n in inner
                if isinstance(n, ast.ImportFrom) and n.module and (n.level or n.module == "_mica")
                for a in n.names
            ]
        elif isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("later.later("):
            home, _, name = ast.literal_eval(node.value.args[0]).rpartition(".")  # type: ignore[attr-defined]
            head.append(f"from .{home} import {name} as {name}")
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            body.append(_class(node, lines, classes))
        elif isinstance(node, Function) and node.name == "__getattr__":
            head.append("from _mica import *")
        elif isinstance(node, Function) and not node.name.startswith("_"):
            body += _function(node, lines, classes)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            body += _constants(node)
    own = {name for node in body for name in _names(node)} | {line.rpartition(" ")[2] for line in head}
    named = {n for node in body for n in ast.walk(node) if isinstance(n, ast.Name)}
    used = {n.id for n in named if not isinstance(getattr(n, "ctx", None), ast.Store)} - own
    head += sorted(_import(name, homes) for name in used if not hasattr(builtins, name))
    return ast.unparse(ast.Module([*_docstring(tree), *ast.parse("\n".join(head)).body, *body], [])) + "\n"


def _import(name: str, homes: dict[str, str]) -> str:
    if name == "_mica":
        return "import _mica"
    places = (
        (homes.get(name), name in homes),
        ("array", name == "array"),
        ("collections.abc", hasattr(collections.abc, name)),
        ("typing", hasattr(typing, name)),
    )
    home = next((place for place, there in places if there), None)
    if home is None:
        raise ValueError(f"an annotation of the runtime names {name}; write its type into firmware/typings/_mica.pyi")
    return f"from {home} import {name}"


def _docstring(node: ast.Module | ast.ClassDef | Function) -> list[ast.stmt]:
    return node.body[:1] if ast.get_docstring(node) else []


def _annotated(name: str, annotation: ast.expr) -> ast.AnnAssign:
    return ast.AnnAssign(ast.Name(name, ast.Store()), annotation, None, 1)


def _type(value: ast.expr | None, parameters: dict[str, ast.expr]) -> ast.expr | None:
    """The type of a literal, or of a parameter; None where it is neither."""
    match value:
        case ast.Constant(v) if v is not None:
            return ast.Name(type(v).__name__)
        case ast.UnaryOp(_, operand):
            return _type(operand, parameters)
        case ast.Name(name):
            return parameters.get(name)
        case ast.Tuple(elements) if (
            len({ast.unparse(t) if (t := _type(e, parameters)) else None for e in elements}) == 1
        ):
            inner = _type(elements[0], parameters)
            return inner and ast.parse(f"tuple[{ast.unparse(inner)}, ...]", mode="eval").body
    return None


def _constants(node: ast.Assign | ast.AnnAssign) -> list[ast.stmt]:
    """Public names of a module or class with their types, and a namedtuple as a class."""
    if isinstance(node, ast.Assign):
        if isinstance(node.value, ast.Name) and node.value.id[0].isupper():
            return [node]  # another name of a class
        pairs = [(ast.unparse(name), a) for target in node.targets for name, a in _pairs(target, node.value, {})]
        return [_annotated(name, a or ast.Name("Any")) for name, a in pairs if name[0] != "_" or name == "__version__"]
    name, value = ast.unparse(node.target), node.value
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "namedtuple":
        types = node.annotation.slice.elts  # type: ignore[attr-defined]
        fields = zip(ast.literal_eval(value.args[1]), types, strict=True)
        return [ast.ClassDef(name, [ast.Name("NamedTuple")], [], [_annotated(*f) for f in fields], [])]
    return [] if name.startswith("_") else [_annotated(name, node.annotation)]


def _function(node: Function, lines: list[str], classes: dict[str, ast.ClassDef], owner: str = "") -> list[ast.stmt]:
    new = copy.copy(node)
    new.args = copy.deepcopy(node.args)
    if new.args.kwarg and new.args.kwarg.arg == "settings":
        _expand(new.args, classes[owner], classes)
    new.body = _docstring(node) or [ast.Expr(ast.Constant(...))]
    first = node.lineno - 2
    overloads: list[ast.stmt] = []
    while lines[first].strip().startswith("# overload: "):
        text = lines[first].strip().removeprefix("# overload: ")
        overloads[:0] = ast.parse(f"@overload\ndef {node.name}{text}: ...").body
        first -= 1
    if overloads:
        overloads[0].body = new.body  # type: ignore[attr-defined]
    return overloads or [new]


def _expand(args: ast.arguments, cls: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> None:
    """Put the settings of a class, by name and with their defaults, in the place of **settings."""
    known: dict[str, ast.AnnAssign] = {}
    line = [cls]
    while line[-1].bases and (base := classes.get(ast.unparse(line[-1].bases[0]))):
        line.append(base)
    for c in reversed(line):
        known |= {n.target.id: n for n in c.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)}
    own = next(n for n in cls.body if isinstance(n, ast.Assign) and "_SETTINGS" in _names(n))
    for name in ast.literal_eval(own.value):
        args.kwonlyargs.append(ast.arg(name, known[name].annotation))
        args.kw_defaults.append(known[name].value)
    args.kwarg = None


def _class(node: ast.ClassDef, lines: list[str], classes: dict[str, ast.ClassDef]) -> ast.ClassDef:
    methods = [m for m in node.body if isinstance(m, Function)]
    said = [n for c in node.body if isinstance(c, ast.Assign | ast.AnnAssign) for n in _constants(c)]
    shown = {name for n in said for name in _names(n)}  # a property among them stands for an attribute
    names = shown | {m.name for m in methods}
    found: dict[str, ast.expr | None] = {}
    for method in methods:
        for name, annotation in _of_self(method):
            if name not in names and not name.startswith("_"):
                found[name] = found.get(name) or annotation
    body = _docstring(node) + said + [_annotated(n, a or ast.Name("Any")) for n, a in found.items()]
    for method in methods:
        # Other names with underscores are every object's, or nobody calls them.
        public = method.name[0] != "_" or method.name == "__init__" or (method.name[:2] == "__" and method.returns)
        if public and method.name not in shown:
            body += _function(method, lines, classes, node.name)
    return ast.ClassDef(node.name, node.bases, [], body or [ast.Expr(ast.Constant(...))], [])


def _of_self(method: Function) -> Iterator[tuple[str, ast.expr | None]]:
    """Attributes that a method gives to self, and their types where they are known."""
    parameters = {a.arg: a.annotation for a in [*method.args.args, *method.args.kwonlyargs] if a.annotation}
    for node in ast.walk(method):
        if isinstance(node, ast.AnnAssign):
            pairs: Iterable[tuple[ast.expr, ast.expr | None]] = [(node.target, node.annotation)]
        elif isinstance(node, ast.Assign):
            pairs = [pair for target in node.targets for pair in _pairs(target, node.value, parameters)]
        else:
            continue
        for target, annotation in pairs:
            if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self":
                yield target.attr, annotation


def _pairs(
    target: ast.expr, value: ast.expr, parameters: dict[str, ast.expr]
) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    if isinstance(target, ast.Tuple):
        values = value.elts if isinstance(value, ast.Tuple) else [None] * len(target.elts)
        for one, v in zip(target.elts, values, strict=True):
            yield one, _type(v, parameters)
    else:
        yield target, _type(value, parameters)


if __name__ == "__main__":
    write(Path(__file__).resolve().parents[3] / "firmware")
