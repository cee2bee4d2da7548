"""Small models for the tests of the user module, put on the board as globals before a script runs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mica.format import schema
from mica.file.codec import DTYPE_NUMPY, ModelFile, StepRecord, TensorRecord, encode, step_flags
from mica.file.order import Call, Strip
from mica.file.tokens import Tokens, listed
from mica.format.weights import CODES4, OFFSET_ROWS
from mica.run.golden import with_golden
from mica.reference.executor import ReferenceModel
from mica.kernels import KERNEL_BY_NAME
from mica.kernels.scratch import scratch_min

ONE = 2**30  # mult and shift of the factor 1/2**n: requant(acc, ONE, n - 1)


def _channels(rng: np.random.Generator, shape: tuple[int, ...]) -> dict[str, np.ndarray]:
    """Weights, bias and a factor near 1 / (16 * reduction) for each output channel."""
    n = shape[0]
    weights = rng.integers(-127, 128, shape, dtype=np.int8)
    shift = np.full(n, 5 + int(np.log2(max(1, weights[0].size))), np.int8)
    return {
        "weights": weights,
        "bias": rng.integers(-2000, 2000, n, dtype=np.int32),
        "mult": rng.integers(ONE, 2 * ONE - 1, n, dtype=np.int32),
        "shift": shift,
    }


def _step(name: str, kernel: str, inputs: tuple[int, ...], outputs: tuple[int, ...], **rest: object) -> StepRecord:
    step = StepRecord(name, kernel, inputs, outputs, **rest)  # type: ignore[arg-type]
    if "weights" in step.blobs:
        step.flags = step_flags(step)
    return step


LABELS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
ACT = {"act_min": -128, "act_max": 127}


def _window(kernel: int, stride: int, pad: int) -> dict[str, int]:
    return {
        "kernel_h": kernel,
        "kernel_w": kernel,
        "stride_h": stride,
        "stride_w": stride,
        "dilation_h": 1,
        "dilation_w": 1,
        "pad_top": pad,
        "pad_left": pad,
    } | ACT


def small(seed: int = 1) -> ModelFile:
    """Convolution, depthwise convolution, pool, dense, softmax on an 8x8 picture."""
    rng = np.random.default_rng(seed)
    table = np.round(2.0**23 * np.exp(-np.arange(256) * 0.05)).astype(np.uint32)
    table //= 8  # axis 10: the sum stays below 2**31
    return ModelFile(
        tensors=[
            TensorRecord("picture", "int8", (1, 8, 8, 1), 1 / 16, -128, offset=0),
            TensorRecord("conv", "int8", (1, 8, 8, 4), 0.02, -3, offset=64),
            TensorRecord("dw", "int8", (1, 8, 8, 4), 0.03, 5, offset=320),
            TensorRecord("pool", "int8", (1, 4, 4, 4), 0.03, 5, offset=0),
            TensorRecord("logits", "int8", (1, 10), 0.05, 0, offset=64),
            TensorRecord("probabilities", "int8", (1, 10), 1 / 256, -128, offset=80),
            TensorRecord("flat", "int8", (1, 64), 0.03, 5, offset=0),  # the pool's bytes under another shape
        ],
        steps=[
            _step(
                "/conv",
                "conv2d_s8",
                (0,),
                (1,),
                macs=8 * 8 * 4 * 9,
                blobs=_channels(rng, (4, 3, 3, 1)),
                params=_window(3, 1, 1) | {"groups": 1},
            ),
            _step(
                "/dw",
                "depthwise_conv2d_s8",
                (1,),
                (2,),
                macs=8 * 8 * 4 * 9,
                blobs=_channels(rng, (4, 3, 3)),
                params=_window(3, 1, 1),
            ),
            _step("/pool", "max_pool2d_s8", (2,), (3,), params=_window(2, 2, 0)),
            _step("/dense", "fully_connected_s8", (6,), (4,), macs=640, blobs=_channels(rng, (10, 64)), params=ACT),
            _step("/softmax", "softmax_s8", (4,), (5,), blobs={"table": table}),
        ],
        inputs=[0],
        outputs=[5],
        metadata={"name": "small", "labels": "\n".join(LABELS)},
    )


def dense() -> ModelFile:
    """The last two layers only, with the flattened pool as the input: another model for the same arena."""
    model = small(2)
    model.tensors = [model.tensors[i] for i in (6, 4, 5)]
    model.steps = model.steps[3:]
    for i, step in enumerate(model.steps):
        step.inputs, step.outputs = (i,), (i + 1,)
    model.inputs, model.outputs = [0], [2]
    model.metadata = {"name": "dense"}
    return model


def coded() -> ModelFile:
    """A dense layer whose weights are 16 numbers in codes of 4 bits."""
    model = dense()
    step = model.steps[0]
    step.blobs["weights"] = (step.blobs["weights"] // 16).astype(np.int8)
    step.layout = CODES4.code
    return model


def deep() -> ModelFile:
    """Three dense layers of 128 outputs, 52 kB: in flash each weight is waited for."""
    rng = np.random.default_rng(11)
    tensors = [TensorRecord(f"t{i}", "int8", (1, 128), 0.05, -3, offset=128 * (i % 2)) for i in range(4)]
    steps = [
        _step(f"/dense{i}", "fully_connected_s8", (i,), (i + 1,), macs=128 * 128, params=ACT,
              blobs=_channels(rng, (128, 128)), layout=OFFSET_ROWS.code)
        for i in range(3)
    ]  # fmt: skip
    for step in steps:
        step.flags = step_flags(step)
    return ModelFile(tensors=tensors, steps=steps, inputs=[0], outputs=[3], arena_bytes=256)


def signal() -> ModelFile:
    """Layers of one row, with windows of every kind along it and pads that some of them reach,
    in the layouts of `mica pack`."""
    rng = np.random.default_rng(7)
    thirds = {"mult": np.array([2**30, 2**30, 1431655765], np.int32), "shift": np.array([-1, 0, 1], np.int8)}

    def window(kernel: int, stride: int, pad: int) -> dict[str, int]:
        return {**_window(kernel, stride, pad), "kernel_h": 1, "stride_h": 1, "pad_top": 0}

    shapes = [(1, 37, 6), (1, 19, 12), (1, 19, 12), (1, 10, 12), (1, 6, 12), (1, 6, 8), (48,), (18,), (7,)]
    tensors = [
        TensorRecord(f"t{i}", "int8", (1, *shape), 0.05, 2 * i - 7, offset=256 * (i % 2))
        for i, shape in enumerate(shapes)
    ]
    tensors[6].offset = tensors[5].offset  # the same bytes, flat
    tensors[7].offset, tensors[8].offset = 0, 256
    layers = [
        ("conv2d_s8", 0, 1, _channels(rng, (12, 1, 5, 6)), window(5, 2, 2) | {"groups": 1}),
        ("depthwise_conv2d_s8", 1, 2, _channels(rng, (12, 1, 3)), window(3, 1, 1)),
        (
            "average_pool2d_s8",
            2,
            3,
            thirds,
            window(3, 2, 1) | {"pad_bottom": 0, "pad_right": 1, "count_include_pad": 1},
        ),
        ("max_pool2d_s8", 3, 4, {}, window(3, 2, 2)),
        ("conv2d_s8", 4, 5, _channels(rng, (8, 1, 3, 12)), window(3, 1, 2) | {"dilation_w": 2, "groups": 1}),
        ("fully_connected_s8", 6, 7, _channels(rng, (18, 48)), ACT),
        ("fully_connected_s8", 7, 8, _channels(rng, (7, 18)), ACT),
    ]
    tensors[4].zero_point = tensors[3].zero_point  # a pool's scale is its input's
    steps = []
    for i, (kernel, x, y, blobs, params) in enumerate(layers):
        macs = 0
        if "weights" in blobs:
            macs = 100 * (i + 1)
            blobs["shift"] -= 2  # larger numbers: an error in one layer is to be seen at the end
        steps.append(_step(f"/{i}", kernel, (x,), (y,), macs=macs, blobs=blobs, params=params))
        steps[-1].layout = KERNEL_BY_NAME[kernel].layout.code
    return ModelFile(tensors=tensors, steps=steps, inputs=[0], outputs=[8], metadata={"name": "signal"})


def two() -> ModelFile:
    """Two inputs, two outputs: the sum, and the sum negated by a table."""
    table = np.clip(-np.arange(-128, 128), -128, 127).astype(np.int8)
    return ModelFile(
        tensors=[
            TensorRecord("a", "int8", (1, 2, 3), 0.5, 0, offset=0),
            TensorRecord("b", "int8", (3,), 0.5, 0, offset=16),
            TensorRecord("sum", "int8", (1, 2, 3), 1.0, 0, offset=32),
            TensorRecord("minus", "int8", (1, 2, 3), 1.0, 0, offset=48),
        ],
        steps=[
            _step("add", "add_s8", (0, 1), (2,), params={"mult_a": 1, "mult_b": 1, "offset": 1, "shift": 1} | ACT),
            _step("neg", "lut_s8", (2,), (3,), blobs={"table": table}),
        ],
        inputs=[0, 1],
        outputs=[2, 3],
    )


def many(n: int = 64) -> ModelFile:
    """A chain of tiny steps, to measure the cost of a step apart from its kernel."""
    table = (np.arange(256) - 127).clip(-128, 127).astype(np.int8)  # y = min(x + 1, 127)
    return ModelFile(
        tensors=[TensorRecord(f"t{i}", "int8", (1, 4), 1.0, 0, offset=16 * (i % 2)) for i in range(n + 1)],
        steps=[_step(f"step{i}", "lut_s8", (i,), (i + 1,), blobs={"table": table}) for i in range(n)],
        inputs=[0],
        outputs=[n],
        metadata={"name": "many"},
    )


def state() -> ModelFile:
    """A running sum: y = x + s, then s = y. The state outlives the run."""
    same = np.arange(-128, 128).astype(np.int8)
    return ModelFile(
        tensors=[
            TensorRecord("x", "int8", (4,), 1.0, 0, offset=0),
            TensorRecord("s", "int8", (4,), 1.0, 0, "state", offset=0),
            TensorRecord("y", "int8", (4,), 1.0, 0, offset=16),
        ],
        steps=[
            _step("sum", "add_s8", (0, 1), (2,), params={"mult_a": 1, "mult_b": 1, "offset": 0, "shift": 0} | ACT),
            _step("keep", "lut_s8", (2,), (1,), blobs={"table": same}),
        ],
        inputs=[0],
        outputs=[2],
    )


def big(size: int = 66000) -> ModelFile:
    """More activations than any board's static arena has."""
    table = np.arange(-128, 128)[::-1].astype(np.int8)
    return ModelFile(
        tensors=[
            TensorRecord("x", "int8", (4, size // 4), 1.0, 0, offset=0),
            TensorRecord("y", "int8", (4, size // 4), 1.0, 0, offset=0),
        ],
        steps=[_step("mirror", "lut_s8", (0,), (1,), blobs={"table": table})],
        inputs=[0],
        outputs=[1],
    )


def embedding(width: int = 64) -> ModelFile:
    """Its output is its input: what a test teaches is what it writes."""
    same = np.arange(-128, 128).astype(np.int8)
    x, y = (TensorRecord(n, "int8", (1, width), 1.0, 0, offset=at) for n, at in (("x", 0), ("y", width + 15 & -16)))
    step = _step("same", "lut_s8", (0,), (1,), blobs={"table": same})
    return ModelFile([x, y], [step], [0], [1], {"name": "embedding"})


def narrow5() -> ModelFile:
    return embedding(5)


def narrow7() -> ModelFile:
    return embedding(7)


def lent(rows: int = 65) -> ModelFile:
    """A convolution with more activations than any board's static arena has,
    and a wish for scratch that all of them can grant."""
    rng = np.random.default_rng(7)
    return ModelFile(
        tensors=[
            TensorRecord("x", "int8", (1, rows, 64, 2), 0.05, 3, offset=0),
            TensorRecord("y", "int8", (1, rows, 64, 14), 0.05, -5, offset=128 * rows),
        ],
        steps=[
            _step(
                "/conv",
                "conv2d_s8",
                (0,),
                (1,),
                macs=64 * rows * 28,
                blobs=_channels(rng, (14, 1, 1, 2)),
                params=_window(1, 1, 0) | {"groups": 1},
                scratch_min=scratch_min("conv2d_s8", 14),
                scratch_want=8192,
            )
        ],
        inputs=[0],
        outputs=[1],
    )


def places() -> ModelFile:
    """A model that ends in ArgMax: for each of three rows, the place of its largest value, int32."""
    return ModelFile(
        tensors=[
            TensorRecord("scores", "int8", (3, 5), 0.25, 3, offset=0),
            TensorRecord("label", "int32", (3,), offset=16),
        ],
        steps=[_step("argmax", "argmax_s8", (0,), (1,), params={"axis": 1})],
        inputs=[0],
        outputs=[1],
        metadata={"name": "places"},
    )


def labelled(**metadata: str) -> ModelFile:
    """The number of a class in front of its scores, as scikit-learn's classifiers have them."""
    return ModelFile(
        tensors=[
            TensorRecord("x", "int8", (1, 3), 0.25, 0, offset=0),
            TensorRecord("scores", "int8", (1, 3), 0.25, 0, offset=0),
            TensorRecord("label", "int32", (1,), offset=16),
        ],
        steps=[_step("argmax", "argmax_s8", (0,), (2,), params={"axis": 1})],
        inputs=[0],
        outputs=[2, 1],
        metadata={"name": "labelled", "labels": "ant\nbee\ncat", **metadata},
    )


def unscored() -> ModelFile:
    """It with numbers that are no scores."""
    return labelled(scores="-1")


def by_rows() -> ModelFile:
    """`small` with its first three layers as a strip: four rows of the first are kept, two of the second."""
    model = small()
    names = ("conv", "dw", "pool", "logits", "probabilities", "flat")
    for t, (name, offset) in zip(
        model.tensors[1:], zip(names, (64, 160, 224, 288, 304, 224), strict=True), strict=True
    ):
        assert t.name == name
        t.offset = offset
        t.space = "rows" if name in ("conv", "dw") else "arena"
    calls: list[Call] = []
    for pool in range(4):
        for dw in (2 * pool, 2 * pool + 1):
            for conv in range(0 if dw == 0 else dw + 1, min(dw + 2, 8)):
                calls.append(Call(0, 1, int(conv > 2)))  # dw reads the rows before, beside and behind its own
            calls.append(Call(1, 1, 2 if dw == 2 * pool and dw else 0))
        calls.append(Call(2, 1, 0))
    model.strips = [Strip(0, 3, tuple(calls))]
    return golden(lambda: model)


def fed() -> ModelFile:
    """The same with the picture fed: three rows of it are kept."""
    model = by_rows()
    places = {"picture": 0, "conv": 32, "dw": 160, "pool": 224, "flat": 224, "logits": 0, "probabilities": 16}
    for t in model.tensors:
        t.offset = places[t.name]
    model.tensors[0].space = "rows"
    calls: list[Call] = []
    made = 0
    for c in model.strips[0].calls:
        if c.step == 0:
            if made < 7:
                calls.append(Call(schema.FEED, 2 if made == 0 else 1, int(made > 1)))
            made += 1
        calls.append(c)
    model.strips = [Strip(0, 3, tuple(calls))]
    model.golden = []
    return golden(lambda: model)


def fed_spare() -> ModelFile:
    """The same model with the picture in half the steps: a spare of another scale."""
    model = fed()
    model.tensors[0].scale, model.golden = 1 / 8, []
    return model


def _parts(text: str, outputs: list[int]) -> ModelFile:
    """The integers of x as they are, in steps of 1, of 1/8 and of 128: three tensors of [2, 3]."""
    same = np.arange(-128, 128).astype(np.int8)
    scales = (1.0, 0.125, 128.0)
    return ModelFile(
        tensors=[
            TensorRecord("x", "int8", (2, 3), 1.0, 0, offset=0),
            *(
                TensorRecord(n, "int8", (2, 3), s, 0, offset=16 + 16 * i)
                for i, (n, s) in enumerate(zip(("sum", "all.0", "all.1"), scales))
            ),
        ],
        steps=[_step(f"lut{i}", "lut_s8", (0,), (i + 1,), blobs={"table": same}) for i in range(3)],
        inputs=[0],
        outputs=outputs,
        metadata={"name": "parts", "joins": text},
        features=schema.FEATURES["JOINS"],
    )


def joined() -> ModelFile:
    """Two outputs that are one array along its last axis, and one by itself."""
    return _parts("2 1 all\n1 0 sum", [2, 3, 1])


def stacked() -> ModelFile:
    """Three outputs that are one array along its first axis."""
    return _parts("3 0 all", [1, 2, 3])


def misjoined() -> ModelFile:
    """More parts than there are outputs."""
    return _parts("5 1 all", [1, 2, 3])


def golden(make: Callable[[], ModelFile] = small, n: int = 2) -> ModelFile:
    """A model with golden vectors, and checksums of its layers."""
    model = make()
    return with_golden(model, encode(model), None, n)


def golden_state() -> ModelFile:
    """Four runs, in each of which the state is another."""
    return golden(state, 4)


def golden_old() -> ModelFile:
    """A model of format 1.0: vectors, but no checksums of the layers. The second vector is wrong in its last output."""
    model = golden(two)
    for g in model.golden:
        g.layer_crcs = []
    model.golden[1].outputs[1] = model.golden[1].outputs[1] ^ 1
    return model


def _seen(model: ModelFile, text: str = "grey 1048576,-134217728") -> ModelFile:
    model.metadata["picture"] = text
    return model


def seen() -> ModelFile:
    """`small`, whose picture has its bytes less 128."""
    return _seen(small())


def seen_fed() -> ModelFile:
    return _seen(fed())


def seen_wrong() -> ModelFile:
    """Numbers for three colours, of a picture with one."""
    return _seen(small(), "rgb 1048576,0 1048576,0 1048576,0")


PIECES = (
    b"",
    *(bytes([c]) for c in b"abcdehlortw .,!?"),
    b"he",
    b"the",
    b" a",
    b"lo",
    b"\xc3",
    b"\xa9",
    b"\xe2\x82",
    b"\xac",
)


def language() -> ModelFile:
    """A language model that looks at the last token alone; its pieces may end within a character."""
    n = len(PIECES)
    table = np.random.default_rng(4).integers(-60, 60, (n, n), dtype=np.int8)
    table[:, 0] = -70  # the end is rare
    table[3, 0] = 90
    facts = [
        TensorRecord("position", "int32", (1,), offset=0),
        TensorRecord("token", "int32", (1,), offset=16),
        TensorRecord("scores", "int8", (1, n), 0.05, 0, offset=32),
    ]
    step = _step("look", "embedding_s8", (1,), (2,), params={"rows": n}, blobs={"table": table})
    t = listed(Tokens(PIECES, begin=0, end=0, token=1, position=0, positions=60))
    return ModelFile(facts, [step], [0, 1], [2], {"name": "language"}, tokens=t)


def remembering() -> ModelFile:
    """A language model without positions: its state is the sum of its inputs, so a token given twice counts twice."""
    n = len(PIECES)
    table = np.random.default_rng(5).integers(-60, 60, (n, n), dtype=np.int8)
    table[:, 0] = -30  # the end
    same = np.arange(-128, 128).astype(np.int8)
    tensors = [
        TensorRecord("token", "int32", (1,), offset=0),
        TensorRecord("seen", "int8", (1, n), 0.05, 0, offset=16),
        TensorRecord("before", "int8", (1, n), 0.05, 0, "state", offset=0),
        TensorRecord("scores", "int8", (1, n), 0.05, 0, offset=48),
    ]
    half = {"mult_a": 1, "mult_b": 1, "offset": 1, "shift": 1} | ACT
    steps = [
        _step("look", "embedding_s8", (0,), (1,), params={"rows": n}, blobs={"table": table}),
        _step("add", "add_s8", (1, 2), (3,), params=half),
        _step("keep", "lut_s8", (3,), (2,), blobs={"table": same}),
    ]
    t = listed(Tokens(PIECES, end=0))
    return ModelFile(tensors, steps, [0], [3], {"name": "remembering"}, tokens=t)


def _int16(dims: tuple[int, ...], metadata: dict[str, str]) -> ModelFile:
    """int16 of any shape in, three scores out: for programs that read a sensor."""
    n = int(np.prod(dims))
    tensors = [
        TensorRecord("samples", "int16", dims, 1 / 32768, 0, offset=0),
        TensorRecord("narrow", "int8", dims, 1 / 128, 0, offset=-(-2 * n // 16) * 16),
        TensorRecord("flat", "int8", (1, n), 1 / 128, 0, offset=-(-2 * n // 16) * 16),
        TensorRecord("scores", "int8", (1, 3), 1 / 32, 0, offset=-(-3 * n // 16) * 16 + 16),
    ]
    narrow = {"mult": 2**30, "shift": 7} | ACT
    steps = [
        _step("narrow", "narrow_s8", (0,), (1,), params=narrow),
        _step("dense", "fully_connected_s8", (2,), (3,), params=ACT, blobs=_channels(np.random.default_rng(8), (3, n))),
    ]
    return ModelFile(tensors, steps, [0], [3], {"labels": "low\nmiddle\nhigh"} | metadata)


def hearing() -> ModelFile:
    """64 samples of a microphone."""
    return _int16((1, 64), {"name": "hearing", "sample_rate": "16000"})


def moving() -> ModelFile:
    """Eight rows of a motion sensor."""
    return _int16((1, 8, 6), {"name": "moving"})


MODELS = {
    "language": language,
    "remembering": remembering,
    "small": small,
    "dense": dense,
    "deep": deep,
    "signal": signal,
    "two": two,
    "many": many,
    "state": state,
    "big": big,
    "embedding": embedding,
    "narrow5": narrow5,
    "narrow7": narrow7,
    "lent": lent,
    "places": places,
    "labelled": labelled,
    "unscored": unscored,
    "joined": joined,
    "stacked": stacked,
    "misjoined": misjoined,
    "golden": golden,
    "by_rows": by_rows,
    "fed": fed,
    "fed_spare": fed_spare,
    "golden_state": golden_state,
    "golden_old": golden_old,
    "seen": seen,
    "seen_fed": seen_fed,
    "seen_wrong": seen_wrong,
}


def build() -> dict[str, bytes]:
    """Globals for the scripts: each model's file as NAME, an input as NAME_x, the oracle's answer as NAME_y."""
    names: dict[str, bytes] = {}
    for name, make in MODELS.items():
        names[name] = data = encode(make())
        oracle = ReferenceModel(data)
        rng = np.random.default_rng(len(name))
        x = b""
        for i, t in enumerate(oracle.file.inputs):
            tensor = oracle.file.tensors[t]
            values = rng.integers(-128, 128, tensor.dims).astype(DTYPE_NUMPY[tensor.dtype])
            oracle.set_input(i, values)
            x += values.tobytes()
        oracle.run()
        names[name + "_x"] = x
        names[name + "_y"] = b"".join(oracle.output(i).tobytes() for i in range(len(oracle.file.outputs)))
    return names


if __name__ == "__main__":
    import sys
    from pathlib import Path

    for file_name, content in build().items():
        (Path(sys.argv[1]) / file_name).write_bytes(content)
        print(file_name, len(content))
