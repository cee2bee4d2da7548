"""Steps that need not run: slices that are views, concats whose parts are written in place. By hand, and random."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from nets import Net, assert_runs
from test_plan import Builder

from mica.compile import compile_file
from mica.ir.graph import Graph, Node
from mica.passes import dead_code
from mica.plan.alias import Places, alias
from mica.plan.lifetimes import IN_PLACE
from mica.plan.plan import Plan, best_plan, plan
from mica.plan.schedule import schedule
from mica.plan.verify import PlanError, verify


class Parts(Builder):
    """With slices and concats of one dimension."""

    def slice(self, x: str, output: str, begin: int, size: int, step: int = 1) -> Parts:
        self._value(output, (size,))
        blob = self.g.new_const(f"{output}.map", np.array([[size, step]], np.int32))
        attrs = {"begin": begin, "rank": 1}
        self.g.nodes.append(Node("move_s8", f"make {output}", [x, blob], [output], attrs))
        return self

    def concat(self, inputs: str, output: str) -> Parts:
        names = inputs.split()
        self._value(output, (sum(self.g.value(i).size for i in names),))
        self.g.nodes.append(Node("concat_s8", f"make {output}", names, [output], {"axis": 0}))
        return self


def kernels(p: Plan) -> list[str]:
    return [n.op for n in p.steps]


def test_slice_is_a_view() -> None:
    g = Parts(x=64).slice("x", "a", 16, 20).conv("a", "y", 16).out("y")
    _, p = best_plan(g)
    assert kernels(p) == ["conv2d_s8"]
    assert p.offsets["a"] == p.offsets["x"] + 16
    assert p.arena_bytes == 64 + 16


@pytest.mark.parametrize(("begin", "step"), [(6, 1), (0, 2), (31, -1)])
def test_slice_that_has_to_run(begin: int, step: int) -> None:
    """It begins between two multiples of 4, or takes every second byte, or goes backwards."""
    g = Parts(x=64).slice("x", "a", begin, 16, step).conv("a", "y", 16).out("y")
    assert kernels(best_plan(g)[1]) == ["move_s8", "conv2d_s8"]


def test_concat_is_written_in_place() -> None:
    g = Parts(x=32).conv("x", "a", 20).conv("x", "b", 44).concat("a b", "c").conv("c", "y", 16).out("y")
    g, p = best_plan(g)
    assert kernels(p) == ["conv2d_s8"] * 3
    assert p.offsets["a"] == p.offsets["c"] and p.offsets["b"] == p.offsets["c"] + 20
    assert p.arena_bytes == 32 + 64  # apart it would be 64 + 64 while they are joined


def test_concat_of_concats_and_of_views() -> None:
    g = Parts(x=16)
    for name in "abc":
        g.conv("x", name, 16)
    g.concat("a b", "ab").concat("ab c", "abc").slice("abc", "s", 20, 16).conv("s", "y", 16)
    g, p = best_plan(g.out("y"))
    assert kernels(p) == ["conv2d_s8"] * 4
    assert [p.offsets[n] - p.offsets["abc"] for n in ("a", "b", "c", "ab", "s")] == [0, 16, 32, 0, 20]


@pytest.mark.parametrize(
    "g",
    [
        Parts(x=16).conv("x", "a", 16).concat("a a", "c").conv("c", "y", 16).out("y"),  # one value, twice
        Parts(x=16).conv("x", "a", 6).conv("x", "b", 6).concat("a b", "c").conv("c", "y", 16).out("y"),  # b at byte 6
    ],
)
def test_concat_that_has_to_run(g: Graph) -> None:
    assert "concat_s8" in kernels(best_plan(g)[1])


def test_a_value_is_part_of_one_concat_only() -> None:
    g = Parts(x=16).conv("x", "a", 16).conv("x", "b", 16).concat("a b", "c").concat("b a", "d")
    g, p = best_plan(g.add("c d", "e", 32).conv("e", "y", 16).out("y"))
    assert kernels(p).count("concat_s8") == 1


def test_an_early_part_may_cost_more_than_a_copy() -> None:
    """a waits for b through a wide stretch: a place for both from the start would be wider."""
    g = Parts(x=16).conv("x", "a", 16).conv("a", "w", 512).conv("w", "v", 512).conv("v", "b", 256)
    g, p = best_plan(g.concat("a b", "c").conv("c", "y", 16).out("y"))
    assert "concat_s8" in kernels(p)
    assert p.arena_bytes == 16 + 512 + 512
    joined, _ = alias(g)
    assert plan(schedule(joined)).arena_bytes == 272 + 512 + 512


def test_outputs_and_inputs_may_be_parts() -> None:
    g = Parts(x=32, z=32).conv("x", "a", 32).concat("z a", "c").slice("c", "s", 32, 16).out("c s a")
    g, p = best_plan(g)
    assert kernels(p) == ["conv2d_s8"]
    assert p.offsets["z"] == p.offsets["c"] and p.offsets["a"] == p.offsets["s"] == p.offsets["c"] + 32


def test_nothing_runs_in_place_of_a_part_that_is_still_joined() -> None:
    g = Parts(x=32).conv("x", "a", 32).conv("x", "b", 32).concat("a b", "c").lut("a", "r").conv("c r", "y", 16).out("y")
    g, p = best_plan(g)
    assert p.offsets["r"] not in (p.offsets["a"], p.offsets["b"])


# The verifier, which knows nothing of how places were found


def joined(g: Graph) -> tuple[Graph, Plan]:
    g, _ = alias(g)
    g = schedule(g)
    return g, plan(g)


def test_verifier_finds_parts_in_the_wrong_place() -> None:
    g = Parts(x=32).conv("x", "a", 16).conv("x", "b", 16).concat("a b", "c").slice("c", "s", 16, 8).lut("s", "y")
    g, p = joined(g.out("y c"))
    for name, text in (("a", "'a'"), ("b", "'b'"), ("s", "moves its input")):
        with pytest.raises(PlanError, match=text):
            verify(g, {**p.offsets, name: p.offsets[name] + 4}, p.arena_bytes + 16, IN_PLACE)
    with pytest.raises(PlanError, match=r"'y' .* over"):
        verify(g, {**p.offsets, "y": p.offsets["s"]}, p.arena_bytes, IN_PLACE)  # c is an output: its bytes stay


def test_verifier_finds_a_part_that_was_written_over() -> None:
    """b lands on a, which the join still needs."""
    g, p = joined(Parts(x=32).conv("x", "a", 16).conv("x", "b", 16).concat("a b", "c").conv("c", "y", 16).out("y"))
    with pytest.raises(PlanError):
        verify(g, {**p.offsets, "b": p.offsets["a"]}, p.arena_bytes, IN_PLACE)
    between = Parts(x=32).conv("x", "a", 16).conv("x", "b", 16).conv("x", "t", 16).concat("a b", "c")
    g, _ = alias(between.conv("c t", "y", 16).out("y"))
    p = plan(g)
    with pytest.raises(PlanError, match=r"'t' .* over 'a'"):
        verify(g, {**p.offsets, "t": p.offsets["a"]}, p.arena_bytes, IN_PLACE)


def random_parts(seed: int) -> Graph:
    rng = random.Random(seed)
    b = Parts(**{f"in{k}": rng.choice((4, 16, 100, 256)) for k in range(rng.randint(1, 3))})
    names = list(b.g.inputs)
    for k in range(rng.randint(2, 14)):
        x, y = rng.choice(names[-5:]), f"v{k}"
        size = b.g.value(x).size
        kind = rng.choice(("conv", "conv", "lut", "add", "reshape", "slice", "slice", "concat", "concat"))
        if kind == "conv":
            b.conv(x, y, rng.choice((3, 16, 64, 200)))
        elif kind == "lut":
            b.lut(x, y)
        elif kind == "reshape":
            b.reshape(x, y, size)
        elif kind == "slice":
            begin = rng.randrange(size)
            b.slice(x, y, begin, rng.randint(1, size - begin))
        elif kind == "concat":
            b.concat(" ".join(rng.choice(names[-5:]) for _ in range(rng.randint(2, 4))), y)
        else:
            same = [n for n in names if b.g.value(n).size == size and b.g.value(n).shape == b.g.value(x).shape]
            b.add(f"{x} {rng.choice(same)}", y)
        names.append(y)
    made = names[len(b.g.inputs) :]
    return dead_code.run(b.out(" ".join(dict.fromkeys([made[-1], *rng.sample(names, rng.randint(0, 2))]))))


def contents(g: Graph) -> dict[str, np.ndarray]:
    """The bytes that each value should hold: (writer, byte), numbered."""
    found: dict[str, np.ndarray] = {}

    def fresh(name: str, serial: int) -> np.ndarray:
        return serial * 10_000 + np.arange(g.value(name).size)

    for k, name in enumerate(g.inputs):
        found[name] = fresh(name, k)
    for k, node in enumerate(g.nodes):
        (y,), x = node.outputs, [i for i in node.inputs if not g.is_const(i)]
        if node.op in ("Reshape", "View"):
            at = node.attrs.get("offset", 0)
            found[y] = found[x[0]][at : at + g.value(y).size]
        elif node.op in ("Join", "concat_s8"):
            found[y] = np.concatenate([found[i] for i in x])
        elif node.op == "move_s8":
            found[y] = found[x[0]][node.attrs["begin"] :][: g.value(y).size]
        else:
            found[y] = fresh(y, 100 + k)
    return found


def test_random_plans_survive_a_replay() -> None:
    """Bytes really written where the plan says: every step finds its inputs whole, and the outputs are right."""
    aliased = 0
    for seed in range(300):
        before = random_parts(seed)
        expected = contents(before)
        g, p = best_plan(before)
        verify(g, p.offsets, p.arena_bytes, IN_PLACE)
        by_steps = plan(schedule(random_parts(seed)))
        assert p.arena_bytes <= by_steps.arena_bytes, seed
        aliased += len(by_steps.steps) - len(p.steps)
        arena = np.full(p.arena_bytes, -1, np.int64)

        def span(name: str, p: Plan = p, g: Graph = g, arena: np.ndarray = arena) -> np.ndarray:
            return arena[p.offsets[name] : p.offsets[name] + g.value(name).size]

        for name in g.inputs:
            span(name)[:] = expected[name]
        for node in g.nodes:
            for i in node.inputs:
                assert g.is_const(i) or np.array_equal(span(i), expected[i]), (seed, node.name, i)
            if node.op not in ("Reshape", "View", "Join"):
                span(node.outputs[0])[:] = expected[node.outputs[0]]
        for o in g.outputs:
            assert np.array_equal(span(o), expected[o]), (seed, o)
    assert aliased > 100


def test_places_end_to_end(tmp_path: Path) -> None:
    """A network of vectors: split, gated, joined; the file has no step for the split, and runs as it should."""
    net = Net()
    x = net.add("MatMul", net.input([1, 8]), net.random(8, 16))
    net.add("Split", x, outputs=["a", "b"], axis=1)
    y = net.add("Concat", net.add("Sigmoid", "a"), net.add("Tanh", "b"), axis=1)
    net.output(net.add("MatMul", y, net.random(16, 4)))
    model = compile_file(net.save(tmp_path)).model
    assert "move_s8" not in [s.kernel for s in model.steps]
    assert_runs(net)


def test_joined_parts_in_the_file(tmp_path: Path) -> None:
    net = Net()
    x = net.input([1, 8])
    parts = [net.add("MatMul", x, net.random(8, 12)) for _ in range(6)]
    y = net.add("Concat", *parts, axis=1)
    net.output(net.add("Softmax", y, axis=1))
    compiled = compile_file(net.save(tmp_path))
    assert [s.kernel for s in compiled.model.steps] == ["fully_connected_s8"] * 6 + ["softmax_s8"]
    assert_runs(net)


def test_places_of_nothing() -> None:
    assert Places(Graph("g")).find("x") == ("x", 0)
