"""A token drawn by its score, in integers: SPEC.md, TOKENS. `usermod_c/runtime/sample.c` is the same in C."""

import numpy as np


def _next(state: int) -> int:
    state ^= state << 13 & 0xFFFFFFFF
    state ^= state >> 17
    return state ^ (state << 5 & 0xFFFFFFFF)


def weights(scale: float, temperature: int) -> list[int]:
    """The weight of a score that lies 0 to 255 below the largest."""
    scaled = min(int(np.float32(scale).astype(np.float64) * 2**20), 2**31 - 1)
    q = min(scaled * 1512775 >> 20, 2**32 - 1)
    whole = q // temperature
    step = 2**32 - 1 if whole >= 4000000 else whole * 1000 + q % temperature * 1000 // temperature
    out = []
    for d in range(256):
        a = d * step
        f = a >> 4 & 0xFFFF
        p = 65536 - (f * (45325 - (f * (15149 - (f * 2592 >> 16)) >> 16)) >> 16)
        out.append(p >> (a >> 20) if a >> 20 <= 16 else 0)
    return out


def sample(y: np.ndarray, scale: float, temperature: int, top_k: int, state: int) -> tuple[int, int]:
    """(token, next state). y: int8 scores; temperature: in thousandths, 0 to 10,000; top_k: 1 to their number."""
    scores = y.reshape(-1).astype(int)
    best = int(np.argmax(scores))
    if temperature == 0:
        return best, state
    order = np.argsort(-scores, kind="stable")[:top_k]
    table = weights(scale, temperature)
    state = _next(state)
    taken = {int(i): table[scores[best] - scores[i]] for i in order}
    drawn = state * sum(taken.values()) >> 32
    up_to = 0
    for i in sorted(taken):
        up_to += taken[i]
        if up_to > drawn:
            return i, state
    return best, state
