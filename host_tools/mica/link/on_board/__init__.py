"""Programs that a board executes for us: the other files of this folder, in MicroPython's Python.

A file is either a few statements, for `source`, or defines one function, `_mica_` and the file's name, for `call`. What
is no code does not travel: comments stand on lines of their own. The answers are read by `link/answers.py`.
"""

from functools import cache
from importlib import resources


class Expression(str):
    """An argument that the board works out, such as the name of a variable there."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


@cache
def source(name: str) -> str:
    """The program of a file, as it goes over the wire."""
    text = resources.files(__name__).joinpath(f"{name}.py").read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if line.strip() and not line.lstrip().startswith("#"))


def again(name: str, *arguments: object) -> str:
    """A call of a file's function, on a board that has been sent its `source`."""
    return f"_mica_{name}({', '.join(map(repr, arguments))})\n"


def call(name: str, *arguments: object, into: str = "") -> str:
    """A program that defines a file's function and calls it. `into`: the variable that takes what it returns."""
    return source(name) + (f"{into} = " if into else "") + again(name, *arguments)
