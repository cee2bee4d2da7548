"""Fed inputs (`mica pack --feed`): the same bytes as with the whole input, at every limit;
and convolutions in groups of channels."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import onnx
import pytest
from mobilenet import MobileNetV2
from nets import MODELS, Net
from test_strips import FULL, PRICE, Chain, compiled, plan_within, random_inputs, run

from mica import engine
from mica.compile import Compiled, Ram, compile_file, within
from mica.errors import MicaError
from mica.file import codec
from mica.file.order import Strip
from mica.format.schema import FEATURES, FEED
from mica.format.weights import CODE_BITS
from mica.packing.model import pack
from mica.plan.groups import cuttable, in_groups
from mica.plan.lifetimes import IN_PLACE
from mica.plan.strips.search import search
from mica.plan.verify import PlanError, verify_strips
from mica.reference.executor import ReferenceModel


class LastChain(Chain):
    """A chain over a picture with channels last, as cameras give it."""

    def input(self, shape: list[int], name: str = "x") -> str:
        n, c, h, w = shape
        return self.add("Transpose", super().input([n, h, w, c], name), perm=[0, 3, 1, 2])


def fed(whole: Compiled, ram: int | None) -> Compiled:
    return within(whole, Ram(ram, PRICE, feed=True), FULL)


def check_fed(whole: Compiled, seed: int) -> int:
    """Fed without a limit, and in the least that it runs in: the bytes of the whole model.
    Returns the latter's arena."""
    inputs = random_inputs(whole.model, seed)
    expected = run(engine.NativeModel(whole.data), inputs)
    with pytest.raises(MicaError, match="the least that this model runs in is") as refused:
        fed(whole, 1)
    low = int(str(refused.value).split(" runs in is ")[1].split()[0].replace(",", ""))
    small = 0
    for ram in (None, low):
        net = fed(whole, ram)
        assert net.model.fed == 0 and codec.decode(net.data).features & FEATURES["FED"]
        small = net.plan.arena_bytes
        assert ram is None or small + net.model.scratch_want <= ram
        for model in (engine.NativeModel(net.data), ReferenceModel(net.data)):
            assert run(model, inputs) == expected, (seed, ram)
    return small


@pytest.mark.parametrize("seed", range(4))
def test_random_chains_fed(tmp_path: Path, seed: int) -> None:
    whole = compiled(LastChain(seed), tmp_path, seed)
    assert check_fed(whole, seed) <= whole.plan.arena_bytes


def test_a_picture_of_one_channel_has_rows_whatever_its_order(tmp_path: Path) -> None:
    whole = compiled(Chain(2), tmp_path, 2)
    assert whole.model.tensors[0].dims[1] == 1
    net = fed(whole, None)
    x = random_inputs(whole.model, 2)
    rows = [x[0].reshape(net.model.tensors[net.model.inputs[0]].dims)]
    assert run(engine.NativeModel(net.data), rows) == run(engine.NativeModel(whole.data), x)


def test_channels_first_are_refused(tmp_path: Path) -> None:
    with pytest.raises(MicaError, match=r"--feed: 'n0_Conv' \(transpose_s8\) reads input 'x' and cannot run by rows"):
        fed(compiled(Chain(0), tmp_path, 0), None)


def test_the_verifier_catches_rows_that_are_not_fed(tmp_path: Path) -> None:
    whole = compiled(LastChain(1), tmp_path, 1)
    g, name = whole.integer, whole.integer.inputs[0]
    plan = plan_within(whole, None, name)
    strip = plan.strips[0]
    feeds = [c for c, call in enumerate(strip.calls) if call.step == FEED]
    assert feeds
    for c in feeds:
        call = strip.calls[c]
        for other in ((), (call, call), (dataclasses.replace(call, drop=call.drop + 1),)):
            calls = strip.calls[:c] + other + strip.calls[c + 1 :]
            strips = (Strip(strip.first, strip.steps, calls), *plan.strips[1:])
            with pytest.raises(PlanError):
                verify_strips(g, plan.steps, plan.offsets, plan.arena_bytes, strips, IN_PLACE, name)


