"""Strips: plans below the layer-wise bound give the same bytes, layer by layer, and every broken one is caught."""

from __future__ import annotations

import dataclasses
import zlib
from pathlib import Path

import numpy as np
import onnx
import pytest
from nets import MODELS, Net
from random_nets import RandomNet

from mica import engine
from mica.compile import Compiled, Ram, compile_file
from mica.cost.table import Table
from mica.errors import MicaError
from mica.file import codec
from mica.file.order import Call, Strip
from mica.format.schema import SCRATCH_LEAST
from mica.packing.model import pack
from mica.plan.lifetimes import IN_PLACE
from mica.plan.plan import Plan
from mica.plan.strips import pull
from mica.plan.strips.search import refusal, search
from mica.plan.verify import PlanError, verify_strips
from mica.reference.executor import ReferenceModel

PRICE = Table.read().price("m0plus")
FULL = 16 << 10


def plan_within(compiled: Compiled, ram: int | None, fed: str | None = None) -> Plan:
    """The cheapest plan within `ram` bytes; raises MicaError, with the least that can be, where there is none."""
    g, whole = compiled.integer, compiled.plan
    found = search(g, whole, ram, FULL, PRICE, fed)
    if found is None:
        raise refusal(g, whole, ram or 0, PRICE, fed)
    return found


def run(model: engine.LoadedModel, inputs: list[np.ndarray]) -> tuple[list[int], list[bytes]]:
    """Checksums of all layers, and the outputs of a run of their own."""
    crcs, outputs = [], []
    for i, x in enumerate(inputs):
        model.set_input(i, x)
    crcs = [zlib.crc32(y.tobytes()) for y in model.layers()]
    for i, x in enumerate(inputs):
        model.set_input(i, x)
    model.run()
    outputs = [model.output(i).tobytes() for i in range(model.info["n_outputs"])]
    return crcs, outputs


def random_inputs(model: codec.ModelFile, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.integers(-128, 128, model.tensors[t].dims).astype(np.int8) for t in model.inputs]


def least(compiled: Compiled) -> int:
    """The least that a refusal says, which a plan then reaches."""
    with pytest.raises(MicaError, match="the least that this model runs in is") as refused:
        plan_within(compiled, 1)
    return int(str(refused.value).split(" runs in is ")[1].split()[0].replace(",", ""))


def check_limits(compiled: Compiled, seed: int, limits: int) -> int:
    """Pack within limits up to the layer-wise plan with the least scratch. Return how many plans had strips."""
    inputs = random_inputs(compiled.model, seed)
    expected = run(engine.NativeModel(compiled.data), inputs)
    low, high = least(compiled), compiled.plan.arena_bytes + SCRATCH_LEAST
    with_strips = 0
    for n in range(limits):
        ram = low + max(0, high - low) * n // max(1, limits - 1)
        plan = plan_within(compiled, ram)
        model = pack(compiled.integer, plan, {}, FULL if plan.scratch is None else plan.scratch)
        assert (model.arena_bytes or 0) + model.scratch_want <= ram
        data = codec.encode(model)
        assert run(engine.NativeModel(data), inputs) == expected, (seed, ram)
        with_strips += bool(model.strips)
        if n == 0:
            assert run(ReferenceModel(data), inputs) == expected, (seed, ram)
    return with_strips


