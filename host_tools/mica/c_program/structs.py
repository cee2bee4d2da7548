"""Structures of the C headers as ctypes: through them the tables that this computer's engine has loaded are read.

The headers are their only description: the parameters of kernels stand in usermod_c/include/families.
"""

import ctypes
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mica.errors import MicaError

_HEADERS = ("include/mica.h", "include/mica_format.h", "include/families/*.h", "runtime/model.h")
_SCALARS = {
    **{f"{sign}int{bits}_t": getattr(ctypes, f"c_{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **{"bool": ctypes.c_bool, "size_t": ctypes.c_size_t, "float": ctypes.c_float},
}
_PLACE = re.compile(r"\s*\**(\w+)(?:\[([^\]]+)\])?\s*")
_BODY = r"\{((?:[^{}]|\{[^{}]*\})*)\}"
Address = Callable[[int], str]  # an address in this computer's memory as an expression in C
Path_ = tuple[str, ...]  # of a member: names, from the outermost on


class Structs:
    """The structures that the headers of usermod_c declare, by their names."""

    def __init__(self, usermod: Path) -> None:
        files = [path for pattern in _HEADERS for path in sorted(usermod.glob(pattern))]
        text = "\n".join(path.read_text(encoding="utf-8") for path in files)
        self._text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)
        self._known: dict[str, Any] = {}

    def number(self, name: str) -> int:
        """Return the length of an array: a number, the name of a constant, or a sum of such."""
        if "+" in name:
            return sum(self.number(part.strip()) for part in name.split("+"))
        if name.isdigit():
            return int(name)
        found = re.search(rf"#define {name} \(?(\w+)\)?$|\b{name} = (\w+)", self._text, re.M)
        if found is None:
            raise MicaError(f"usermod_c: {name} is no constant")
        return int(found[1] or found[2], 0)

    def load(self, name: str) -> Any:
        """Return the class for a type: a scalar's, or a structure's, whose `c_types` are the types of its pointers."""
        if name not in self._known:
            found = re.search(rf"typedef struct (?:\w+ )?{_BODY} {name};|struct {name} {_BODY};", self._text)
            if name not in _SCALARS and found is None:
                raise MicaError(f"usermod_c: {name} is no structure")
            self._known[name] = _SCALARS.get(name) or self._structure(name, found[1] or found[2] if found else "")
        return self._known[name]

    def _structure(self, name: str, body: str) -> Any:
        fields: list[tuple[str, Any]] = []
        pointers: dict[str, str] = {}
        for member in re.findall(r"(?:[^;{}]|\{[^{}]*\})+(?=;)", body):
            nested = re.fullmatch(r"struct \{(.*)\} (\w+\[[^\]]+\])", member.strip(), re.S)
            kind, places = (nested[1], nested[2]) if nested else _declared(member)
            for place in places.split(","):
                plain, length = _PLACE.fullmatch(place).groups()  # type: ignore[union-attr]
                if "*" in place:
                    pointers[plain] = f"{kind} *"
                    of: Any = ctypes.c_void_p
                else:
                    of = self._structure(plain, kind) if nested else self.load(kind.removeprefix("const "))
                fields.append((plain, of * self.number(length) if length else of))
        return type(name, (ctypes.Structure,), {"_fields_": fields, "c_types": pointers})


def _declared(member: str) -> tuple[str, str]:
    """Split a member into its type and its names."""
    found = re.fullmatch(r"((?:const )?(?:struct )?\w+)\s+(.*)", member.strip(), re.S)
    if found is None:
        raise MicaError(f"usermod_c: cannot read the member {member.strip()!r}")
    return found[1], found[2]


def members(value: Any, before: Path_ = ()) -> Iterator[tuple[Path_, Any, str]]:
    """Yield the scalars of a structure, and of its arrays: path, value and, of a pointer, its type in C."""
    for name, of in value._fields_:
        item, kind = getattr(value, name), value.c_types.get(name, "")
        if issubclass(of, ctypes.Structure):
            yield from members(item, (*before, f".{name}"))
        elif issubclass(of, ctypes.Array):
            for i, element in enumerate(item):
                place = (*before, f".{name}", f"[{i}]")
                if isinstance(element, ctypes.Structure):
                    yield from members(element, place)
                else:
                    yield place, element, kind
        else:
            yield (*before, f".{name}"), item, kind


def scalar(value: Any, kind: str, address: Address) -> str:
    """Return a scalar in C."""
    if kind:
        return f"({kind}){address(value)}" if value else "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if value >= 1 << 31:
        return f"{value}u" if value < 1 << 32 else f"{value}ull"
    return str(value) if value > -(1 << 31) else f"(-{-value - 1} - 1)"


def initialiser(value: Any, address: Address) -> str:
    """Return the initialiser of a structure, with a line for each member that is not 0."""
    lines = [
        f"    {''.join(path)} = {scalar(item, kind, address)}," for path, item, kind in members(value) if item or kind
    ]
    return "{\n" + "\n".join(lines) + "\n}"
