"""Functions of one tree's answer go into its leaves, and sums of such trees become one ensemble.

y = f(TreeEnsemble(x)), one tree                       =>   y = TreeEnsemble(x), with f of each leaf
y = f(LabelEncoder(x)), f(x < [t, u, ..]), x a feature =>   likewise, of a tree that asks which interval x is in
Sum(TreeEnsemble(x), TreeEnsemble(x)), Concat(..)      =>   TreeEnsemble(x) of all trees
TreeEnsemble(Concat(x, LabelEncoder(x)))               =>   TreeEnsemble(x), with other thresholds

So exporters write AdaBoost, IsolationForest, KBinsDiscretizer and OrdinalEncoder: with whole numbers, which int8 would
not keep. Trees whose answers nobody computes whole numbers from stay as they are.
"""

from dataclasses import dataclass, replace

import numpy as np

from mica.ir.forest import Forest
from mica.ir.graph import Graph, Node
from mica.passes import dead_code
from mica.passes.leaf_trees import before, joined, leaf_values, step_forest, summed, with_values
from mica.passes.leaf_values import COMPARISONS, MOST, RENAMES, apply, given, renames

MOST_STEPS = 1 << 12  # of a feature


@dataclass(frozen=True, eq=False)
class Leaves:
    """A function of one tree's leaves. values [leaves, *shape]; whole: places that an ArgMax found.

    keys: of an encoder, the number that each leaf stands for, NaN where it is none of its keys. steps: of a tree that
    asks for an interval, where these end.
    """

    source: str
    x: str
    tree: Forest
    values: np.ndarray
    whole: bool
    keys: np.ndarray | None = None
    steps: np.ndarray | None = None

    @property
    def forest(self) -> Forest:
        """The tree with these answers, without intervals that give the same as the next."""
        if self.steps is None:
            return with_values(self.tree, self.values)
        rows = self.values.reshape(len(self.values), -1)
        ends = np.append((rows[1:] != rows[:-1]).any(axis=1), True)
        return with_values(step_forest(int(self.tree.column[0]), self.steps[ends[:-1]]), rows[ends])


def run(g: Graph) -> Graph:
    if not any(n.op in ("TreeEnsemble", "LabelEncoder", *COMPARISONS) for n in g.nodes):
        return g
    finder = _Finder(g)
    for node in list(g.nodes):
        finder.take(node)
    return dead_code.run(g) if finder.write() else g


