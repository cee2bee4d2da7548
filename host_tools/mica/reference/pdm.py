"""The filter behind a PDM microphone, in integers: `usermod_c/kernels/pdm.c` gives the same samples.

Written plainly, bit by bit: the C file takes eight bits at once, and leaves out the values that nobody needs.
"""

import numpy as np

RATIOS = {64: 0, 128: 3, 256: 6}  # bits of a sample: by how much the values at twice the rate are shifted
MOST_GAIN = 64
# Half of the symmetric filter at twice the rate, the outermost tap first; sum of all 31: 2^14.
TAPS = np.array([-9, 71, 57, -128, -157, 199, 324, -266, -605, 314, 1086, -288, -2075, -85, 5473, 8562])
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
    taps = np.concatenate([TAPS, TAPS[-2::-1]])
    x = np.convolve(values, taps)[1 : len(values) : 2] >> 9
    samples = np.empty(len(x), np.int16)
    level = 0
    for i, value in enumerate(x.tolist()):
        value -= level >> 8
        level += value
        samples[i] = min(max(value * gain + 16 >> 5, -32768), 32767)
    return samples
