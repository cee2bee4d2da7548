"""The filter behind a PDM microphone, in integers: `usermod_c/kernels/pdm.c` gives the same samples.

Written plainly, bit by bit: the C file takes eight bits at once, and leaves out the values that nobody needs.
"""

import numpy as np

RATIOS = {64: 0, 128: 3, 256: 6}  # bits of a sample: by how much the values at twice the rate are shifted
MOST_GAIN = 64
# Half of the half-band filter at twice the rate without its zeros, the outermost tap first;
# the middle one is twice their sum.
TAPS = np.array([105, -285, 662, -1482, 5096])
CORRECTION = 13  # of high tones, in 256ths
_BEFORE = np.tile([1, 0], 8)  # bits before the first one


def filtered(bits: np.ndarray, ratio: int = 64, gain: int = 1) -> np.ndarray:
    """Samples of a stream: 0 and 1 [n * ratio] -> int16 [n], those of a new filter."""
    signs = 2 * np.concatenate([_BEFORE, bits]).astype(np.int64) - 1
    eights = signs
    for _ in range(3):
        eights = np.convolve(eights, np.ones(8, np.int64))[: len(signs)]
    sums = eights[len(_BEFORE) + 7 :: 8] // 2  # at the end of each byte
    for _ in range(3):
        sums = np.cumsum(sums)
    values = sums[ratio // 16 - 1 :: ratio // 16]
    for _ in range(3):
        values = np.diff(values, prepend=0)
    values = 2 * values >> RATIOS[ratio]
    taps = np.zeros(4 * len(TAPS) - 1, np.int64)
    taps[::2] = np.concatenate([TAPS, TAPS[::-1]])
    taps[len(taps) // 2] = 2 * TAPS.sum()
    x = np.pad(np.convolve(values, taps)[1 : len(values) : 2] >> 9, (2, 0))
    x = x[1:-1] + ((2 * x[1:-1] - x[:-2] - x[2:]) * CORRECTION >> 8)
    samples = np.empty(len(x), np.int16)
    level = 0
    for i, value in enumerate(x.tolist()):
        value -= level >> 8
        level += value
        samples[i] = min(max(value * gain + 16 >> 5, -32768), 32767)
    return samples
