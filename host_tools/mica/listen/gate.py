"""A small model in front of a large one, by the rules of `firmware/mica/gate.py`: the large one runs only while the
small one recognises speech."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from mica.data import sounds
from mica.errors import MicaError
from mica.file import scores
from mica.file.codec import ModelFile
from mica.listen.detection import Detector, Event, Settings, outputs, samples_needed, usual_step
from mica.run import sound
from mica.run.runner import Runner

_WORDS = "expected VAD.mica, and perhaps threshold=P, lead=MS, hold=MS after commas"


@dataclass(frozen=True)
class Gate:
    """The small model's file. threshold: of its answers. lead, hold: ms of sound before and after one in which the
    large model runs."""

    file: str
    threshold: float = 0.5
    lead: int = 500
    hold: int = 1000

    @classmethod
    def read(cls, text: str) -> "Gate":
        """`vad.mica,threshold=0.6`. Raises MicaError."""
        file, *words = text.split(",")
        made = cls(file)
        for word in words:
            key, _, value = word.partition("=")
            try:
                made = replace(made, **{key: {"threshold": float, "lead": int, "hold": int}[key](value)})
            except (KeyError, ValueError):
                raise MicaError(f"--gate {text}: '{word}'", todo=_WORDS) from None
        if not 0 < made.threshold <= 1 or made.lead < 0 or made.hold < 0:
            raise MicaError(f"--gate {text}: expected a threshold up to 1, and no negative times", todo=_WORDS)
        return made

    def check(self, small: ModelFile, large: ModelFile) -> None:
        """Raises MicaError where the models do not take sound of one rate, or the small one has no scores."""
        Detector(small, Settings(self.threshold, 1))
        rates = [sound.input_of(m, name).rate for m, name in ((small, self.file), (large, "the recording"))]
        if rates[0] != rates[1]:
            raise MicaError(
                f"--gate {self.file}: takes {rates[0]} samples a second, the other model {rates[1]}",
                todo="expected the same",
            )


@dataclass
class Share:
    """runs: of the large model; steps: those and the ones it was spared."""

    runs: int = 0
    steps: int = 0

    @property
    def share(self) -> float:
        return self.runs / self.steps if self.steps else 0.0


def detect(
    runner: Runner, small: Runner, gate: Gate, samples: np.ndarray, settings: Settings, share: Share
) -> Iterator[Event]:
    """Events of int16 samples [n], as they come; share counts the large model's runs."""
    gate.check(small.model, runner.model)
    given, detector = sound.input_of(runner.model, "the recording"), Detector(runner.model, settings)
    step, place = settings.step or usual_step(runner.model), scores.required(runner.model)
    samples = sounds.cut(samples, max(len(samples), samples_needed(runner.model, settings)))[0]
    at = given_small = sound.input_of(small.model, gate.file).samples  # where the next answer of the small model ends
    step_small = usual_step(small.model) if small.model.state_bytes else given_small  # windows side by side
    before = Settings(gate.threshold, 1, step=step_small)
    opens, answers = Detector(small.model, before), outputs(small, samples, before)
    lead, hold = gate.lead * given.rate // 1000, gate.hold * given.rate // 1000
    until, fresh = 0, False
    for end in range(given.samples, len(samples) + 1, step):
        while at <= (end if end <= until else end + lead):
            if (answer := next(answers, None)) is None:
                return
            if (opens.chosen & (answer[0].reshape(-1) >= opens.least)).any():
                until = at + hold
            at += step_small
        share.steps += 1
        if end > until:
            fresh = False
            continue
        if not fresh:
            detector.forget()
            if runner.model.state_bytes:
                runner.reset()
        share.runs, fresh = share.runs + 1, True
        piece = samples[end - given.samples : end].astype(np.float32) * np.float32(given.step)
        yield from detector.take(runner.predict(piece[None, None], place)[0], end * 1000 // given.rate)
