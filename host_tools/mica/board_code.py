"""Runs files of the boards' runtime in this Python: a computer then gives a board's answers by its own code."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from mica.resources import data_dir


def load(name: str, **names: Any) -> Any:
    """Return firmware/mica/<name>.py as a module; `names` then take the place of names in it.

    MicroPython drops annotations; here nobody evaluates them.
    """
    path, module = data_dir("firmware") / "mica" / f"{name}.py", ModuleType(f"mica.board.{name}")
    exec(compile(path.read_text(encoding="utf-8"), path, "exec", annotations.compiler_flag), vars(module))
    vars(module).update(names)
    return module
