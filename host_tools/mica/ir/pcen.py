"""Per-channel energy normalisation: what becomes of the energies of a front end's bands in the place of their logarithm."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Pcen:
    """y = (E / (eps + M)**alpha + delta)**r - delta**r, M = (1 - s) * M of the frame before + s * E.

    0 < s <= 1, 0 <= alpha <= 1, delta >= 0, 0 < r <= 1, eps >= 0, and either eps or alpha is not 0. start: M before the first frame; None: the first E itself.
    Source: Y. Wang et al., "Trainable frontend for robust and far-field keyword spotting", ICASSP 2017, equations 1 and 2.
    """

    s: float
    alpha: float
    delta: float
    r: float
    eps: float
    start: float | None
