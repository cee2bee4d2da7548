"""Choice of the layers whose weights get four bits, by calibration samples alone.

All candidates (`lowbits.candidates`) get four bits, or a choice of them. For a choice each layer is tried alone; a
queue sorts them by the noise that a layer adds to the outputs for each byte that it saves. The errors of different
layers are about independent, so their noise adds up. Layers are taken from the front of the queue until the file has a
given size, or until the outputs may lose no more. If that leaves bytes free, the last layers are given back. The loss
is then measured, on samples that had no part in the fit. A head that can be its embedding's table (`share_table.py`)
comes before all of them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from mica.errors import MicaError
from mica.format.weights import CODES4, ROWS
from mica.ir.graph import Graph, StatePair
from mica.quantise import chains, lowbits, own_text, share_table, simulate
from mica.quantise.calibrate import Progress, Samples
from mica.quantise.chains import Chain
from mica.quantise.params import choose_quants
from mica.quantise.tune import Tuned, macs, thin

WORK = 3_000_000_000  # multiplications of all runs that ask for one layer each
FEWEST, MOST = 4, 64  # samples of such a run
IN_A_ROW = 96  # at most, of models with states
SLACK = 64  # bytes by which what a layer saves may be off: filling between constants


@dataclass(frozen=True)
class Bits:
    """Four bits wherever they may be; with `size` or `loss` only where they cost least.

    size: bytes of the file at most. loss: dB that the outputs' noise may grow by.
    """

    size: int | None = None
    loss: float | None = None


def apply(
    tuned: Tuned,
    samples: Samples,
    bits: Bits,
    size: Callable[[Tuned], int],
    measured: bool,
    progress: Progress | None = None,
    pairs: Sequence[StatePair] = (),
) -> Tuned:
    """The network with some of its weights in four bits, and with it the one that quality is measured on.

    size: tells the bytes of a network's file. measured: whether the samples are real; without, tables follow from the
    weights alone. pairs: (state, what it becomes); the samples are then consecutive runs. Raises MicaError where no
    choice is small enough, or there is nothing to choose by.
    """
    tuned = _shared(tuned, samples, bits, size, measured)
    names = lowbits.candidates(tuned.exact)
    if not names:
        if bits.size is not None and size(tuned) > bits.size:
            raise too_large(size(tuned), bits.size)
        return tuned
    if bits != Bits():
        if not measured:
            raise MicaError(
                "--weights auto measures what layers lose", todo="give real samples with --calib, without --plain"
            )
        every = _Fitted(progress, 3 * len(names))
        names = _chosen(tuned, samples, names, bits, size, every, pairs)
        return _with(tuned, samples, names, measured, _Fitted(progress, every.done + 2 * len(names), every.done), pairs)
    return _with(tuned, samples, names, measured, _Fitted(progress, 2 * len(names)), pairs)


def _shared(tuned: Tuned, samples: Samples, bits: Bits, size: Callable[[Tuned], int], measured: bool) -> Tuned:
    """The network with a head in its embedding's table, if the file has to become smaller and the outputs allow it."""
    if bits.size is not None and size(tuned) <= bits.size:
        return tuned
    made = share_table.run(tuned)
    if bits.loss is not None and measured:
        held = thin(samples, MOST)
        before, after = (
            simulate.noise(t.exact, [(t.graph, choose_quants(t.exact, t.ranges))], held)[0] for t in (tuned, made)
        )
        if after > before + bits.loss:
            return tuned
    if tuned.unseen is not None:
        made = replace(made, unseen=replace(tuned.unseen, tuned=share_table.run(tuned.unseen.tuned)))
    return made


class _Fitted:
    """Counts layers as they are fitted."""

    def __init__(self, progress: Progress | None, of: int, done: int = 0) -> None:
        self.progress, self.of, self.done = progress, of, done

    def __call__(self) -> None:
        self.done += 1
        if self.progress is not None:
            self.progress(min(self.done, self.of), self.of)


