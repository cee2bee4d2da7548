"""Rows of features: onto one scale, into ranks, through trees."""

import numpy as np

from mica.format.values import HIGH, LOW
from mica.ir.forest import Forest
from mica.ir.graph import Graph, Node, Quant
from mica.kernels import tabular
from mica.quantise.kernels.common import act, emit, quant
from mica.quantise.params import quantise_multiplier

OPEN = (None, None)


def _features(g: Graph, out: Graph, node: Node) -> None:
    q = quant(out, node.outputs[0])
    factor, shift, missing = (np.asarray(g.data(i), np.float64) for i in node.inputs[1:])
    missing = np.where(np.isnan(missing), shift, missing)
    blobs = [*place(factor / q.scale, shift / q.scale + q.zero_point), q.quantise(missing)]
    emit(out, node, "features_s8", node.inputs[:1], blobs, act(q, OPEN))


def place(factor: np.ndarray, shift: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """scale int32, exponent int8 and offset int32 that put x at the place x * factor + shift of a grid."""
    mantissa, exponent = np.frexp(factor * 2.0**tabular.FRACTION)
    scale = np.rint(mantissa * 2.0**31).astype(np.int64)
    full = np.abs(scale) > 2**31 - 1  # a mantissa that rounded up to 1
    scale, exponent = np.where(full, scale // 2, scale), np.where(scale == 0, 0, exponent - 31 + full)
    offset = np.rint(shift * 2**tabular.FRACTION)
    if exponent.min() < -128 or exponent.max() > 127 or np.abs(offset).max() > 2**31 - 1:
        worst = int(np.argmax(np.abs(offset)))
        raise ValueError(f"feature {worst} is too far from zero for its range; subtract its mean before the model")
    return scale.astype(np.int32), exponent.astype(np.int8), offset.astype(np.int32)


def _ranks(g: Graph, out: Graph, node: Node) -> None:
    thresholds, first, source, missing = (np.asarray(g.data(i)) for i in node.inputs[1:])
    missing = np.where(np.isnan(missing), np.diff(first) - 128, missing)  # more than all thresholds
    keys = tabular.keys(thresholds.astype(np.float32).view(np.int32)).astype(np.int32)
    blobs: list[np.ndarray] = [keys, first.astype(np.uint32), source.astype(np.uint16), missing.astype(np.int8)]
    emit(out, node, "ranks_s8", node.inputs[:1], blobs, {"count": len(keys)})


def _trees(g: Graph, out: Graph, node: Node) -> None:
    forest: Forest = node.attrs["forest"]
    qx, qy = quant(out, node.inputs[0]), quant(out, node.outputs[0])
    if len(forest.roots) > tabular.MOST_TREES:
        raise ValueError(f"{len(forest.roots)} trees; a layer has {tabular.MOST_TREES} at most")
    largest = max(np.abs(forest.value).max(initial=0.0) / tabular.LEAF_MOST, np.abs(forest.bias).max() / 2.0**29)
    step = largest or 1.0
    bias = np.rint(forest.bias / step).astype(np.int32)
    mult, shift = quantise_multiplier(np.array([step / qy.scale]))
    small = _small_nodes(forest, qx, step) if out.value(node.inputs[0]).shape[-1] <= tabular.FOREST_COLUMNS else None
    if small is not None:
        nodes, roots, leaves = small
        params = {"words": len(nodes), "trees": len(roots), "units": len(leaves)}
        blobs = [np.array(nodes, np.int32), np.array(roots, np.uint32), np.array(leaves, np.int32), bias]
        kernel = "forest_s8"
    else:
        words, roots = _words(forest, qx, step)
        params = {"words": len(words), "trees": len(roots)}
        blobs = [np.array(words, np.uint16), np.array(roots, np.uint32), bias]
        kernel = "trees_s8"
    params |= {"mult": int(mult[0]), "shift": int(shift[0]), **act(qy, OPEN)}
    emit(out, node, kernel, node.inputs[:1], blobs, params)


def _thresholds(f: Forest, qx: Quant) -> np.ndarray:
    """int64 [n], within int8."""
    return np.clip(np.floor(f.threshold / qx.scale + 1e-9) + qx.zero_point, LOW, HIGH).astype(np.int64)


def _small_nodes(f: Forest, qx: Quant, step: float) -> tuple[list[int], list[int], list[int]] | None:
    """Nodes, roots and leaves of forest_s8 (SPEC.md); None where a tree or all leaves are too large for it.
    step: of what leaves add."""
    thresholds, values = _thresholds(f, qx).tolist(), np.rint(f.value / step).astype(np.int64)
    nodes: list[int] = []
    roots: list[int] = []
    leaves: list[int] = []
    places: dict[tuple[int, ...], int] = {}
    for root in f.roots.tolist():
        roots.append(len(nodes))
        todo = [(root, -1)]
        while todo:
            i, parent = todo.pop()
            if parent >= 0:
                far = len(nodes) - parent - 1
                if far > tabular.FIELD:
                    return None
                nodes[parent] |= far << tabular.FIELD_SHIFT
            if f.column[i] < 0:
                entries = _entries(f, values, i)
                place = places.setdefault(entries, len(leaves))
                if place > tabular.FIELD:
                    return None
                if place == len(leaves):
                    leaves += entries
                nodes.append(tabular.LEAF_MARK | place << tabular.FIELD_SHIFT)
                continue
            nodes.append(int(thresholds[i]) << 24 | int(f.column[i]))
            todo += [(int(f.no[i]), len(nodes) - 1), (int(f.yes[i]), -1)]
    if len(leaves) > tabular.FIELD + 1:
        return None
    return nodes + [tabular.LEAF_MARK] * tabular.SPARE, roots, leaves


def _entries(f: Forest, values: np.ndarray, i: int) -> tuple[int, ...]:
    """The words of a leaf of forest_s8, without those that add nothing, but at least one."""
    entries = [(int(f.target[e]), int(values[e])) for e in range(int(f.entry[i]), int(f.entry[i + 1])) if values[e]]
    entries = entries or [(0, 0)]
    last = len(entries) - 1
    return tuple(v << 16 | (tabular.MORE_ENTRIES if k < last else 0) | t for k, (t, v) in enumerate(entries))


def _words(f: Forest, qx: Quant, step: float) -> tuple[list[int], list[int]]:
    """The records of all trees (SPEC.md, trees_s8), and where each tree begins. step: of what leaves add."""
    thresholds = _thresholds(f, qx) & 255
    values = np.rint(f.value / step).astype(np.int64)
    words: list[int] = []
    roots = []
    for root in f.roots.tolist():
        roots.append(len(words))
        todo = [(root, -1)]
        while todo:
            i, jump = todo.pop()
            if jump >= 0:
                far = len(words) - jump - 1
                if far > tabular.MOST_JUMP:
                    raise ValueError(
                        f"a tree is too large: {2 * far:,} bytes on one side of a node, {2 * tabular.MOST_JUMP:,} at "
                        "most. Train it with fewer leaves (max_leaf_nodes, max_depth)"
                    )
                words[jump] = tabular.INSIDE | far
            if f.column[i] < 0:
                words += _leaf(f, values, i)
                continue
            words += [int(f.column[i]), tabular.INSIDE | int(thresholds[i]), 0]
            todo += [(int(f.no[i]), len(words) - 1), (int(f.yes[i]), -1)]
    return words, roots


def _leaf(f: Forest, values: np.ndarray, i: int) -> list[int]:
    """The entries of a leaf, without those that add nothing, but at least one."""
    entries = [(int(f.target[e]), int(values[e])) for e in range(int(f.entry[i]), int(f.entry[i + 1])) if values[e]]
    entries = entries or [(0, 0)]
    words = []
    for k, (target, value) in enumerate(entries):
        more = tabular.MORE if k + 1 < len(entries) else 0
        words += [tabular.LEAF | more | target, tabular.INSIDE | value & tabular.MOST_JUMP]
    return words


STEPS = {"Features": _features, "Ranks": _ranks, "Trees": _trees}
