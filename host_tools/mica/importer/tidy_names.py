"""Gives the values of an ONNX graph names that a .mica file may have, before anything is made of the graph."""

from collections.abc import Iterator

import onnx

from mica.format.names import clean

MOST = 200  # bytes: passes make names of names


def tidy_names(graph: onnx.GraphProto) -> None:
    """In place: values 'a\\x1b' and 'b  c' become 'a?' and 'b c', with a number where such a value is there already."""
    graphs = list(_graphs(graph))
    found = {name for g in graphs for name in _names(g)} - {""}
    kept = {name for name in found if clean(name, MOST) == name}
    new: dict[str, str] = {}
    for name in sorted(found - kept):
        tidy = stem = clean(name, MOST) or "?"
        number = 2
        while tidy in kept:
            tidy = f"{stem}_{number}"
            number += 1
        kept.add(tidy)
        new[name] = tidy
    if new:
        for g in graphs:
            _rename(g, new)


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """The graph and those in the attributes of its nodes."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
                yield from _graphs(inner)


def _names(graph: onnx.GraphProto) -> Iterator[str]:
    for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        yield value.name
    for node in graph.node:
        yield from (*node.input, *node.output)


def _rename(graph: onnx.GraphProto, new: dict[str, str]) -> None:
    for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        value.name = new.get(value.name, value.name)
    for node in graph.node:
        node.input[:] = [new.get(name, name) for name in node.input]
        node.output[:] = [new.get(name, name) for name in node.output]