class _Finder:
    def __init__(self, g: Graph) -> None:
        self.g = g
        self.producers = g.producers()
        self.leaves: dict[str, Leaves] = {}
        self.sums: dict[str, tuple[str, Forest]] = {}
        self.fixed: dict[str, np.ndarray] = {}  # constants as exporters write them that know no batch: x * 0 + 1
        self.taken: set[str] = set()  # sources whose functions go into their leaves
        self.changed = False

    def take(self, node: Node) -> None:
        out = node.outputs[0]
        if not node.inputs or any(node.outputs[1:]) or self._is_fixed(node):
            return
        if node.op == "TreeEnsemble" and not self._leaves_of(node):
            self._compose(node)
        found = self._source(node) or self._function(node)
        if found is not None:
            self.leaves[out] = found
        elif (ensemble := self._sum(node)) is not None:
            self.sums[out] = ensemble

    def _data(self, name: str) -> np.ndarray | None:
        """A constant, however it is written."""
        return self.fixed[name] if name in self.fixed else self.g.data(name)

    def _is_fixed(self, node: Node) -> bool:
        shape = self.g.value(node.outputs[0]).shape
        data = [self._data(i) for i in node.inputs]
        if node.op == "Mul" and any(a is not None and a.size and not a.any() for a in data):
            self.fixed[node.outputs[0]] = np.zeros(shape, np.float32)
        elif node.op == "Add" and any(i in self.fixed for i in node.inputs):
            a, b = data
            if a is not None and b is not None:
                self.fixed[node.outputs[0]] = np.broadcast_to(a + b, shape)
        return node.outputs[0] in self.fixed

    def _leaves_of(self, node: Node) -> list[Leaves]:
        """Return those that a node reads, if all that it reads is of one tree or constant; else none."""
        found = [self.leaves.get(i) for i in node.inputs if self._data(i) is None]
        known = [f for f in found if f is not None]
        one = len({f.source for f in known}) == 1 and len(known) == len(found) and "" not in node.inputs
        return known if one else []

    def _source(self, node: Node) -> Leaves | None:
        g, out = self.g, node.outputs[0]
        x = next((i for i in node.inputs if not g.is_const(i)), "")
        if not x or x in self.leaves:
            return None
        if node.op == "TreeEnsemble":
            tree: Forest = node.attrs["forest"]
            one = len(tree.roots) == 1 and g.value(out).size == len(tree.bias)
            if not one or len(tree.column) * len(tree.bias) > MOST:
                return None
            x, tree = self._from_given(x, tree)
            answers = leaf_values(tree).astype(np.float32)
            return Leaves(out, x, tree, answers.reshape(-1, *g.value(out).shape), False)
        feature = given(g, self.producers, x) if g.value(x).size == 1 else None
        vector = node.op in COMPARISONS and g.value(out).size > 1 and sum(g.is_const(i) for i in node.inputs) == 1
        if feature is None or not (vector or node.op == "LabelEncoder"):
            return None
        name, places = feature
        if vector:
            edges = next(a for i in node.inputs if (a := g.data(i)) is not None).astype(np.float32).reshape(-1)
        else:
            edges = np.asarray(node.attrs["keys"], np.float32)
        steps = np.unique(np.concatenate([before(edges), edges.astype(np.float64)]))
        if len(steps) > MOST_STEPS:
            return None
        points: np.ndarray = np.append(steps, np.inf).astype(np.float32).reshape(-1, *g.value(x).shape)
        self.taken.add(out)
        row = points.reshape(-1)
        keys = None if vector else np.where(np.isin(row, edges), row, np.nan)
        arrays: list[np.ndarray | None] = [points if i == x else g.data(i) for i in node.inputs]
        values = apply(g, node, arrays, node.inputs.index(x))
        tree = step_forest(int(places[0]), steps)
        return None if values is None else Leaves(out, name, tree, values, False, keys, steps)

    def _from_given(self, x: str, tree: Forest) -> tuple[str, Forest]:
        """A forest that reads picked features, as one that reads them where they are."""
        feature = given(self.g, self.producers, x)
        if feature is None or feature[0] == x or tree.columns > len(feature[1]):
            return x, tree
        return feature[0], replace(tree, column=np.where(tree.column >= 0, feature[1][tree.column], -1))

    def _function(self, node: Node) -> Leaves | None:
        known = self._leaves_of(node)
        if not known:
            return None
        at = [k for k, i in enumerate(node.inputs) if i in self.leaves]
        arrays = [self.leaves[i].values if i in self.leaves else self._data(i) for i in node.inputs]
        values = apply(self.g, node, arrays, *at)
        if values is None:
            return None
        renamed = node.op in RENAMES or (node.op == "Concat" and len(node.inputs) == 1)
        whole = any(f.whole for f in known)
        if node.op == "LabelEncoder" or (whole and not renamed):
            self.taken.add(known[0].source)
        keys = known[0].keys if renamed else None
        return replace(known[0], values=values, whole=node.op in ("ArgMax", "ArgMin") or (renamed and whole), keys=keys)

    def _ensemble(self, name: str) -> tuple[str, Forest] | None:
        f = self.leaves.get(name)
        if f is None:
            return self.sums.get(name)
        return (f.x, f.forest) if f.source in self.taken else None

    def _sum(self, node: Node) -> tuple[str, Forest] | None:
        g, shape = self.g, self.g.value(node.outputs[0]).shape
        parts = [p for i in node.inputs if i and (p := self._ensemble(i)) is not None]
        if len(parts) < len(node.inputs) or len({x for x, _ in parts}) != 1:
            return None
        forests = [f for _, f in parts]
        if node.op in ("Add", "Sum") and len({g.value(i).size for i in (*node.inputs, node.outputs[0])}) == 1:
            return parts[0][0], summed(forests)
        if node.op == "Concat" and node.attrs.get("axis") in (-1, len(shape) - 1) and len(shape) <= 2:
            return parts[0][0], joined(forests)
        return parts[0] if renames(node) else None

    def _compose(self, node: Node) -> None:
        """Trees that read features and encoders of features ask the features themselves."""
        g, concat = self.g, self.producers.get(node.inputs[0])
        row = g.value(node.inputs[0])
        if concat is None or concat.op != "Concat" or row.size != row.shape[-1]:
            return
        columns: list[tuple[int, np.ndarray | None, np.ndarray | None]] = []
        names = set()
        for i in self._flat(concat):
            f, feature = self.leaves.get(i), given(g, self.producers, i)
            if f is not None and f.keys is not None:
                there = ~np.isnan(f.keys)
                numbers, names_of = f.keys[there], f.values.reshape(len(f.values), -1)[there, 0].astype(np.float64)
                if (np.diff(names_of) <= 0).any():
                    return
                names.add(f.x)
                columns.append((int(f.tree.column[0]), numbers, names_of))
            elif feature is not None:
                names.add(feature[0])
                columns += [(int(p), None, None) for p in feature[1]]
            else:
                return
        tree: Forest = node.attrs["forest"]
        if len(names) != 1 or all(keys is None for _, keys, _ in columns) or tree.columns > len(columns):
            return
        threshold, column = tree.threshold.copy(), tree.column.copy()
        for k in np.flatnonzero(tree.column >= 0):
            column[k], known, named = columns[tree.column[k]]
            if known is not None and named is not None:
                edges = np.concatenate([[known[0] - 1], (known[1:] + known[:-1]) / 2, [known[-1] + 1]])
                threshold[k] = edges[int((named <= tree.threshold[k]).sum())]
        node.inputs, node.attrs = [names.pop()], {"forest": replace(tree, threshold=threshold, column=column)}
        self.changed = True
        g.warnings.append(f"'{node.outputs[0]}': a number that is none of its categories counts as the nearest of them")

    def _flat(self, concat: Node) -> list[str]:
        """The parts of a Concat, and of those inside of it."""
        parts: list[str] = []
        for i in concat.inputs:
            name, node = i, self.producers.get(i)
            while node is not None and renames(node) and name not in self.leaves:
                name, node = node.inputs[0], self.producers.get(node.inputs[0])
            inner = node is not None and node.op == "Concat" and name not in self.leaves
            parts += self._flat(node) if inner and node is not None else [i]
        return parts

    def write(self) -> bool:
        g, consumers = self.g, self.g.consumers()
        inside = [*(name for name, f in self.leaves.items() if f.source in self.taken), *self.sums]
        among, sources = set(inside), {f.source for f in self.leaves.values()}
        for name in inside:
            readers = consumers.get(name, [])
            stays = name in g.outputs and not (name in self.leaves and self.leaves[name].whole)
            node = self.producers[name]
            if (name in sources and node.op == "TreeEnsemble") or not (
                stays or any(r.outputs[0] not in among for r in readers)
            ):
                continue
            found = self._ensemble(name)
            assert found is not None
            _become(g, node, *found)
            self.changed = True
        return self.changed


def _become(g: Graph, node: Node, x: str, forest: Forest) -> None:
    """The value of a node as the answer of a forest."""
    out, n = node.outputs[0], len(forest.bias)
    made = g.new_value(f"{out}.trees", (*g.value(x).shape[:-1], n))
    g.insert_before(node, Node("TreeEnsemble", node.name, [x], [made], {"forest": forest}))
    shape = g.new_const(f"{out}.shape", np.array(g.value(out).shape, np.int64))
    node.op, node.inputs, node.attrs = "Reshape", [made, shape], {}
