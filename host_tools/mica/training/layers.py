"""Layers of small networks in NumPy, with their gradients. Pictures and spectra are [n, height, width, channels].

`forward` takes a random generator while it learns, and None afterwards. `backward` takes the loss's gradient of what
`forward` gave last, leaves those of the learnt arrays in `gradients`, and returns that of the layer's input.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Array = np.ndarray
Rng = np.random.Generator

EPSILON = 1e-3  # of a norm: is added to the variance
BANK = 0.2  # as many examples of a bank as this share of a batch
MOMENTUM = 0.1  # of a norm: the share of a batch in what is kept for later


class Layer:
    """values: learnt arrays by name; kept: arrays that follow the batches; gradients: of `values`, by the last
    `backward`."""

    def __init__(self, **values: Array) -> None:
        self.values = values
        self.kept: dict[str, Array] = {}
        self.gradients: dict[str, Array] = {}

    def forward(self, x: Array, rng: Rng | None) -> Array:
        raise NotImplementedError

    def backward(self, d: Array) -> Array:
        raise NotImplementedError


def pads(size: int, kernel: int, stride: int) -> tuple[int, int, int]:
    """Return the size of the output and the zeros before and after, as of TensorFlow's SAME."""
    out = -(-size // stride)
    total = max(0, (out - 1) * stride + kernel - size)
    return out, total // 2, total - total // 2


class Conv(Layer):
    """A convolution without bias, which the norm behind it has. w: [height * width * channels, filters]."""

    def __init__(self, rng: Rng, kernel: tuple[int, int], channels: int, filters: int, stride: tuple[int, int]) -> None:
        self.kernel, self.stride, self.channels = kernel, stride, channels
        taps = kernel[0] * kernel[1] * channels
        super().__init__(w=_normal(rng, (taps, filters), 2 / taps))
        self.first = False  # nobody asks for the gradient of the network's input
        self._pointwise = kernel == stride == (1, 1)

    def forward(self, x: Array, rng: Rng | None) -> Array:
        n, height, width, c = self._shape = x.shape
        (kh, kw), (sh, sw) = self.kernel, self.stride
        (oh, top, bottom), (ow, left, right) = pads(height, kh, sh), pads(width, kw, sw)
        self._out, self._at = (n, oh, ow), (top, left)
        if self._pointwise:
            self._rows = x.reshape(-1, c)
        else:  # each window as a row
            x = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))
            self._padded, t = x.shape, x.strides
            windows = np.lib.stride_tricks.as_strided(
                x, (n, oh, ow, kh, kw, c), (t[0], t[1] * sh, t[2] * sw, t[1], t[2], t[3]), writeable=False
            )
            self._rows = windows.reshape(n * oh * ow, -1)
        return (self._rows @ self.values["w"]).reshape(n, oh, ow, -1)

    def backward(self, d: Array) -> Array:
        d = d.reshape(-1, d.shape[-1])
        self.gradients["w"] = self._rows.T @ d
        if self.first:
            return d
        rows = d @ self.values["w"].T
        if self._pointwise:
            return rows.reshape(self._shape)
        (kh, kw), (sh, sw), (n, oh, ow) = self.kernel, self.stride, self._out
        rows = rows.reshape(n, oh, ow, kh, kw, -1)
        x = np.zeros(self._padded, d.dtype)
        for i in range(kh):
            for j in range(kw):
                x[:, i : i + oh * sh : sh, j : j + ow * sw : sw] += rows[:, :, :, i, j]
        (top, left), (_, height, width, _) = self._at, self._shape
        return x[:, top : top + height, left : left + width]