def test_a_frame_of_another_size_or_type(tmp_path: Path) -> None:
    net = fed(compiled(LastChain(0), tmp_path, 0), None)
    model = engine.NativeModel(net.data)
    x = random_inputs(net.model, 0)[0]
    for wrong in (x[:, 1:], x.astype(np.float32)):
        with pytest.raises(MicaError, match=r"input 0 \(x\): found"):
            model.set_input(0, wrong)
    with pytest.raises(MicaError, match=r"is kept by rows; layers\(\)"):
        model.tensor(net.model.inputs[0])
    model.run()  # without a frame: of zero points
    zero = np.full(x.shape, net.model.tensors[net.model.inputs[0]].zero_point, np.int8)
    y = model.output(0)
    model.set_input(0, zero)
    model.run()
    assert np.array_equal(y, model.output(0))


class Wide(Net):
    """A convolution to many channels before a global pool."""

    def __init__(self) -> None:
        super().__init__(opset=17, seed=5)
        y = self.input([1, 6, 12, 12])
        y = self.add("Conv", y, self.const(self.rng.normal(size=(256, 6, 1, 1)).astype(np.float32)))
        y = self.add("Flatten", self.add("GlobalAveragePool", self.add("Relu", y)))
        self.output(self.add("Gemm", y, self.const(self.rng.normal(size=(3, 256)).astype(np.float32) * 0.1), transB=1))


def test_a_convolution_before_a_global_pool_in_groups(tmp_path: Path) -> None:
    whole = compiled(Wide(), tmp_path, 0)
    assert whole.plan.arena_bytes > 144 * 256
    inputs = random_inputs(whole.model, 0)
    expected = run(engine.NativeModel(whole.data), inputs)
    for ram, channels in ((24_000, 128), (14_000, 64)):
        net = within(whole, Ram(ram, PRICE), FULL)
        assert net.plan.arena_bytes + net.model.scratch_want <= ram
        names = [s.name for s in net.model.steps]
        assert sum("channels" in name for name in names) == 2 * 256 // channels, names
        crcs, outputs = run(engine.NativeModel(net.data), inputs)
        assert outputs == expected[1] and crcs[-1] == expected[0][-1]
        assert net.macs == whole.macs


def test_groups_keep_the_bits_of_their_weights(tmp_path: Path) -> None:
    g = compiled(Wide(), tmp_path, 0).integer
    ((conv, _),) = cuttable(g)
    g.value(conv.inputs[1]).bits = CODE_BITS
    cut = in_groups(g, 64)
    assert cut is not None
    parts = [node for node in cut.nodes if node.op == conv.op]
    assert len(parts) == 4 and all(cut.value(part.inputs[1]).bits == CODE_BITS for part in parts)
    assert all(cut.value(part.inputs[2]).bits == g.value(conv.inputs[2]).bits for part in parts)


def test_mobilenet_of_a_pico(tmp_path: Path) -> None:
    """0.35 at 144 x 144 takes 311,040 bytes layer by layer; fed 43,000 at most."""
    path = tmp_path / "net.onnx"
    onnx.save(MobileNetV2(144, 0.35, 2).model(), path)
    net = compile_file(path, plain=True, calib_method="minmax")
    found = search(net.integer, net.plan, 45_000, 2048, PRICE, net.integer.inputs[0])
    assert net.plan.arena_bytes == 311_040 and found is not None and found.arena_bytes <= 43_000
    data = codec.encode(pack(net.integer, found, {}, 2048))
    inputs = random_inputs(net.model, 3)
    assert run(engine.NativeModel(data), inputs) == run(engine.NativeModel(net.data), inputs)


@pytest.mark.skipif(not MODELS.is_dir(), reason=f"the folder of the reference models, {MODELS}, is missing")
def test_vww_fed() -> None:
    whole = compile_file(MODELS / "vww" / "model.onnx", plain=True, calib_method="minmax")
    net = fed(whole, 25_000)
    assert net.plan.arena_bytes + net.model.scratch_want <= 25_000
    inputs = random_inputs(whole.model, 1)
    assert run(engine.NativeModel(net.data), inputs) == run(engine.NativeModel(whole.data), inputs)
