"""Random small networks of the supported operators, from a seed, for the property tests of the compiler."""

from __future__ import annotations

from typing import Any

import numpy as np
from nets import Net

AUTO_PADS = ("SAME_UPPER", "SAME_LOWER", "VALID")


class RandomNet(Net):
    """A CNN or an MLP, 1-D or 2-D, with branches. The same seed makes the same network."""

    def __init__(self, seed: int) -> None:
        super().__init__(opset=0, seed=seed)
        self.opset = self.pick(11, 13, 17, 19)
        self.shapes: dict[str, list[int]] = {}
        if self.chance(0.2):
            y = self._start([1, self.upto(24)] if self.chance(0.7) else [1, self.upto(4), self.upto(12)])
        else:
            spatial = [self.upto(14, 5) for _ in range(self.pick(1, 2, 2, 2))]
            y = self._start([1, self.upto(6), *spatial])
            for _ in range(self.upto(4)):
                y = self._image_layer(y)
            if self.chance(0.3):
                self.output(y)
            y = self._head(y)
        for _ in range(self.upto(3) - 1):
            y = self._dense(y)
        if self.chance(0.5):
            y = self._as_is("Softmax", y, axis=len(self.shapes[y]) - 1)
        self.output(y)

    # Chances

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def upto(self, high: int, low: int = 1) -> int:
        return int(self.rng.integers(low, high + 1))

    def pick(self, *options: Any) -> Any:
        return options[int(self.rng.integers(len(options)))]

    # Layers: value name in, value name out

    def _start(self, shape: list[int]) -> str:
        x = self.input(shape)
        self.shapes[x] = shape
        return x

    def _note(self, y: str, shape: list[int]) -> str:
        self.shapes[y] = shape
        return y

    def _as_is(self, op: str, x: str, *inputs: str, **attrs: Any) -> str:
        return self._note(self.add(op, x, *inputs, **attrs), self.shapes[x])

    def _image_layer(self, x: str) -> str:
        y = self.pick(
            self._conv, self._conv, self._conv, self._depthwise, self._pool, self._branch, self._norm, self._movement
        )(x)
        return self._activation(y) if self.chance(0.7) else y

    def _movement(self, x: str) -> str:
        """Elements picked, repeated, padded, interpolated or joined."""
        shape = self.shapes[x]
        axis = self.upto(len(shape) - 1)
        kind = self.pick("slice", "pad", "concat", "split", "resize", "gather")
        if kind == "slice":
            begin, step = self.upto(shape[axis] - 1, 0) if shape[axis] > 1 else 0, self.pick(1, 1, 2, -1)
            ints = [self.const(np.array([v])) for v in (begin, -(2**31) if step < 0 else shape[axis], axis, step)]
            n = len(range(shape[axis])[begin : None if step < 0 else shape[axis] : step])
            return self._note(self.add("Slice", x, *ints), [*shape[:axis], n, *shape[axis + 1 :]])
        if kind == "pad":
            mode = self.pick("constant", "edge", "reflect")
            room = min(2, shape[axis] - 1) if mode == "reflect" else 2
            pads = np.zeros((2, len(shape)), np.int64)
            pads[:, axis] = self.upto(room, 0), self.upto(room, 0)
            y = self.add("Pad", x, self.const(pads.reshape(-1)), self.const(self.pick(0.0, 0.7)), mode=mode)
            return self._note(y, [n + int(p) for n, p in zip(shape, pads.sum(axis=0), strict=True)])
        if kind == "concat":
            y = self.add("Concat", x, self._activation(x), *([x] if self.chance(0.3) else []), axis=1)
            return self._note(y, [1, shape[1] * len(self.nodes[-1].input), *shape[2:]])
        if kind == "split" and shape[1] > 1:
            first = self.upto(shape[1] - 1)
            a, b = f"s{len(self.nodes)}", f"t{len(self.nodes)}"
            sizes = [first, shape[1] - first]
            old = {"split": sizes} if self.opset < 13 else {}
            self.add("Split", x, *([] if old else [self.const(np.array(sizes))]), outputs=[a, b], axis=1, **old)
            for name, n in zip((a, b), sizes, strict=True):
                self.shapes[name] = [1, n, *shape[2:]]
            return self._note(self.add("Concat", b, self._activation(a), axis=1), shape)
        if kind == "resize" and all(n < 12 for n in shape):
            scales = [1.0, 1.0, *(self.pick(1.0, 2.0, 1.5) for _ in shape[2:])]
            mode = self.pick("nearest", "linear")
            y = self.add(
                "Resize", x, self.const(np.zeros(0, np.float32)), self.const(np.array(scales, np.float32)), mode=mode
            )
            return self._note(y, [int(n * s) for n, s in zip(shape, scales, strict=True)])
        indices = self.rng.integers(0, shape[axis], self.upto(4))
        return self._note(
            self.add("Gather", x, self.const(indices), axis=axis), [*shape[:axis], len(indices), *shape[axis + 1 :]]
        )

    def _activation(self, x: str) -> str:
        op = self.pick(
            "Relu", "Relu", "Clip", "Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid", "Neg", "Elu", "Abs", "Swish"
        )
        if op == "Swish":  # spelled out, and found again by the compiler
            return self._as_is("Mul", x, self._as_is("Sigmoid", x))
        if op == "Clip":
            return self._as_is(op, x, self.const(self.pick(0.0, -0.5)), self.const(self.pick(6.0, 0.7)))
        return self._as_is(op, x)

    def _window(self, x: str, pool: bool) -> tuple[list[int], dict[str, Any], list[int]]:
        """Kernel, attributes and output size of a window that fits x."""
        kernel: list[int] = []
        strides: list[int] = []
        dilations: list[int] = []
        sizes: list[int] = []
        rounded_up: list[int] = []
        pads: tuple[list[int], list[int]] = ([], [])
        auto = self.pick(*AUTO_PADS) if self.chance(0.3) else None
        ceil = pool and auto is None and self.chance(0.4)
        for size in self.shapes[x][2:]:
            k = self.upto(min(4, size))
            d = self.upto(2) if not pool and auto is None and (k - 1) * 2 < size else 1
            s = self.upto(3)
            reach = (k - 1) * d + 1
            before, after = (self.upto(k - 1, 0), self.upto(k - 1, 0)) if auto is None else (0, 0)
            room = size + before + after - reach
            n = room // s + 1
            up = -(-room // s) + 1
            # A window that would begin in the padding behind is no window, but ONNX's inference, and with it ONNX
            # Runtime, thinks otherwise: test_passes.py has those.
            ceil = ceil and (up - 1) * s < size + before
            if auto in ("SAME_UPPER", "SAME_LOWER"):
                s = min(s, k)  # ONNX Runtime refuses the negative pads of wider strides in pools
                n = -(-size // s)
            for everything, one in ((kernel, k), (strides, s), (dilations, d), (sizes, n), (rounded_up, up)):
                everything.append(one)
            pads[0].append(before)
            pads[1].append(after)
        attrs: dict[str, Any] = {"strides": strides}
        if auto is None:
            attrs["pads"] = pads[0] + pads[1]
        else:
            attrs["auto_pad"] = auto
        if not pool:
            attrs["dilations"] = dilations
        if ceil:
            attrs["ceil_mode"] = 1
        return kernel, attrs, rounded_up if ceil else sizes

    def _conv(self, x: str) -> str:
        c = self.shapes[x][1]
        group = self.pick(*[g for g in range(1, c + 1) if c % g == 0])
        n_out = group * self.upto(3)
        kernel, attrs, sizes = self._window(x, pool=False)
        y = self.conv(x, c, n_out, kernel, bias=self.chance(0.7), group=group, **attrs)
        return self._note(y, [1, n_out, *sizes])

    def _depthwise(self, x: str) -> str:
        c = self.shapes[x][1]
        n_out = c * self.upto(2)
        kernel, attrs, sizes = self._window(x, pool=False)
        return self._note(self.conv(x, c, n_out, kernel, group=c, **attrs), [1, n_out, *sizes])

    def _pool(self, x: str) -> str:
        kernel, attrs, sizes = self._window(x, pool=True)
        op = self.pick("MaxPool", "AveragePool")
        if op == "AveragePool":
            attrs["count_include_pad"] = self.upto(1, 0)
        return self._note(self.add(op, x, kernel_shape=kernel, **attrs), [1, self.shapes[x][1], *sizes])

    def _branch(self, x: str) -> str:
        c = self.shapes[x][1]
        ones = [1] * len(self.shapes[x][2:])
        a = self._note(self.conv(x, c, c, ones), self.shapes[x])
        b = x if self.chance(0.5) else self._activation(x)
        return self._as_is(self.pick("Add", "Add", "Sub", "Mul", "Max", "Min"), *self.pick((a, b), (b, a)))

    def _norm(self, x: str) -> str:
        c, spatial = self.shapes[x][1], [1] * len(self.shapes[x][2:])
        if self.chance(0.3) and min(self.shapes[x][2:]) > 1:
            r = self.rng
            parts = (r.uniform(0.5, 2, c), r.standard_normal(c))
            return self._as_is(
                "InstanceNormalization", x, *(self.const(p.astype("float32")) for p in parts), epsilon=0.01
            )
        if self.chance(0.5):
            r = self.rng
            parts = (r.uniform(0.5, 2, c), r.standard_normal(c), r.standard_normal(c), r.uniform(0.3, 2, c))
            return self._as_is("BatchNormalization", x, *(self.const(p.astype("float32")) for p in parts))
        return self._as_is(
            self.pick("Mul", "Add", "Sub"), x, self.random(*self.pick((1, c, *spatial), (c, *spatial), ()))
        )

    def _head(self, x: str) -> str:
        c = self.shapes[x][1]
        if self.chance(0.5):
            op = self.pick("GlobalAveragePool", "GlobalMaxPool", "ReduceMax", "ReduceMean", "ReduceL2", "ReduceMin")
            axis = self.upto(len(self.shapes[x]) - 1)
            shape = [1, c] + [1] * len(self.shapes[x][2:])
            if op.startswith("Reduce"):
                shape = [1 if i == axis else d for i, d in enumerate(self.shapes[x])]
                by_input = self.opset >= 18
                x = self.add(op, x, self.const([axis])) if by_input else self.add(op, x, axes=[axis])
                x = self._note(x, shape)
            else:
                x = self._note(self.add(op, x), shape)
        n = 1
        for d in self.shapes[x]:
            n *= d
        return self._note(self.add("Flatten", x), [1, n])

    def _dense(self, x: str) -> str:
        shape = self.shapes[x]
        n = self.upto(10)
        if len(shape) == 2 and self.chance(0.5):
            y = self.add("Gemm", x, self.random(n, shape[-1]), self.random(n), transB=1)
        else:
            y = self.add("MatMul", x, self.random(shape[-1], n))
            y = self.add("Add", y, self.random(n)) if self.chance(0.7) else y
        y = self._note(y, [*shape[:-1], n])
        if self.opset >= 17 and n > 1 and self.chance(0.2):
            y = self._as_is("LayerNormalization", y, self.random(n), self.random(n), epsilon=0.01)
        return self._activation(y) if self.chance(0.5) else y