class Depthwise(Layer):
    """A filter of its own for each channel, without bias: shifted pictures, multiplied and added. w: [height, width,
    channels]."""

    def __init__(self, rng: Rng, kernel: tuple[int, int], channels: int, stride: tuple[int, int]) -> None:
        self.kernel, self.stride = kernel, stride
        super().__init__(w=_normal(rng, (*kernel, channels), 2 / (kernel[0] * kernel[1])))

    def _windows(self) -> list[tuple[tuple[int, int], tuple[slice, slice, slice]]]:
        """Return each tap, and the part of the padded picture that it multiplies."""
        (kh, kw), (sh, sw), (oh, ow) = self.kernel, self.stride, self._out
        return [
            ((i, j), (slice(None), slice(i, i + oh * sh, sh), slice(j, j + ow * sw, sw)))
            for i in range(kh)
            for j in range(kw)
        ]

    def forward(self, x: Array, rng: Rng | None) -> Array:
        n, height, width, c = self._shape = x.shape
        (kh, kw), (sh, sw) = self.kernel, self.stride
        (oh, top, bottom), (ow, left, right) = pads(height, kh, sh), pads(width, kw, sw)
        self._out, self._at = (oh, ow), (top, left)
        self._x = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))
        y = np.zeros((n, oh, ow, c), x.dtype)
        product = np.empty_like(y)
        for tap, part in self._windows():
            y += np.multiply(self._x[part], self.values["w"][tap], out=product)
        return y

    def backward(self, d: Array) -> Array:
        w, gradient = self.values["w"], np.empty_like(self.values["w"])
        x, product = np.zeros_like(self._x), np.empty_like(d)
        for tap, part in self._windows():
            np.multiply(self._x[part], d, out=product)
            gradient[tap] = product.reshape(-1, product.shape[-1]).sum(axis=0)
            x[part] += np.multiply(d, w[tap], out=product)
        self.gradients["w"] = gradient
        (top, left), (_, height, width, _) = self._at, self._shape
        return x[:, top : top + height, left : left + width]


class Norm(Layer):
    """Batch norm of the channels, and ReLU. It becomes part of the layer before it when the network is written."""

    def __init__(self, channels: int) -> None:
        super().__init__(scale=np.ones(channels, np.float32), bias=np.zeros(channels, np.float32))
        self.kept = {"mean": np.zeros(channels, np.float32), "variance": np.ones(channels, np.float32)}

    def forward(self, x: Array, rng: Rng | None) -> Array:
        scale, bias = self.values["scale"], self.values["bias"]
        if rng is None:
            factor, offset = self.folded()
            return np.maximum(x * factor + offset, 0)
        rows = x.reshape(-1, x.shape[-1])
        mean = rows.mean(axis=0)
        self._h = x - mean
        rows = self._h.reshape(rows.shape)
        variance = np.einsum("nc,nc->c", rows, rows) / len(rows)
        for name, now in (("mean", mean), ("variance", variance)):
            self.kept[name] += (MOMENTUM * (now - self.kept[name])).astype(self.kept[name].dtype)
        self._inverse = (1 / np.sqrt(variance + EPSILON)).astype(x.dtype)
        self._h *= self._inverse
        y = self._h * scale + bias
        self._on = y > 0
        y *= self._on
        return y

    def backward(self, d: Array) -> Array:
        d = d * self._on
        rows, h = d.reshape(-1, d.shape[-1]), self._h.reshape(-1, d.shape[-1])
        bias, scale = rows.sum(axis=0), np.einsum("nc,nc->c", rows, h)
        self.gradients = {"scale": scale, "bias": bias}
        d -= bias / len(rows)
        d -= self._h * (scale / len(rows))
        d *= self.values["scale"] * self._inverse
        return d

    def folded(self) -> tuple[Array, Array]:
        """Return what a channel is multiplied with once the network has learnt, and what is added then."""
        factor = self.values["scale"] / np.sqrt(self.kept["variance"] + np.float32(EPSILON))
        return factor, self.values["bias"] - self.kept["mean"] * factor


class Pool(Layer):
    """The mean of each channel over the picture."""

    def forward(self, x: Array, rng: Rng | None) -> Array:
        self._shape = x.shape
        return x.mean(axis=(1, 2))

    def backward(self, d: Array) -> Array:
        area = self._shape[1] * self._shape[2]
        return np.broadcast_to((d / area)[:, None, None], self._shape)


class Flat(Layer):
    """All numbers of an example in one row."""

    def forward(self, x: Array, rng: Rng | None) -> Array:
        self._shape = x.shape
        return x.reshape(len(x), -1)

    def backward(self, d: Array) -> Array:
        return d.reshape(self._shape)


