"""The C kernels equal the numpy oracle byte for byte.

A test is all cases of a kernel: thousands of tests of a millisecond would take longer to be counted than to be run.
"""

import contextlib
import ctypes
import itertools
import math
from collections.abc import Iterator, Sequence

import c_build
import numpy as np
import pytest
from cases import CASES, Case
from one_step import Placed, model_of, patched, with_few_weights

from mica import engine
from mica.engine.native import Library
from mica.file import check, codec
from mica.file.codec import FormatError
from mica.format.schema import STEP_FLAGS
from mica.format.weights import CODES4, Layout
from mica.kernels import IN_PLACE, KERNEL_BY_NAME, KERNELS
from mica.kernels.integers import Output
from mica.kernels.scratch import scratch_min


@pytest.fixture(autouse=True)
def _engine() -> None:
    assert engine.AVAILABLE, "the C engine is not built: pip install -e ."


def _oracle(c: Case) -> np.ndarray:
    y = KERNEL_BY_NAME[c.kernel].oracle(c.xs, c.blobs, c.p, c.q)
    assert y.dtype == KERNEL_BY_NAME[c.kernel].y_type and y.shape == c.q.dims
    return y


def _loaded(c: Case, layout: Layout | None = None, in_place: int | None = None) -> engine.NativeModel:
    """A case in the C engine, its inputs written."""
    model = engine.NativeModel(codec.encode(model_of(c, layout, in_place)))
    for i, x in enumerate(c.xs):
        model.set_input(i, x)
    return model


def _each(cases: Sequence[Case]) -> pytest.MarkDecorator:
    """One test for each kernel, with those of these cases that are its own."""
    names = dict.fromkeys(c.kernel for c in cases)
    return pytest.mark.parametrize("cases", [[c for c in cases if c.kernel == name] for name in names], ids=names)


@contextlib.contextmanager
def _told(c: Case) -> Iterator[None]:
    """A failure says which case it was."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"the case: {c.name}")
        raise


def test_every_kernel_is_there() -> None:
    assert {c.kernel for c in CASES} == {k.name for k in KERNELS}
    assert len({c.name for c in CASES}) == len(CASES)
    print(f"{len(CASES)} cases")


@_each(CASES)
def test_equals_oracle(cases: list[Case]) -> None:
    """With the weights in every layout that the kernel reads."""
    for c in cases:
        with _told(c):
            _equals_oracle(c)


def _equals_oracle(c: Case) -> None:
    for layout in KERNEL_BY_NAME[c.kernel].layouts:
        case = with_few_weights(c) if layout is CODES4 else c
        model = _loaded(case, layout)
        model.run()
        np.testing.assert_array_equal(model.output(0), _oracle(case))


@pytest.fixture(scope="module")
def with_reference_kernels(tmp_path_factory: pytest.TempPathFactory) -> Library:
    """The engine, compiled with the reference kernels instead of those of this computer."""
    build, library = c_build.Build("ref"), tmp_path_factory.mktemp("ref") / "_engine.so"
    c_build.link(library, build, c_build.objects(build, build.sources, "-fPIC"), "-shared")
    return Library(str(library))


def test_reference_kernels_equal_oracle(with_reference_kernels: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    assert engine._engine.isa() in ("vector", "avx2", "avx512vnni") and with_reference_kernels.isa() == "ref"
    monkeypatch.setattr(engine, "_engine", with_reference_kernels)
    for c in CASES:
        with _told(c):
            _equals_oracle(c)


@_each(CASES)
def test_at_any_address(cases: list[Case]) -> None:
    """int8 buffers at every alignment, each another; nothing is written but y."""
    for c in cases:
        with _told(c):
            _at_any_address(c)


def _at_any_address(c: Case) -> None:
    expected = np.ascontiguousarray(_oracle(c)).view(np.uint8).reshape(-1)
    for offset in range(4):
        step = Placed(c, offset)
        step.run()
        np.testing.assert_array_equal(step.y, expected)
        for x, before in zip(step.xs, c.xs, strict=True):
            np.testing.assert_array_equal(x, np.ascontiguousarray(before).view(np.uint8).reshape(-1))


@_each(CASES)
def test_in_slices(cases: list[Case]) -> None:
    """Cut at any row, the parts make the whole; each part writes only its own rows."""
    for c in cases:
        with _told(c):
            _in_slices(c)


def _in_slices(c: Case) -> None:
    expected = _oracle(c).reshape(-1)
    model = _loaded(c)
    rows, y = model.step_rows(0), len(c.xs)
    assert c.rows in (None, rows)
    per_row = -(-expected.size // rows) if expected.size % rows == 0 else 4  # of one row of a fully connected layer
    model.write(y, b"\x5a" * expected.nbytes)
    cuts = sorted({0, rows // 3, rows // 2, rows})
    for begin, end in reversed(list(itertools.pairwise(cuts))):
        model.run_rows(0, begin, end)
        found = model.tensor(y).reshape(-1)
        assert (found[: begin * per_row].view(np.uint8) == 0x5A).all()
        np.testing.assert_array_equal(found[begin * per_row :], expected[begin * per_row :])


@_each([c for c in CASES if c.kernel in IN_PLACE])
def test_in_place(cases: list[Case]) -> None:
    """Kernels that may write over an input of the output's size."""
    for c in cases:
        with _told(c):
            _in_place(c)


