"""Finds of which pieces a value is made, through what only moves them.

Concat(a, b)                                 a, b along its axis
Transpose(Concat(a, b)), Reshape(...)        Transpose(a), Transpose(b) along another
Concat(Concat(a1, b1), Concat(a2, b2))       over two axes: Concat(a1, b1) and Concat(a2, b2), or Concat(a1,
                                             a2) and Concat(b1, b2)
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mica.ir.graph import Graph, Node
from mica.passes.builder import Builder
from mica.passes.lower.movement import concat

Emit = Callable[[Builder], str]  # writes the nodes of a piece; the name of its value


@dataclass(frozen=True)
class Piece:
    """Something that a join is made of: its shape, the values whose elements it has, and how to make it."""

    shape: tuple[int, ...]
    sources: tuple[str, ...]
    emit: Emit


@dataclass(frozen=True)
class Join:
    """A value as pieces that lie one behind the other along an axis."""

    axis: int
    pieces: tuple[Piece, ...]


_DEPTH = 100  # nodes behind one another that are looked through


class Finder:
    """All ways in which a value is made of pieces."""

    def __init__(self, g: Graph) -> None:
        self.g = g
        self.producers = g.producers()

    def joins(self, name: str, depth: int = 0) -> list[Join]:
        node = self.producers.get(name)
        if (
            node is None or depth > _DEPTH or self.g.value(name).quant is not None
        ):  # a model that came quantised keeps its scales
            return []
        if node.op == "Concat":
            return self._concat(node, depth)
        if node.op not in ("Reshape", "Transpose"):
            return []
        moved = [self._moved(node, join) for join in self.joins(node.inputs[0], depth + 1)]
        return [join for join in moved if join is not None]

    def _value(self, name: str) -> Piece:
        return Piece(self.g.value(name).shape, (name,), lambda b: name)

    def _concat(self, node: Node, depth: int) -> list[Join]:
        axis = node.attrs["axis"]
        inside = [self.joins(i, depth + 1) for i in node.inputs]
        pieces: list[Piece] = []
        for i, joins in zip(node.inputs, inside, strict=True):
            along = next((j for j in joins if j.axis == axis), None)
            pieces += along.pieces if along else [self._value(i)]
        found = [Join(axis, tuple(pieces))]
        for other in sorted({j.axis for j in inside[0]} - {axis}):
            rows = [next((j for j in joins if j.axis == other), None) for joins in inside]
            across = [j for j in rows if j is not None]
            sizes = {tuple(p.shape[other] for p in j.pieces) for j in across}
            if len(across) == len(rows) and len(sizes) == 1:
                columns = zip(*(j.pieces for j in across), strict=True)
                found.append(Join(other, tuple(together(column, axis) for column in columns)))
        return found

    def _moved(self, node: Node, join: Join) -> Join | None:
        """A join behind a Transpose or a Reshape; None where the pieces would not lie along one axis."""
        if node.op == "Transpose":
            perm = node.attrs["perm"]
            return Join(perm.index(join.axis), tuple(transposed(p, perm) for p in join.pieces))
        old, new = self.g.value(node.inputs[0]).shape, self.g.value(node.outputs[0]).shape
        behind = math.prod(old[join.axis + 1 :])
        for axis in range(len(new)):
            if math.prod(new[:axis]) != math.prod(old[: join.axis]):
                continue
            one = math.prod(new[axis + 1 :])
            sizes = [p.shape[join.axis] * behind for p in join.pieces]
            if all(size % one == 0 for size in sizes):
                shapes = [(*new[:axis], size // one, *new[axis + 1 :]) for size in sizes]
                return Join(axis, tuple(reshaped(p, s) for p, s in zip(join.pieces, shapes, strict=True)))
        return None


def transposed(p: Piece, perm: Sequence[int]) -> Piece:
    return Piece(tuple(p.shape[k] for k in perm), p.sources, lambda b: b.transpose(p.emit(b), perm))


def reshaped(p: Piece, shape: tuple[int, ...]) -> Piece:
    return replace(p, shape=shape, emit=lambda b: b.reshape(p.emit(b), shape))


def together(pieces: Sequence[Piece], axis: int) -> Piece:
    if len(pieces) == 1:
        return pieces[0]
    shape = list(pieces[0].shape)
    shape[axis] = sum(p.shape[axis] for p in pieces)
    sources = tuple(s for p in pieces for s in p.sources)
    return Piece(tuple(shape), sources, lambda b: concat(b, [p.emit(b) for p in pieces], axis))