def _with(
    tuned: Tuned, samples: Samples, names: Sequence[str], measured: bool, told: _Fitted, pairs: Sequence[StatePair]
) -> Tuned:
    if not names:
        return tuned
    texts = own_text.texts(tuned.exact, samples, pairs, WORK // max(macs(tuned.exact), 1)) if measured else []
    chain = Chain(pairs, samples, texts)
    unseen = tuned.unseen
    if unseen is not None:
        held = {id(s) for s in unseen.samples}
        rest = [s for s in samples if id(s) not in held] or samples
        few = lowbits.run(unseen.tuned, rest, names, told, chain) if measured else lowbits.nearest(unseen.tuned, names)
        unseen = replace(unseen, tuned=few)
    made = lowbits.run(tuned, samples, names, told, chain) if measured else lowbits.nearest(tuned, names)
    return replace(made, unseen=unseen)


def _chosen(
    tuned: Tuned,
    samples: Samples,
    names: Sequence[str],
    bits: Bits,
    size: Callable[[Tuned], int],
    told: _Fitted,
    pairs: Sequence[StatePair],
) -> list[str]:
    chain = Chain(pairs, samples)
    runs = WORK // max(macs(tuned.exact) * len(names), 1)
    fit, held = (samples[0::2], samples[1::2]) if len(samples) > 1 else (samples, samples)
    held = thin(held, min(max(runs, FEWEST), MOST))
    row = min(max(runs, FEWEST), IN_A_ROW) if pairs else 0
    chained = 0 < row <= len(samples) // 2
    if chained:  # all states are 0 before the first
        held, fit = samples[:row], samples[row:]
    every = lowbits.each_alone(tuned, fit, names, told, chain)
    each = [lowbits.only(replace(tuned, graph=tuned.exact), every, [name]) for name in names]
    added = chains.added(tuned.exact, each, held, pairs if chained else ())
    cost = {name: a / saved(tuned.exact, name) for name, a in zip(names, added, strict=True)}
    queue = sorted(names, key=lambda name: (cost[name], names.index(name)))
    if bits.size is not None:
        saves = {name: saved(tuned.exact, name) for name in queue}
        return smallest(
            queue, saves, lambda part: size(replace(tuned, graph=lowbits.only(tuned, every, part))), bits.size
        )
    loss = bits.loss or 0.0
    quants = choose_quants(tuned.exact, tuned.ranges)

    def noise(g: Graph) -> float:
        tried = [(g, quants)]
        if chained:
            return chains.noise(tuned.exact, tried, held, pairs)[0]
        return simulate.noise(tuned.exact, tried, held)[0]

    before = noise(tuned.graph)

    def sound(n: int) -> bool:
        return noise(lowbits.run(tuned, fit, queue[:n], told, chain).graph) <= before + loss

    low, high = 0, len(queue)
    while low < high:  # the longest part that is sound
        middle = (low + high + 1) // 2
        low, high = (middle, high) if sound(middle) else (low, middle - 1)
    return queue[:low]


def saved(g: Graph, name: str) -> int:
    """Bytes that a layer's weights take less in four bits."""
    w = g.value(g.producers()[name].inputs[1])
    rows, k = w.shape[0], w.size // w.shape[0]
    return ROWS.total(rows, k) - CODES4.total(rows, k)


def smallest(
    queue: Sequence[str], saves: Mapping[str, int], size: Callable[[Sequence[str]], int], limit: int
) -> list[str]:
    """Choose as few layers as the limit needs. saves: about the bytes that each saves; size: bytes of a file with
    these."""
    if size([]) <= limit:
        return []
    if (least := size(queue)) > limit:
        raise too_large(least, limit)
    low, high = 1, len(queue)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if size(queue[:middle]) <= limit else (middle + 1, high)
    chosen = list(queue[:low])
    # The last one may have saved more than was missing; what is left serves the layers that lose most.
    now = size(chosen)
    for name in reversed(queue[:low]):
        rest = [n for n in chosen if n != name]
        if now + saves[name] - SLACK <= limit and (without := size(rest)) <= limit:
            chosen, now = rest, without
    return chosen


def too_large(least: int, limit: int) -> MicaError:
    return MicaError(
        f"--size {limit}: the smallest file is {least:,} bytes", todo="allow that, or take a smaller network"
    )
