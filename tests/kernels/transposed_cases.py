"""Seeded cases for the transposed convolution: strides, dilations, cropped ends, and ends that nothing reaches."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from case import Case, _data, _rng

from mica.kernels.integers import Output

Array = np.ndarray
Pair = tuple[int, int]

# name: (H, W, Cin), Cout, kernel, stride, dilation, pad begin, more, groups, data, constants
# The output's size is (size - 1) * stride + more - pad: more is the kernel's reach, less what is cropped behind it.
TRANSPOSED: dict[str, tuple[tuple[int, int, int], int, Pair, Pair, Pair, Pair, Pair, int, str, str]] = {
    "2x2 stride 2": ((3, 4, 5), 6, (2, 2), (2, 2), (1, 1), (0, 0), (2, 2), 1, "", ""),
    "3x3 stride 2": ((4, 3, 2), 3, (3, 3), (2, 2), (1, 1), (1, 1), (2, 2), 1, "", ""),
    "3x3 stride 2 output padding": ((4, 3, 2), 3, (3, 3), (2, 2), (1, 1), (1, 1), (3, 3), 1, "", ""),
    "4x4 stride 2 pad 1": ((3, 3, 4), 17, (4, 4), (2, 2), (1, 1), (1, 1), (3, 3), 1, "", ""),
    "stride 1": ((5, 4, 3), 2, (3, 3), (1, 1), (1, 1), (1, 1), (2, 2), 1, "", ""),
    "pointwise": ((5, 4, 3), 2, (1, 1), (1, 1), (1, 1), (0, 0), (1, 1), 1, "", ""),
    "gaps": ((4, 3, 3), 4, (2, 2), (3, 4), (1, 1), (0, 0), (2, 2), 1, "", ""),  # outputs that no input reaches
    "asymmetric": ((3, 5, 2), 3, (5, 2), (2, 3), (1, 1), (2, 0), (4, 3), 1, "", ""),
    "dilation 2 stride 2": ((4, 4, 2), 3, (3, 3), (2, 2), (2, 2), (2, 1), (4, 5), 1, "", ""),
    "dilation 3 stride 2": ((4, 4, 2), 3, (3, 3), (2, 2), (3, 3), (3, 0), (5, 7), 1, "", ""),
    "dilation 2 stride 3": ((4, 4, 2), 3, (4, 3), (3, 3), (2, 2), (1, 2), (7, 5), 1, "", ""),
    "dilation 4 stride 6": ((3, 3, 2), 3, (7, 4), (6, 6), (4, 4), (1, 2), (25, 13), 1, "", ""),
    "groups 2": ((3, 3, 6), 4, (3, 3), (2, 2), (1, 1), (1, 1), (3, 3), 2, "", ""),
    "groups of 11": ((2, 3, 6), 33, (3, 3), (2, 2), (1, 1), (1, 1), (3, 3), 3, "", ""),  # cut by the blocks of 16
    "depthwise": ((4, 4, 19), 19, (4, 4), (2, 2), (1, 1), (1, 1), (3, 3), 19, "", ""),
    "depthwise, two each": ((4, 4, 5), 10, (3, 3), (2, 2), (1, 1), (1, 1), (3, 3), 5, "", ""),
    "all cropped but one": ((3, 3, 2), 3, (3, 3), (2, 2), (1, 1), (3, 3), (0, 0), 1, "", ""),
    "cropped beyond the first input": ((6, 6, 2), 3, (2, 2), (1, 1), (1, 1), (4, 3), (1, 1), 1, "", ""),
    "far beyond the last input": ((2, 2, 2), 3, (2, 2), (2, 2), (1, 1), (0, 0), (9, 12), 1, "", ""),
    "1-D": ((1, 9, 3), 4, (1, 4), (1, 2), (1, 1), (0, 1), (1, 3), 1, "", ""),
    "one pixel": ((1, 1, 1), 1, (1, 1), (1, 1), (1, 1), (0, 0), (1, 1), 1, "", ""),
    "one pixel, 5x5": ((1, 1, 3), 2, (5, 5), (2, 2), (1, 1), (0, 0), (5, 5), 1, "", ""),
    "stride past the kernel": ((2, 2, 2), 2, (1, 1), (9, 9), (1, 1), (4, 4), (5, 5), 1, "", ""),
    "extreme data": ((4, 4, 4), 6, (3, 3), (2, 2), (1, 1), (1, 1), (3, 3), 1, "extreme", ""),
    "lowest data": ((4, 4, 4), 6, (3, 3), (2, 2), (1, 1), (1, 1), (3, 3), 1, "lowest", ""),
    "limits": ((3, 3, 4), 16, (3, 3), (2, 2), (1, 1), (1, 1), (3, 3), 1, "extreme", "limits"),
    "limits with weights -128": ((3, 3, 4), 16, (2, 2), (1, 1), (1, 1), (0, 0), (2, 2), 1, "lowest", "limits"),
}


def transposed(
    make_weights: Callable[..., Array], channels: Callable[..., dict[str, Array]], window: Callable[..., dict[str, int]]
) -> Iterator[Case]:
    """conv_transpose2d_s8 from TRANSPOSED; each also with a clamp, and with zero points at their ends."""
    for name, ((h, w, cin), cout, k, s, dil, pad, more, groups, data, constants) in TRANSPOSED.items():
        rng = _rng(name)
        dims = (1, (h - 1) * s[0] + more[0] - pad[0], (w - 1) * s[1] + more[1] - pad[1], cout)
        weights = make_weights(rng, (cout, *k, cin // groups), data)
        blobs = {"weights": weights} | channels(rng, weights, constants)
        p = window(k, s, pad, dil) | {"groups": groups}
        x = _data(rng, (1, h, w, cin), data)
        for tail, act, zeros in (
            ("", (-128, 127), (int(rng.integers(-128, 128)), int(rng.integers(-20, 20)))),
            (" relu6", (-7, 90), (-128, -7)),
            (" clamp to one value", (5, 5), (127, 127)),
        ):
            q = Output(dims, *zeros)
            clamp = {"act_min": act[0], "act_max": act[1]}
            yield Case(f"conv transpose {name}{tail}", "conv_transpose2d_s8", [x], p | clamp, q, blobs)
