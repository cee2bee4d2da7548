"""ONNX-ML's TreeEnsembleClassifier, TreeEnsembleRegressor and TreeEnsemble as a `Forest`: one kind of question for all.

x < t         =>   x <= the float32 before t
x >= t, > t   =>   the children of x < t, x <= t, exchanged
x == t, != t  =>   x <= t, then x <= the float32 before t
x in {a, b}   =>   x == a, else x == b; likewise of a chain of x == a, x == b whose answer is one node
x in {3, 4}   =>   3 <= x <= 4
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from mica.importer.protos import array_of
from mica.ir.forest import Forest

MOST_NODES = 1 << 22  # of a forest that is read: 16 MB and more in a file
MOST_SHARED = 1 << 16  # nodes of a forest whose branches share some
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
POST_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")

Attrs = Mapping[str, Any]
_Key = tuple[int, int]


class _Growing:
    """The tables of a Forest while nodes are added; children are filled in later."""

    def __init__(self) -> None:
        self.column: list[int] = []
        self.threshold: list[float] = []
        self.yes: list[int] = []
        self.no: list[int] = []
        self.missing: list[bool] = []
        self.entries: list[dict[int, float]] = []
        self.equal = False

    def add(self, column: int, threshold: float = 0.0, missing: bool = False) -> int:
        if len(self.column) >= MOST_NODES:
            raise ValueError(f"more than {MOST_NODES:,} nodes")
        self.column.append(column)
        self.threshold.append(threshold)
        self.missing.append(missing)
        self.yes.append(0)
        self.no.append(0)
        self.entries.append({})
        return len(self.column) - 1

    def forest(self, roots: Sequence[int], bias: np.ndarray, factor: float) -> Forest:
        counts = [len(e) for e in self.entries]
        return Forest(
            column=np.array(self.column, np.int64),
            threshold=np.array(self.threshold, np.float64),
            yes=np.array(self.yes, np.int64),
            no=np.array(self.no, np.int64),
            missing=np.array(self.missing, bool),
            entry=np.cumsum([0, *counts]).astype(np.int64),
            target=np.array([t for e in self.entries for t in sorted(e)], np.int64),
            value=np.array([e[t] for e in self.entries for t in sorted(e)], np.float64) * factor,
            roots=np.array(roots, np.int64),
            bias=bias,
            equal=self.equal,
        )


def array(attrs: Attrs, name: str) -> np.ndarray:
    """A list of numbers, under its name or, of doubles, with _as_tensor behind it; empty where it is absent."""
    v = attrs.get(f"{name}_as_tensor", attrs.get(name))
    if v is None:
        return np.zeros(0)
    return array_of(v) if isinstance(v, TensorProto) else np.asarray(v)


def _text(v: Any) -> str:
    return v.decode("utf-8", "replace") if isinstance(v, bytes) else str(v)


def post_transform(attrs: Attrs) -> str:
    """NONE, SOFTMAX or LOGISTIC. Raises ValueError for others."""
    v = attrs.get("post_transform", "NONE")
    name = POST_TRANSFORMS[v] if isinstance(v, int) and 0 <= v < len(POST_TRANSFORMS) else _text(v)
    if name not in ("NONE", "SOFTMAX", "LOGISTIC"):
        raise ValueError(f"post_transform {name}; NONE, SOFTMAX and LOGISTIC are supported")
    return name


def _factor(attrs: Attrs, trees: int) -> float:
    v = attrs.get("aggregate_function", "SUM")
    name = AGGREGATES[v] if isinstance(v, int) and 0 <= v < len(AGGREGATES) else _text(v)
    if name not in ("SUM", "AVERAGE"):
        raise ValueError(f"aggregate_function {name}; SUM and AVERAGE are supported")
    return 1.0 / trees if name == "AVERAGE" else 1.0


def _bias(attrs: Attrs, targets: int) -> np.ndarray:
    base = array(attrs, "base_values").astype(np.float64).reshape(-1)
    if base.size not in (0, 1, targets):
        raise ValueError(f"{base.size} base values for {targets} results")
    return np.broadcast_to(base, (targets,)).copy() if base.size else np.zeros(targets)


def node_list_forest(attrs: Attrs, what: str, targets: int) -> Forest:
    """The forest of a TreeEnsembleRegressor (what: "target") or TreeEnsembleClassifier ("class"). Raises ValueError."""
    ids = [array(attrs, f"nodes_{name}").astype(np.int64) for name in ("treeids", "nodeids")]
    column = array(attrs, "nodes_featureids").astype(np.int64)
    yes, no = (array(attrs, f"nodes_{name}nodeids").astype(np.int64) for name in ("true", "false"))
    split = array(attrs, "nodes_values").astype(np.float64)
    modes = [_text(m) for m in attrs.get("nodes_modes", ())]
    n = len(modes)
    missing = array(attrs, "nodes_missing_value_tracks_true").astype(bool)
    missing = missing if len(missing) else np.zeros(n, bool)
    if n == 0 or any(len(a) != n for a in (*ids, column, yes, no, split, missing)):
        raise ValueError("its lists of nodes differ in length, or are empty")
    keys: list[_Key] = list(zip(ids[0].tolist(), ids[1].tolist(), strict=True))
    place = {key: i for i, key in enumerate(keys)}
    if len(place) != n:
        raise ValueError("two nodes of a tree with one number")
    entries: dict[_Key, dict[int, float]] = {}
    lists = [array(attrs, f"{what}_{name}") for name in ("treeids", "nodeids", "ids", "weights")]
    if len({len(a) for a in lists}) != 1:
        raise ValueError("its lists of leaves differ in length")
    for tree, node, target, weight in zip(*(a.tolist() for a in lists), strict=True):
        if not 0 <= target < targets or (int(tree), int(node)) not in place:
            raise ValueError(f"a leaf of node {node} of tree {tree} for result {target}, of {targets}")
        leaf = entries.setdefault((int(tree), int(node)), {})
        leaf[int(target)] = leaf.get(int(target), 0.0) + float(weight)
    children = {
        int(place.get((keys[i][0], int(c)), -1)) for i in range(n) if modes[i] != "LEAF" for c in (yes[i], no[i])
    }
    roots = [i for i in range(n) if i not in children]

    def node_at(i: int) -> tuple[str, int, float, bool, Any, Any]:
        tree = keys[i][0]
        follow = [place.get((tree, int(c)), -1) for c in (yes[i], no[i])]
        if modes[i] != "LEAF" and -1 in follow:
            raise ValueError(f"node {keys[i][1]} of tree {tree} has a child that is not there")
        return modes[i], int(column[i]), float(split[i]), bool(missing[i]), follow[0], follow[1]

    def entries_of(i: int) -> dict[int, float]:
        return entries.get(keys[i], {})

    if len({keys[i][0] for i in roots}) != len(roots) or len(roots) != len(set(ids[0].tolist())):
        raise ValueError("a tree has no root, or more than one")
    return _grown(roots, node_at, entries_of, _bias(attrs, targets), _factor(attrs, len(roots)), n)


def tree_ensemble_forest(attrs: Attrs) -> Forest:
    """The forest of a TreeEnsemble of ai.onnx.ml 5. Raises ValueError."""
    column, yes, no, yes_leaf, no_leaf, roots, target = (
        array(attrs, name).astype(np.int64)
        for name in (
            *("nodes_featureids", "nodes_truenodeids", "nodes_falsenodeids", "nodes_trueleafs", "nodes_falseleafs"),
            *("tree_roots", "leaf_targetids"),
        )
    )
    split, weight = (array(attrs, name).astype(np.float64) for name in ("nodes_splits", "leaf_weights"))
    modes = array(attrs, "nodes_modes").astype(np.int64)
    missing = array(attrs, "nodes_missing_value_tracks_true").astype(bool)
    n, targets = len(column), int(attrs.get("n_targets", 1))
    missing = missing if len(missing) else np.zeros(n, bool)
    if any(len(a) != n for a in (yes, no, yes_leaf, no_leaf, split, modes, missing)) or len(target) != len(weight):
        raise ValueError("its lists of nodes or leaves differ in length")
    if not len(roots) or roots.min() < 0 or roots.max() >= n or not set(modes.tolist()) <= set(range(len(MODES))):
        raise ValueError("a tree without a root, or a node of an unknown mode")
    if len(target) and not (target.min() >= 0 and target.max() < targets):
        raise ValueError(f"a leaf for a result that is none of {targets}")
    members: list[list[float]] = [[]]
    for v in array(attrs, "membership_values").astype(np.float64).tolist():
        if np.isnan(v):
            members.append([])
        else:
            members[-1].append(v)
    sets = iter(members)
    values = [next(sets, []) if m == MODES.index("BRANCH_MEMBER") else float(split[i]) for i, m in enumerate(modes)]

    # Leaves are numbered behind the nodes.
    def child(i: int, is_leaf: int) -> int:
        if not 0 <= i < (len(target) if is_leaf else n):
            raise ValueError(f"a child {i} that is not there")
        return i + n if is_leaf else i

    def node(i: int) -> tuple[str, int, Any, bool, Any, Any]:
        if i >= n:
            return "LEAF", 0, 0.0, False, -1, -1
        follow = child(int(yes[i]), int(yes_leaf[i])), child(int(no[i]), int(no_leaf[i]))
        return MODES[int(modes[i])], int(column[i]), values[i], bool(missing[i]), *follow

    # A tree that is one leaf alone is written as a node with that leaf on both sides.
    def leaf(i: int) -> dict[int, float]:
        return {int(target[i - n]): float(weight[i - n])}

    return _grown(roots.tolist(), node, leaf, _bias(attrs, targets), _factor(attrs, len(roots)), n + len(target))


def _grown(roots: Sequence[int], node: Any, leaf: Any, bias: np.ndarray, factor: float, size: int) -> Forest:
    """node(i) -> (mode, column, value, missing, yes, no); leaf(i) -> {target: value}. Refuses what is no tree."""
    g = _Growing()
    todo: list[tuple[int, list[int], int]] = []  # (node, the table that its number goes to, where)
    starts: list[int] = [0] * len(roots)
    todo += [(int(r), starts, k) for k, r in enumerate(roots)]
    seen = 0
    while todo:
        i, table, at = todo.pop()
        seen += 1
        if seen > max(8 * size, MOST_SHARED):
            raise ValueError(
                "its trees run in a circle, or share branches that written out are too many; train with fewer "
                "categories, or encode them (OneHotEncoder)"
            )
        mode, column, value, missing, yes, no = node(i)
        if mode == "LEAF":
            table[at] = g.add(-1)
            g.entries[-1].update(leaf(i))
            continue
        if column < 0:
            raise ValueError(f"a question about feature {column}")
        if mode in ("BRANCH_GTE", "BRANCH_GT", "BRANCH_NEQ"):
            mode = {"BRANCH_GTE": "BRANCH_LT", "BRANCH_GT": "BRANCH_LEQ", "BRANCH_NEQ": "BRANCH_EQ"}[mode]
            yes, no, missing = no, yes, not missing
        if mode in ("BRANCH_LEQ", "BRANCH_LT"):
            table[at] = here = g.add(
                column, float(np.float32(value)) if mode == "BRANCH_LEQ" else _before(value), missing
            )
            todo += [(no, g.no, here), (yes, g.yes, here)]
        elif mode in ("BRANCH_EQ", "BRANCH_MEMBER"):
            g.equal = True
            if missing:
                raise ValueError("a question whether a feature is equal that a missing one answers with yes")
            values = list(value) if mode == "BRANCH_MEMBER" else [value]
            while mode == "BRANCH_EQ" and (follows := node(no))[:2] == (mode, column) and follows[3:5] == (False, yes):
                values.append(follows[2])  # a set of categories, as LightGBM's exporter writes it
                no = follows[5]
            for low, high in _runs(values):  # what is below one is none of those to come
                table[at] = upper = g.add(column, float(np.float32(high)))
                g.yes[upper] = lower = g.add(column, _before(low))
                todo += [(no, g.yes, lower), (yes, g.no, lower)]
                table, at = g.no, upper
            todo.append((no, table, at))
        else:
            raise ValueError(f"a node of mode {mode}")
    return g.forest(starts, bias, factor)


def _runs(values: Sequence[float]) -> list[tuple[float, float]]:
    """Return numbers in order as ranges: whole ones that follow each other are one."""
    runs: list[tuple[float, float]] = []
    for v in sorted(set(values)):
        if runs and v == runs[-1][1] + 1 and v == int(v) and abs(v) < 1 << 23:
            runs[-1] = runs[-1][0], v
        else:
            runs.append((v, v))
    return runs


def _before(t: float) -> float:
    """The largest float32 below t as a float32."""
    return float(np.nextafter(np.float32(t), np.float32(-np.inf)))
