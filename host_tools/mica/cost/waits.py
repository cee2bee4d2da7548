"""Waits for flash: how much of it a step reads that the cache has not, and how long that takes on a chip.

A Pico's flash answers through a cache. A step reads its code and its constants from it: once, or once a pass where a
kernel passes over them again and they are larger than the cache. `table.json` has a sum for each kind of step
(`misses`), as it has for cycles. A miss is a word of 32 bits on an RP2040 and a line of 8 bytes on an RP2350. A board
says what a miss takes (`flash_miss`).
"""

from collections.abc import Callable, Collection

from mica.boards import parse_size
from mica.file.codec import ModelFile, StepRecord
from mica.format.weights import LAYOUT_BY_CODE, OFFSET_ROWS
from mica.kernels.base import Counts

KEY = "weights"  # of the metadata
ALIGN = 16  # of each constant in RAM; a copy's size stands before it
CACHE = 16 * 1024
FOR_CODE = 1024  # bytes of it that a loop's code and tables keep
PASSES = ("pair_passes", "passes")  # counts of a kind: of cores that take pairs of pixels, and of the others
BY_PIXEL = ("m0plus",)


def stored_bytes(step: StepRecord) -> dict[str, int]:
    """Return the bytes of each of a step's constants, as the file stores them."""
    sizes = {name: int(blob.nbytes) for name, blob in step.blobs.items()}
    if "weights" in sizes:
        weights = step.blobs["weights"]
        sizes["weights"] = LAYOUT_BY_CODE[step.layout].total(weights.shape[0], weights[0].size)
    return sizes


def counts(step: StepRecord, of_cost: Counts, pairs: bool, elsewhere: float = 0.0) -> Counts:
    """Return what a step's misses depend on: its constants, those that are read again,
    and what its cost depends on if it has no products.

    pairs: the core takes pairs of pixels. elsewhere: words of its constants that do not come through the cache.
    """
    words = max(0.0, sum(stored_bytes(step).values()) / 4 - elsewhere)
    passes = of_cost.get(PASSES[0] if pairs and PASSES[0] in of_cost else PASSES[1], 1.0)
    beyond = min(words, 3 * max(0.0, words - (CACHE - FOR_CODE) / 4))  # in a set of two lines three push each other out
    found = {"call": 1.0, "constant": words, "again": (passes - 1) * beyond}
    return found if step.macs else {**of_cost, **found}


# Shares of a kind's code that are gone from the cache when the first step of the kind begins,
# and when a later one does; fitted to networks in the program of scripts/bench.
# Of constants less than SMALL bytes in all nothing goes until the next run, of LARGE all.
FIRST, LATER = 0.72, 0.33
SMALL, LARGE = 4000, 12000


class Cache:
    """The lines that a run's steps leave in the flash cache for those behind them and for the next run."""

    def __init__(self, model: ModelFile, in_ram: Collection[int]) -> None:
        steps = [s for i, s in enumerate(model.steps) if i not in in_ram]
        read = sum(sum(stored_bytes(s).values()) for s in steps)
        self.gone = min(1.0, max(0.0, (read - SMALL) / (LARGE - SMALL)))
        self.ran: set[str] = set()

    def run(self, kind: str, counts: Counts) -> None:
        """Make the counts of a step that finds an empty cache those of a step that finds this one."""
        counts["call"] = LATER if kind in self.ran else FIRST
        counts["constant"] *= self.gone
        self.ran.add(kind)


# Of a step whose weights come ahead of use: usermod_c/runtime/op_dense.c.
STREAMS = {
    "RP2040": 1.0,
    "RP2350": 16 / 56,
}  # a word of the stream, in misses: chips with usermod_c/binding/fetch_rp2.c
FETCHED = "fully_connected_s8"
OUTPUTS, BLOCK, OWN = 4, 1024, 64


def streamed(step: StepRecord, rows: int, scratch: int) -> tuple[float, int]:
    """Return how many words of a step's weights are streamed into its scratch, and in how many blocks;
    0 and 1 if none is."""
    if step.kernel != FETCHED or step.layout != OFFSET_ROWS.code or rows != 1:
        return 0.0, 1
    n, k = step.blobs["weights"].shape
    row = OFFSET_ROWS.row_bytes(k)
    own = -(-(2 * row + OWN) // ALIGN) * ALIGN
    most = min((BLOCK // row + OUTPUTS) // OUTPUTS, (scratch - own) // (2 * row * OUTPUTS)) * OUTPUTS
    return (n * row / 4, -(-n // most)) if 0 < most < n else (0.0, 1)


def overlapped(stream: float, blocks: int, cost: float) -> float:
    """Return the cycles that a step of `cost` waits for its stream: nobody computes while the first block comes,
    nor fetches at the last."""
    return max(stream + cost / blocks, cost + stream / blocks) - cost if stream else 0.0


AUTO = "auto"


def budget(text: str) -> int | str:
    """Return --copy-weights: bytes, or AUTO. Raises MicaError."""
    return AUTO if text == AUTO else parse_size(text, "--copy-weights")


LEFT = 24 * 1024  # bytes of the heap that weights="auto" never takes: firmware/mica/weights.py


def held(model: ModelFile, most: int) -> dict[int, int]:
    """Return the steps whose constants firmware/mica/weights.py copies into `most` bytes, and each copy's bytes."""
    found: dict[int, int] = {}
    for i in order(model):
        size = ALIGN + sum(-(-n // ALIGN) * ALIGN for n in stored_bytes(model.steps[i]).values())
        if size > ALIGN and sum(found.values()) + size <= most:
            found[i] = size
    return found


def order(model: ModelFile) -> list[int]:
    """Return the numbers of the steps, those first that gain most for a byte."""
    text = model.metadata.get(KEY)
    return [i for i, s in enumerate(model.steps) if s.macs] if text is None else [int(n) for n in text.split()]


def best_order(model: ModelFile, misses: Callable[[StepRecord, bool], float]) -> list[int]:
    """Return `order` by gain: how often each word of the constants is read from flash.

    misses(step, in_ram): how often the cache lacks what a step reads.
    """

    def reads(i: int) -> int:
        step = model.steps[i]
        words = sum(stored_bytes(step).values()) / 4
        return round(max(1.0, (misses(step, False) - misses(step, True)) / words)) if words else 0

    return sorted((i for i, s in enumerate(model.steps) if s.macs), key=reads, reverse=True)