def _in_place(c: Case) -> None:
    for i, x in enumerate(c.xs):
        if x.size == np.prod(c.q.dims) and not c.p.get("sum"):
            model = _loaded(c, in_place=i)
            model.run()
            np.testing.assert_array_equal(model.output(0), _oracle(c))


@_each([c for c in CASES if "weights" in c.blobs])
def test_fast_claim(cases: list[Case]) -> None:
    """C grants FAST exactly where the host does, and the bytes do not change with it."""
    for c in cases:
        with _told(c):
            _fast_claim(c)


def _fast_claim(c: Case) -> None:
    data = codec.encode(model_of(c))
    if check.fast_is_true(c.blobs):
        model = engine.NativeModel(patched(data, flags=0))
        model.set_input(0, c.xs[0])
        model.run()
        np.testing.assert_array_equal(model.output(0), _oracle(c))
    else:
        with pytest.raises(FormatError, match="FAST"):
            engine.NativeModel(patched(data, flags=STEP_FLAGS["FAST"]))


def _case(kernel: str) -> Case:
    return next(c for c in CASES if c.kernel == kernel)


@pytest.mark.parametrize(
    ("kernel", "params", "text"),
    [
        ("conv2d_s8", {"stride_h": 0}, "found 0, expected 1"),
        ("conv2d_s8", {"kernel_w": 0}, "found 0, expected 1"),
        ("conv2d_s8", {"dilation_w": 0}, "found 0, expected 1"),
        ("conv2d_s8", {"groups": 3}, "groups"),
        ("conv2d_s8", {"groups": 0}, "found 0, expected 1"),
        ("conv2d_s8", {"kernel_h": 65535, "kernel_w": 65535}, "too many weights"),
        ("conv2d_s8", {"kernel_h": 65535, "dilation_h": 65535}, "reach too far"),
        ("conv2d_s8", {"pad_top": -1}, "found -1, expected 0"),
        ("conv2d_s8", {"kernel_h": 2}, "bytes of a constant"),
        ("conv2d_s8", {"act_min": 3, "act_max": 2}, "act_min"),
        ("depthwise_conv2d_s8", {"stride_w": 0}, "found 0, expected 1"),
        ("depthwise_conv2d_s8", {"kernel_h": 9}, "bytes of a constant"),
        ("average_pool2d_s8", {"pad_top": 2}, "outside"),
        ("average_pool2d_s8", {"stride_h": 9}, "outside"),
        ("average_pool2d_s8", {"dilation_h": 2}, "dilation"),
        ("average_pool2d_s8", {"kernel_h": 3}, "entries|entry"),
        ("add_s8", {"shift": 31}, "found 31, expected 30"),
        ("add_s8", {"mult_a": 2**24, "mult_b": 0}, "overflow"),
        ("add_s8", {"mult_a": -(2**31)}, "overflow"),
        ("add_s8", {"offset": -(2**31)}, "overflow"),
        ("transpose_s8", {"perm_0": 1, "perm_1": 1}, "permuted"),
        ("mul_s8", {"mult": -1}, "found -1, expected 0"),
        ("mul_s8", {"shift": 32}, "found 32, expected 31"),
        ("minmax_s8", {"mult_b": -(2**24), "offset_b": 0}, "overflow"),
        ("minmax_s8", {"shift": 31}, "found 31, expected 30"),
        ("matmul_s8", {"transpose_b": 1}, "fit"),
        ("matmul_s8", {"shift": -31}, "found -31, expected -30"),
        ("reduce_s8", {"mode": 7}, "found 7, expected 6"),
        ("reduce_s8", {"mode": 0, "bias": 1}, "bias"),
        ("reduce_s8", {"mode": 6, "bias": 2**24 + 1}, "bias"),
        ("reduce_s8", {"act_min": 3, "act_max": 2}, "act_min"),
        ("div_s8", {"factor": 2**21 + 1}, "expected 2097152"),
        ("div_s8", {"shift": 23}, "found 23, expected 22"),
        ("layer_norm_s8", {"inner": 3}, "channels"),
        ("layer_norm_s8", {"channels": 0}, "found 0, expected 1"),
        ("layer_norm_s8", {"epsilon_high": 2**30}, "expected 1073741823"),
        ("layer_norm_s8", {"mode": 3}, "found 3, expected 2"),
        ("norm_s8", {"mode": 2}, "found 2, expected 1"),
        ("norm_s8", {"each": 2}, "found 2, expected 1"),
        ("norm_s8", {"each": 1}, "bytes of a constant"),
        ("norm_s8", {"fraction": 17}, "found 17, expected 16"),
        ("norm_s8", {"fraction": 16}, "32 bits"),
        ("norm_s8", {"epsilon": -1}, "found -1, expected 0"),
        ("norm_s8", {"epsilon": 2**31 - 1, "fraction": 7}, "32 bits"),
        ("norm_s8", {"factor": 65535, "up": -24, "fraction": 7}, "32 bits|16 bits"),
        ("norm_s8", {"factor": 0}, "found 0, expected 1"),
        ("norm_s8", {"up": 2}, "16 bits"),
        ("norm_s8", {"up": 17}, "found 17, expected 16"),
        ("norm_s8", {"offset": 2**30}, "found 1073741824, expected 1073741823"),
        ("log_softmax_s8", {"mult": 2**23, "mult_log": 2**24}, "overflow"),
        ("log_softmax_s8", {"shift": 31}, "found 31, expected 30"),
    ],
)
def test_refusals(kernel: str, params: dict[str, int], text: str) -> None:
    c = next(c for c in CASES if c.kernel == kernel and len(c.q.dims) > 1)
    with pytest.raises(FormatError, match=text):
        engine.NativeModel(patched(codec.encode(model_of(c)), params))


