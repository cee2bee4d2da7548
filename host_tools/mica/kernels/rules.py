"""Rules that kernels share: what was found, what was expected, as Broken."""

import numpy as np

from mica.format.schema import MULT_MAX, MULT_MIN, SHIFT_MAX, SHIFT_MIN
from mica.kernels.base import Dims, Shapes, Tensor
from mica.kernels.integers import Params

INT32_LIMIT = 2**31
ANY_LENGTH = -(2**31)  # of a constant whose length nothing else says


class Broken(Exception):
    """A rule that the step breaks: what was found, what was expected."""


def require(true: bool, text: str) -> None:
    """Raise Broken with the text unless `true`."""
    if not true:
        raise Broken(text)


def within(p: Params, **bounds: tuple[int, int]) -> None:
    """Parameters by name, each with the least and the most that it may be."""
    for name, (low, high) in bounds.items():
        between = f"{low} {'or' if high == low + 1 else 'to'} {high}"
        require(low <= p[name] <= high, f"{name} is {p[name]}; expected {between}")


def image(t: Tensor, what: str) -> tuple[int, int, int]:
    """Height, width and channels of an NHWC tensor with batch 1."""
    require(len(t.dims) == 4 and t.dims[0] == 1, f"{what} has shape {list(t.dims)}; expected [1, H, W, C]")
    return t.dims[1], t.dims[2], t.dims[3]


def act(p: Params) -> None:
    """The bounds of the activation among the parameters."""
    require(
        -128 <= p["act_min"] <= p["act_max"] <= 127, f"clamp [{p['act_min']}, {p['act_max']}] is not inside [-128, 127]"
    )


def same(x: Tensor, y: Tensor) -> None:
    """Equal shapes."""
    require(x.dims == y.dims, f"input {list(x.dims)} and output {list(y.dims)} differ in shape")


def same_quantisation(x: Tensor, y: Tensor) -> None:
    """Equal scales, as float32, and zero points."""
    require(
        x.zero_point == y.zero_point and np.float32(x.scale) == np.float32(y.scale),
        "the output has another scale or zero point than the input",
    )


def per_channel(n: int) -> Shapes:
    """Shapes of the constants of n output channels, see base.REQUANT."""
    return {"bias": (n,), "mult": (n,), "shift": (n,)}


def broadcast(a: Dims, b: Dims, y: Dims) -> None:
    """y has the shape to which numpy broadcasts a and b."""
    try:
        shape = np.broadcast_shapes(a, b)
    except ValueError:
        shape = None
    require(shape == y, f"{list(a)} and {list(b)} do not broadcast to {list(y)}")


def requant(p: Params) -> None:
    """One mult and one shift among the parameters."""
    within(p, mult=(MULT_MIN, MULT_MAX), shift=(SHIFT_MIN, SHIFT_MAX))


def beside_axis(x: Tensor, y: Tensor, axis: int) -> None:
    """Equal shapes but along an axis."""
    require(0 <= axis < len(y.dims), f"axis is {axis}; the output has {len(y.dims)} dimensions")
    require(
        len(x.dims) == len(y.dims)
        and all(a == b for i, (a, b) in enumerate(zip(x.dims, y.dims, strict=True)) if i != axis),
        f"input {list(x.dims)} and output {list(y.dims)} differ beside axis {axis}",
    )