class Dense(Layer):
    """x @ w + b, and ReLU where it is asked for. w: [inputs, outputs]."""

    def __init__(self, rng: Rng, inputs: int, outputs: int, relu: bool = False) -> None:
        super().__init__(
            w=_normal(rng, (inputs, outputs), (2 if relu else 1) / inputs), b=np.zeros(outputs, np.float32)
        )
        self.relu = relu

    def forward(self, x: Array, rng: Rng | None) -> Array:
        self._x = x
        y = x @ self.values["w"] + self.values["b"]
        if self.relu:
            self._on = y > 0
            y *= self._on
        return y

    def backward(self, d: Array) -> Array:
        if self.relu:
            d = d * self._on
        self.gradients = {"w": self._x.T @ d, "b": d.sum(axis=0)}
        return d @ self.values["w"].T


class Dropout(Layer):
    """Zero for a share of the numbers while it learns; what is left is larger by as much."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def forward(self, x: Array, rng: Rng | None) -> Array:
        if rng is None:
            return x
        self._kept = (rng.random(x.shape, np.float32) >= self.share).astype(x.dtype) / x.dtype.type(1 - self.share)
        return x * self._kept

    def backward(self, d: Array) -> Array:
        return d * self._kept


class Network:
    """Layers one behind the other, for examples of one form.

    view: the form in which the first layer takes an example. mean, spread: of the examples, which become (x - mean) /
    spread. fixed: layers from the first on that stay as they are. bank: what these give of more examples, of the label
    `of_bank`, some of which follow each batch that it learns from.
    """

    fixed = of_bank = 0
    bank: Array | None = None

    def __init__(self, layers: Sequence[Layer], view: tuple[int, ...], mean: Array, spread: Array) -> None:
        self.layers = list(layers)
        self.view = view
        self.mean, self.spread = np.asarray(mean, np.float32), np.asarray(spread, np.float32)
        if isinstance(self.layers[0], Conv):
            self.layers[0].first = True

    def forward(self, x: Array, rng: Rng | None = None) -> Array:
        """Return one number a label, before the softmax, of examples as a recipe gives them."""
        x = ((x - self.mean) / self.spread).reshape(len(x), *self.view)
        for k, layer in enumerate(self.layers):
            if k == self.fixed and self.bank is not None and rng is not None:
                x = np.concatenate([x, self.bank[rng.integers(len(self.bank), size=int(len(x) * BANK))]])
            x = layer.forward(x, rng if k >= self.fixed else None)
        return x

    def backward(self, d: Array) -> None:
        """Leave the gradients of the layers that learn with them. d: that of what `forward` gave."""
        for layer in reversed(self.layers[self.fixed :]):
            d = layer.backward(d)

    def probabilities(self, x: Array, batch: int = 64) -> Array:
        """Return float32 [n, labels]."""
        parts = [softmax(self.forward(x[k : k + batch])) for k in range(0, len(x), batch)]
        return np.concatenate(parts).astype(np.float32)

    def arrays(self) -> dict[str, Array]:
        """Return all that it has learnt, by a name for each array: for a file, and for `restore`."""
        return {
            f"{k}.{name}": array
            for k, layer in enumerate(self.layers)
            for name, array in {**layer.values, **layer.kept}.items()
        }

    def restore(self, arrays: dict[str, Array]) -> None:
        """Take what another network of the same layers has learnt."""
        for k, layer in enumerate(self.layers):
            for place in (layer.values, layer.kept):
                for name in place:
                    place[name] = arrays[f"{k}.{name}"].copy()


def softmax(logits: Array) -> Array:
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


def cross_entropy(logits: Array, y: Array, smooth: float = 0.0) -> tuple[float, Array]:
    """Return the mean loss of a batch, and its gradient. smooth: the share of a target that goes to all labels
    alike."""
    n, labels = logits.shape
    target = np.full((n, labels), smooth / labels, logits.dtype)
    target[np.arange(n), y] += 1 - smooth
    p = softmax(logits)
    return float(-(target * np.log(p + 1e-12)).sum() / n), ((p - target) / n).astype(logits.dtype)


def _normal(rng: Rng, shape: tuple[int, ...], variance: float) -> Array:
    return np.asarray(rng.standard_normal(shape) * np.sqrt(variance), np.float32)
