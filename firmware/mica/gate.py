"""Listening in two stages: a large model runs only while a small one recognises speech, or whatever it was trained for.

    for event in mica.gate.listen(model, microphone, gate=mica.Model("vad.mica")):
        print(event.label, event.score, event.ms)

All settings are those of mica.audio.listen. The large model begins `lead_ms` before the small one's answer and goes on
`hold_ms` after it.
"""

from time import ticks_diff, ticks_us

from mica.audio import Listener


class GatedListener(Listener):
    """A Listener whose model runs only near answers of the model `gate`.

    The gate is open when a label of it that counts (all but silence, unknown, other, noise) reaches gate_threshold.
    used: share of the time that both models have taken.
    """

    gate_threshold: float = 0.5
    lead_ms: int = 500
    hold_ms: int = 1000

    # fmt: off
    _SETTINGS = (
        "rate", "labels", "threshold", "mean", "dead_ms", "step", "bits", "block", "spare", "ms", "slice_us",
        "gate_threshold", "lead_ms", "hold_ms",
    )
    # fmt: on

    def __init__(self, model: Model, source: Any, gate: Model, **settings) -> None:
        self._small_n = len(gate.input(0))
        super().__init__(model, source, **settings)
        step = 0 if gate._m.info.state_bytes else self._small_n  # windows side by side
        self._small = Listener(gate, self._ring, threshold=self.gate_threshold, mean=1, step=step)
        self._open = 0  # sample until which the large model runs

    def _prepare(self, model, rate, settings):
        super()._prepare(model, rate, settings)
        self._lead = self.lead_ms * rate // 1000
        self._hold = self.hold_ms * rate // 1000
        self._kept = self._lead + 2 * self._small_n + self.step

    @property
    def used(self) -> float:
        past = self._end - self._n
        return self._busy * self.rate / (1e6 * past) if past else 0.0

    def _ahead(self):
        """Sample up to which the small model has to have answered, before the large one runs or is skipped."""
        return self._end if self._end <= self._open else self._end + self._lead

    def _missing(self):
        small = self._small._end
        return self._ring.count < (small if small <= self._ahead() else self._end)

    def _closed(self):
        """Run the small model, or skip a step of the large one; return False if the large one has to run."""
        small = self._small
        if small._end <= self._ahead():
            if small._late():
                self._overrun()
                return True
            begun = ticks_us()
            small._prepare_run()
            scores = small._answer()
            self._busy += ticks_diff(ticks_us(), begun)
            for k in range(len(scores)):
                if small._chosen[k] and scores[k] >= small._least[k]:
                    self._open = small._end + self._hold
            small._begun = False
            small._end += small.step
            return True
        if self._end <= self._open:
            return False
        if not self._problem():
            if self._past:
                self._forget()
                self._said = [None] * len(self._groups)
            self._end += self.step
        return True

    def _lost(self, end, at, text):
        super()._lost(end, at, text)
        self._small._forget()
        self._small._end = end


listen = GatedListener
