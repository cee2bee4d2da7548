"""One model on one target, driven from the host: what `run`, `eval` and `verify` need of an engine or a board."""

import abc
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import numpy as np

from mica.errors import MicaError
from mica.file import codec
from mica.file.codec import ModelFile
from mica.format import output_groups
from mica.format.values import quantise_input
from mica.link.functions import Function

Inputs = Sequence[np.ndarray]  # int8 (int32 of row numbers), one array a model input


@dataclass(frozen=True)
class Times:
    """Costs of a model, in `unit` (cycles, instructions or seconds): the shortest of some runs.

    `total` is a whole run, `steps` each step by itself. `free_heap` is in bytes, on boards, with the model loaded.
    `runs_in` is "C" or "Python" for each step, empty where all are in C. `instructions`: of each step, then of the run,
    where they are counted beside cycles that are an estimate.
    `waits`: likewise, cycles in which the core waited for flash.
    """

    unit: str
    total: float
    steps: list[float]
    free_heap: int | None = None
    runs_in: Sequence[str] = ()
    instructions: Sequence[int] = ()
    waits: Sequence[int] = ()


class Runner(abc.ABC):
    """A loaded model. Integers in, integers out; `predict` does the rest. A context manager.

    The state of a streaming model goes on from sample to sample and from call to call.
    """

    def __init__(self, data: bytes, target: str) -> None:
        self.data = data
        self.target = target
        self.model: ModelFile = codec.decode(data)
        self._begun: deque[Inputs] = deque()

    def hold(self, weights: int | str) -> None:
        """Have the model copy so many bytes of weights into RAM, or "auto", as `mica.Model(..., weights=)`.
        Raises MicaError."""
        raise MicaError(f"{self.target}: weights are copied into RAM on boards alone")

    @abc.abstractmethod
    def run(self, samples: Sequence[Inputs]) -> list[list[np.ndarray]]:
        """Outputs of each sample: int8, int32 where an ArgMax makes them."""

    # One after the other, for callers that have the next sample before the answer to the last

    ahead = 1  # samples that it is worth to begin before the first is finished

    def begin(self, inputs: Inputs) -> None:
        """Hand on a sample; not for models with state."""
        self._begun.append(inputs)

    def finish(self) -> list[np.ndarray]:
        """The outputs of the first that was begun and not finished."""
        return self.run([self._begun.popleft()])[0]

    @abc.abstractmethod
    def layer_hashes(self, inputs: Inputs) -> list[int]:
        """Runs one sample; CRC-32 of each step's output bytes, in order of the steps."""

    @abc.abstractmethod
    def layer_output(self, inputs: Inputs, step: int) -> np.ndarray:
        """Runs one sample up to and including `step`; that step's output, [size]."""

    @abc.abstractmethod
    def reset(self) -> None:
        """Clears the state of a streaming model, as it is after loading."""

    @abc.abstractmethod
    def bench(self, inputs: Inputs, runs: int) -> Times:
        """Runs one sample some times, and tells what it costs."""

    def functions(self, inputs: Inputs) -> list[Function]:
        """The costs of each function of the firmware in one run of a sample, where an emulator counts them."""
        raise MicaError(f"{self.target} does not count by function", todo="RPI_PICO2@emu does")

    def close(self) -> None:  # noqa: B027 - most runners hold nothing
        """Lets go of the target."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    # Real numbers

    def quantise(self, sample: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Float inputs of one sample -> int8."""
        return [quantise_input(x, self.model.tensors[t]) for x, t in zip(sample, self.model.inputs, strict=True)]

    def predict(self, x: np.ndarray, place: int = 0) -> np.ndarray:
        """float32 [n, ...input shape] -> float32 [n, ...output shape] of a model with one input.
        place: of the output, its parts joined."""
        if len(self.model.inputs) != 1:
            raise MicaError(f"the model has {len(self.model.inputs)} inputs; evaluation data feeds one")
        group = output_groups.read(self.model)[place]
        results = self.run([self.quantise([sample]) for sample in x])
        return np.stack([output_groups.joined(self.model, group, r) for r in results])