def test_refuses_constants() -> None:
    def load(kernel: str, **blobs: np.ndarray) -> None:
        engine.NativeModel(patched(codec.encode(model_of(_case(kernel))), blobs=blobs))

    for kernel in ("conv2d_s8", "depthwise_conv2d_s8", "fully_connected_s8"):
        b = _case(kernel).blobs
        for bias in (-(2**31), 2**31 - 1, -(2**31) + 1):
            with pytest.raises(FormatError, match="overflow"):
                load(kernel, bias=np.full_like(b["bias"], bias))
        for shift in (-31, 32, 127, -128):
            with pytest.raises(FormatError, match="shift"):
                load(kernel, shift=np.full_like(b["shift"], shift))
        with pytest.raises(FormatError, match="mult"):
            load(kernel, mult=np.full_like(b["mult"], -1))
    for table in (np.zeros(256, np.uint32), np.full(256, 2**23 + 1, np.uint32)):
        with pytest.raises(FormatError, match="table"):
            load("softmax_s8", table=table)
    # The largest of each half of the exponentials: what the softmax divides by has to stay within 2^31.
    table = _case("softmax_s16").blobs["exponentials"].copy()
    for place, value in (
        (0, 2**24 - 1),
        (1, 2**24 + 1),
        (255, 2**24 + 1),
        (256, 0),
        (256, 2**31),
        (257, 2**31 + 1),
        (511, 2**32 - 1),
    ):
        wrong = table.copy()
        wrong[place] = value
        with pytest.raises(FormatError, match="table"):
            load("softmax_s16", exponentials=wrong)


def test_the_root_of_64_bits() -> None:
    """The nearest integer to the root, and at most 2^32 - 1: of an energy, for features of sound."""
    root = c_build.whole_engine().mica_pcan_root
    root.argtypes, root.restype = [ctypes.c_uint64], ctypes.c_uint32
    rng = np.random.default_rng(1)
    values = {
        int(v) >> int(s)
        for v, s in zip(rng.integers(0, 2**64, 4000, np.uint64), rng.integers(0, 64, 4000), strict=True)
    }
    for bits in range(64):
        values |= {1 << bits, (1 << bits) - 1, (2 << bits) - 1, 3 << bits >> 1}
    squares = [r * r for r in (2**30 - 1, 2**30, 2**30 + 1, 2**31 - 1, 2**31 + 1, 2**32 - 1)]
    for v in sorted({*values, *squares, *(r + 2**29 for r in squares), 0}):
        r = math.isqrt(v)
        assert root(v) == min(r + (v - r * r > r), 2**32 - 1), v


def test_accumulator_bound_is_tight() -> None:
    """|bias| + 128 * sum|w| one below 2**31 is computed exactly; at 2**31 it is refused."""
    k = 2**16 - 1
    w = np.full((1, k), 127, np.int8)
    room = 2**31 - 1 - 128 * 127 * k
    x = np.full((1, k), -128, np.int8)
    blobs = {"weights": w, "mult": np.array([2**31 - 1], np.int32), "shift": np.array([24], np.int8)}
    blobs |= {"bias": np.array([-room], np.int32)}
    c = Case("tight", "fully_connected_s8", [x], {"act_min": -128, "act_max": 127}, Output((1, 1)), blobs)
    model = _loaded(c)
    model.run()
    np.testing.assert_array_equal(model.output(0), _oracle(c))
    with pytest.raises(FormatError, match="overflow"):
        engine.NativeModel(patched(codec.encode(model_of(c)), blobs={"bias": np.array([-room - 1], np.int32)}))


def test_scratch_min() -> None:
    """The formula stands in the kernel's row and in C."""
    for k in KERNELS:
        for channels in (1, 3, 64, 65535):
            for reduction in (1, 9, 2304, 2**20):
                in_c = engine._engine.mica_scratch_min(k.id, channels, reduction)
                assert scratch_min(k.name, channels) == in_c
        assert engine._engine.mica_kernel_name(k.id).decode() == k.name
    assert engine._engine.mica_kernel_name(0) is None
