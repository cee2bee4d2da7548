"""The C kernels equal the numpy oracle byte for byte."""

import itertools

import numpy as np
import pytest
from cases import CASES, Case

from mica import engine
from mica.format import check
from mica.kernels import IN_PLACE, KERNEL_BY_NAME, KERNELS, dense
from mica.kernels.integers import Output
from mica.kernels.scratch import scratch_min

if engine.AVAILABLE:
    from mica.engine import kernels


@pytest.fixture(autouse=True)
def _engine() -> None:
    assert engine.AVAILABLE, "the C engine is not built: pip install -e ."


def _oracle(c: Case) -> np.ndarray:
    y = KERNEL_BY_NAME[c.kernel].oracle(c.xs, c.blobs, c.p, c.q)
    assert y.dtype == KERNEL_BY_NAME[c.kernel].y_type and y.shape == c.q.dims
    return y


def _at(a: np.ndarray, offset: int) -> np.ndarray:
    """A copy that begins `offset` bytes after a multiple of 16."""
    raw = np.empty(a.nbytes + 32, np.uint8)
    start = -raw.ctypes.data % 16 + offset
    out = raw[start : start + a.nbytes].view(a.dtype).reshape(a.shape)
    out[...] = a
    return out


def _guarded(n: int, offset: int) -> tuple[np.ndarray, np.ndarray]:
    """n bytes, and the whole array with the bytes of guard around them."""
    raw = np.full(n + 64, 0x5A, np.int8)
    return raw, raw[16 + offset : 16 + offset + n]


def test_every_kernel_is_there() -> None:
    assert {c.kernel for c in CASES} == {k.name for k in KERNELS}
    assert len({c.name for c in CASES}) == len(CASES)
    print(f"{len(CASES)} cases")


@pytest.mark.parametrize("c", CASES, ids=lambda c: c.name)
def test_equals_oracle(c: Case) -> None:
    wanted = _oracle(c)
    constants = {k: _at(v, 4 if v.dtype.itemsize > 1 else 0) for k, v in c.blobs.items()}
    for offset in range(4):
        # int8 buffers at every alignment, each another; nothing written beyond y.
        xs = [_at(x, (offset + i) % 4 if x.dtype.itemsize == 1 else 0) for i, x in enumerate(c.xs)]
        blobs = {k: _at(v, (offset + 3) % 4) if v.dtype.itemsize == 1 else v for k, v in constants.items()}
        start = 16 + ((offset + 2) % 4 if wanted.itemsize == 1 else 0)
        raw, y = _guarded(wanted.nbytes, start - 16)
        y = y.view(wanted.dtype).reshape(c.q.dims)
        kernels.run(c.kernel, xs, blobs, c.p, c.q, out=y)
        np.testing.assert_array_equal(y, wanted)
        assert (raw[:start] == 0x5A).all() and (raw[start + wanted.nbytes :] == 0x5A).all()
        for x, before in zip(xs, c.xs, strict=True):
            np.testing.assert_array_equal(x, before)


def _rows(c: Case) -> int:
    if c.rows is not None:
        return c.rows
    if c.kernel in ("add_s8", "lut_s8"):
        return int(np.prod(c.q.dims))
    if c.kernel in ("softmax_s8", "fully_connected_s8"):
        return int(np.prod(c.q.dims[:-1]))
    if c.kernel == "transpose_s8":
        return c.q.dims[0] if c.q.dims else 1
    return c.q.dims[1]