class Chain(Net):
    """Convolutions of all kinds, residuals, concatenations and pools over a picture: a network that gains by strips."""

    def __init__(self, seed: int) -> None:
        super().__init__(opset=17, seed=seed)
        rng = self.rng
        h, w, c = (int(rng.integers(low, high)) for low, high in ((9, 21), (5, 13), (1, 5)))
        y = self.input([1, c, h, w])
        for _ in range(int(rng.integers(3, 9))):
            kind = rng.choice(["conv", "conv", "depthwise", "pointwise", "residual", "concat", "pool", "act"])
            if kind in ("conv", "depthwise", "pointwise"):
                y, c, h, w = self._conv(y, c, h, w, str(kind))
            elif kind == "residual":
                z = self.add("Relu", self._conv(y, c, h, w, "same")[0])
                y = self.add("Add", y, self._conv(z, c, h, w, "same")[0])
            elif kind == "concat" and c <= 16:
                y = self.add("Concat", y, self._conv(y, c, h, w, "same")[0], axis=1)
                c *= 2
            elif kind == "pool" and min(h, w) >= 4:
                op = str(rng.choice(["MaxPool", "AveragePool"]))
                pads = [1, 0, 0, 1]
                y = self.add(op, y, kernel_shape=[3, 2], strides=[2, 1], pads=pads)
                h, w = (h + 1 - 3) // 2 + 1, w + 1 - 2 + 1
            elif kind == "act":
                y = self.add(str(rng.choice(["Relu", "Sigmoid", "HardSwish"])), y)
        self.output(self.add("GlobalAveragePool", y) if rng.random() < 0.5 else y)

    def _conv(self, x: str, c: int, h: int, w: int, kind: str) -> tuple[str, int, int, int]:
        rng = self.rng
        out = c if kind in ("depthwise", "same") else int(rng.integers(1, 9))
        k = [1, 1] if kind == "pointwise" else [int(rng.integers(1, 4)), int(rng.integers(1, 4))]
        dilation = int(rng.integers(1, 3)) if kind == "conv" else 1
        strides = [1, 1] if kind in ("same", "pointwise") else [int(rng.integers(1, 3)), int(rng.integers(1, 3))]
        reach = [(n - 1) * dilation + 1 for n in k]
        if kind == "same":
            before = [n // 2 for n in k]
            pads = [*before, *(n - 1 - b for n, b in zip(k, before, strict=True))]
        else:
            pads = [int(rng.integers(0, n)) for n in (*reach, *reach)]
        sizes = [(n + pads[i] + pads[i + 2] - reach[i]) // strides[i] + 1 for i, n in enumerate((h, w))]
        if min(sizes) < 2:
            return self._conv(x, c, h, w, "same")
        group = c if kind == "depthwise" else 1
        weights = self.const(rng.normal(size=(out, c // group, *k)).astype(np.float32))
        y = self.add("Conv", x, weights, pads=pads, strides=strides, dilations=[dilation, dilation], group=group)
        return y, out, *sizes


def compiled(net: Net, folder: Path, seed: int) -> Compiled:
    path = folder / f"{seed}.onnx"
    onnx.save(net.model(), path)
    return compile_file(path, plain=True, calib_method="minmax")


@pytest.mark.parametrize("first", range(0, 16, 4))
def test_random_chains_are_the_same_by_rows(tmp_path: Path, first: int) -> None:
    found = sum(check_limits(compiled(Chain(seed), tmp_path, seed), seed, 3) for seed in range(first, first + 4))
    assert found >= 2, "hardly a plan had strips"


@pytest.mark.parametrize(("seed", "ram"), [(2461, 3112), (2391, 3006)])
def test_a_limit_above_the_least_has_a_plan(tmp_path: Path, seed: int, ram: int) -> None:
    """The cheapest cuts do not fit into it, and the next step down goes below all cuts."""
    net = compiled(Chain(seed), tmp_path, seed)
    assert least(net) < ram < net.plan.arena_bytes + SCRATCH_LEAST
    plan = plan_within(net, ram)
    assert plan.arena_bytes + SCRATCH_LEAST <= ram and plan.strips


def test_what_a_strip_writes_into_a_part_lies_behind_what_is_read(tmp_path: Path) -> None:
    """The last steps fill two parts of one tensor, over an input that dies: the second part begins in its middle."""
    net = compiled(Chain(41218), tmp_path, 41218)
    assert any(node.op == "Join" for node in net.integer.nodes)
    assert check_limits(net, 41218, 5) >= 4


def test_a_tensor_read_in_another_shape_ends_a_strip(tmp_path: Path) -> None:
    """One channel in both layouts is the same bytes: Add reads Conv's output by another name,
    and by whole pictures as rows."""
    net = compiled(Chain(1795369267), tmp_path, 1)
    assert any(step.behind >= 0 for step in pull.Net(net.integer, net.plan).steps)
    check_limits(net, 1, 3)


def test_random_networks_are_the_same_by_rows(tmp_path: Path) -> None:
    for seed in range(6):
        net = compiled(RandomNet(seed), tmp_path, seed)
        if all(net.model.tensors[t].dtype == "int8" for t in net.model.inputs):
            check_limits(net, seed, 2)


def _broken(plan: Plan, **changes: object) -> Plan:
    return dataclasses.replace(plan, **changes)  # type: ignore[arg-type]


def test_the_verifier_catches_every_broken_call(tmp_path: Path) -> None:
    """Each call left out, doubled, or with another drop; and each tensor by itself moved to every other place."""
    net = compiled(Chain(2), tmp_path, 2)
    g, plan = net.integer, plan_within(net, least(net))
    verified = 0

    def caught(changed: Plan) -> bool:
        try:
            verify_strips(g, changed.steps, changed.offsets, changed.arena_bytes, changed.strips, IN_PLACE)
        except PlanError:
            return True
        return False

    assert not caught(plan) and plan.strips
    for s, strip in enumerate(plan.strips):
        for c, call in enumerate(strip.calls):
            others: list[tuple[Call, ...]] = [(), (call, call)]
            if call.drop:
                others.append((dataclasses.replace(call, drop=call.drop + 1),))
            for other in others:
                calls = strip.calls[:c] + other + strip.calls[c + 1 :]
                strips = (*plan.strips[:s], Strip(strip.first, strip.steps, calls), *plan.strips[s + 1 :])
                assert caught(_broken(plan, strips=strips)), (s, c, other)
                verified += 1
    assert verified > 20
    data = [name for name in plan.offsets if g.values[name].data is None]
    for name in data:
        places = range(0, plan.arena_bytes, 16)
        moved = [caught(_broken(plan, offsets={**plan.offsets, name: at})) for at in places]
        assert any(moved), f"'{name}' may lie anywhere"


def test_too_little_is_refused_with_the_least(tmp_path: Path) -> None:
    net = compiled(Chain(3), tmp_path, 3)
    n = least(net)
    assert plan_within(net, n).strips
    with pytest.raises(MicaError, match="the least"):
        plan_within(net, n - 32)


def test_where_all_fits_nothing_changes(tmp_path: Path) -> None:
    net = compiled(Chain(4), tmp_path, 4)
    again = compile_file(tmp_path / "4.onnx", plain=True, calib_method="minmax", ram=Ram(1 << 20, PRICE))
    assert not again.model.strips and again.data == net.data


@pytest.mark.skipif(not MODELS.is_dir(), reason=f"the folder of the reference models, {MODELS}, is missing")
@pytest.mark.parametrize(("name", "ram"), [("kws", 13_700), ("ic", 19_500), ("ic", 32_000), ("vww", 32_500)])
def test_reference_models_by_rows(name: str, ram: int) -> None:
    path = MODELS / name / "model.onnx"
    whole = compile_file(path, None, plain=True, calib_method="minmax")
    net = compile_file(path, None, plain=True, calib_method="minmax", ram=Ram(ram, PRICE))
    assert (net.model.arena_bytes or 0) + net.model.scratch_want <= ram and net.model.strips
    inputs = random_inputs(net.model, 1)
    assert run(engine.NativeModel(net.data), inputs) == run(engine.NativeModel(whole.data), inputs)