@pytest.mark.parametrize("c", CASES, ids=lambda c: c.name)
def test_in_slices(c: Case) -> None:
    """Cut at any row, the parts make the whole; each part writes only its own rows."""
    wanted, rows = _oracle(c), _rows(c)
    per_row = wanted.size // rows
    flat = np.full(wanted.size, 0x5A, wanted.dtype)
    cuts = sorted({0, rows // 3, rows // 2, rows})
    for begin, end in reversed(list(itertools.pairwise(cuts))):
        kernels.run(c.kernel, c.xs, c.blobs, c.p, c.q, out=flat.reshape(c.q.dims), rows=(begin, end))
        assert (flat[: begin * per_row] == 0x5A).all()
        np.testing.assert_array_equal(flat[begin * per_row :], wanted.ravel()[begin * per_row :])
    assert rows == 0 or cuts[-1] == rows


@pytest.mark.parametrize("c", [c for c in CASES if c.kernel in IN_PLACE], ids=lambda c: c.name)
def test_in_place(c: Case) -> None:
    """add, softmax and lut may write over an input of the output's size."""
    for i, x in enumerate(c.xs):
        if x.size == np.prod(c.q.dims) and not c.p.get("sum"):
            xs = list(c.xs)
            xs[i] = np.ascontiguousarray(x).reshape(c.q.dims).copy()
            wanted = _oracle(c)
            np.testing.assert_array_equal(kernels.run(c.kernel, xs, c.blobs, c.p, c.q, out=xs[i]), wanted)


@pytest.mark.parametrize("c", [c for c in CASES if "weights" in c.blobs], ids=lambda c: c.name)
def test_fast_claim(c: Case) -> None:
    """C grants FAST exactly where the host does, and the bytes do not change with it."""
    if check.fast_is_true(c.blobs):
        np.testing.assert_array_equal(kernels.run(c.kernel, c.xs, c.blobs, c.p, c.q, fast=True), _oracle(c))
    else:
        with pytest.raises(engine.EngineError, match="FAST"):
            kernels.run(c.kernel, c.xs, c.blobs, c.p, c.q, fast=True)


def _case(kernel: str) -> Case:
    return next(c for c in CASES if c.kernel == kernel)


@pytest.mark.parametrize(
    ("kernel", "params", "text"),
    [
        ("conv2d_s8", {"stride_h": 0}, "is 0"),
        ("conv2d_s8", {"kernel_w": 0}, "is 0"),
        ("conv2d_s8", {"dilation_w": 0}, "is 0"),
        ("conv2d_s8", {"groups": 3}, "groups"),
        ("conv2d_s8", {"groups": 0}, "groups"),
        ("conv2d_s8", {"kernel_h": 65535, "kernel_w": 65535}, "too many weights"),
        ("conv2d_s8", {"kernel_h": 65535, "dilation_h": 65535}, "reach too far"),
        ("conv2d_s8", {"pad_top": -1}, "wanted 0 to 65535"),
        ("conv2d_s8", {"kernel_h": 2}, "buffer 2"),
        ("conv2d_s8", {"act_min": 3, "act_max": 2}, "act_min"),
        ("depthwise_conv2d_s8", {"stride_w": 0}, "is 0"),
        ("depthwise_conv2d_s8", {"kernel_h": 9}, "buffer 2"),
        ("average_pool2d_s8", {"pad_top": 2}, "outside"),
        ("average_pool2d_s8", {"stride_h": 9}, "outside"),
        ("average_pool2d_s8", {"dilation_h": 2}, "dilation"),
        ("average_pool2d_s8", {"kernel_h": 3}, "entries|entry"),
        ("add_s8", {"shift": 31}, "shift"),
        ("add_s8", {"mult_a": 2**24, "mult_b": 0}, "overflow"),
        ("add_s8", {"mult_a": -(2**31)}, "overflow"),
        ("add_s8", {"offset": -(2**31)}, "overflow"),
        ("transpose_s8", {"perm_0": 1, "perm_1": 1}, "permutation|buffer"),
        ("mul_s8", {"mult": -1}, "mult"),
        ("mul_s8", {"shift": 32}, "shift"),
        ("minmax_s8", {"mult_b": -(2**24), "offset_b": 0}, "overflow"),
        ("minmax_s8", {"shift": 31}, "shift"),
        ("matmul_s8", {"transpose_b": 1}, "fit"),
        ("matmul_s8", {"shift": -31}, "shift"),
        ("reduce_s8", {"mode": 7}, "mode"),
        ("reduce_s8", {"mode": 0, "bias": 1}, "bias"),
        ("reduce_s8", {"mode": 6, "bias": 2**24 + 1}, "bias"),
        ("reduce_s8", {"act_min": 3, "act_max": 2}, "act_min"),
        ("div_s8", {"factor": 2**21 + 1}, "factor"),
        ("div_s8", {"shift": 23}, "shift"),
        ("layer_norm_s8", {"inner": 3}, "channels"),
        ("layer_norm_s8", {"channels": 0}, "is 0"),
        ("layer_norm_s8", {"epsilon_high": 2**30}, "epsilon"),
        ("layer_norm_s8", {"mode": 3}, "mode"),
        ("log_softmax_s8", {"mult": 2**23, "mult_log": 2**24}, "overflow"),
        ("log_softmax_s8", {"shift": 31}, "shift"),
    ],
)
def test_refusals(kernel: str, params: dict[str, int], text: str) -> None:
    c = next(c for c in CASES if c.kernel == kernel and len(c.q.dims) > 1)
    with pytest.raises(engine.EngineError, match=text):
        kernels.run(kernel, c.xs, c.blobs, c.p | params, c.q)


def test_refuses_constants() -> None:
    def run(kernel: str, **blobs: np.ndarray) -> None:
        c = _case(kernel)
        kernels.run(kernel, c.xs, c.blobs | blobs, c.p, c.q)

    conv = _case("conv2d_s8").blobs
    for kernel in ("conv2d_s8", "depthwise_conv2d_s8", "fully_connected_s8"):
        b = _case(kernel).blobs
        for bias in (-(2**31), 2**31 - 1, -(2**31) + 1):
            with pytest.raises(engine.EngineError, match="overflow"):
                run(kernel, bias=np.full_like(b["bias"], bias))
        for shift in (-31, 32, 127, -128):
            with pytest.raises(engine.EngineError, match="shift"):
                run(kernel, shift=np.full_like(b["shift"], shift))
        with pytest.raises(engine.EngineError, match="mult"):
            run(kernel, mult=np.full_like(b["mult"], -1))
    for name in ("bias", "mult"):
        with pytest.raises(engine.EngineError, match="aligned"):
            run("conv2d_s8", **{name: _at(conv[name].view(np.int8), 2)})
    for table in (np.zeros(256, np.uint32), np.full(256, 2**23 + 1, np.uint32)):
        with pytest.raises(engine.EngineError, match="table"):
            run("softmax_s8", table=table)


def test_accumulator_bound_is_tight() -> None:
    """|bias| + 128 * sum|w| one below 2**31 is computed exactly; at 2**31 it is refused."""
    k = 2**16 - 1
    w = np.full((1, k), 127, np.int8)
    room = 2**31 - 1 - 128 * 127 * k
    x = np.full((1, k), -128, np.int8)
    blobs = {"weights": w, "mult": np.array([2**31 - 1], np.int32), "shift": np.array([24], np.int8)}
    p, q = {"act_min": -128, "act_max": 127}, Output((1, 1))
    exact = blobs | {"bias": np.array([-room], np.int32)}
    np.testing.assert_array_equal(
        kernels.run("fully_connected_s8", [x], exact, p, q), dense.fully_connected_s8([x], exact, p, q)
    )
    with pytest.raises(engine.EngineError, match="overflow"):
        kernels.run("fully_connected_s8", [x], blobs | {"bias": np.array([-room - 1], np.int32)}, p, q)


def test_scratch_min() -> None:
    """The formula stands in the kernel's row and in C."""
    for k in KERNELS:
        for channels in (1, 3, 64, 65535):
            for reduction in (1, 9, 2304, 2**20):
                in_c = engine._engine.scratch_min(k.id, channels, reduction)
                assert scratch_min(k.name, channels) == in_c
        assert engine._engine.kernel_name(k.id) == k.name
    assert engine._engine.kernel_name(0) is None
