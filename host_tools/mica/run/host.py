"""A model in this process: the C engine, or numpy where there was no compiler. And a model on any target."""

import math
import time
import zlib
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from mica import engine
from mica.custom import NO_CUSTOM, CustomOps
from mica.errors import MicaError
from mica.link.board import Say
from mica.run.runner import Inputs, Runner, Times


class HostRunner(Runner):
    """The C engine in this process, or the numpy reference where the package was built without a compiler."""

    def __init__(self, data: bytes, custom: CustomOps = NO_CUSTOM) -> None:
        super().__init__(data, "host")
        self.engine_name = engine.NAME
        self.loaded = engine.load(data, custom)

    def _set(self, inputs: Inputs) -> None:
        for i, x in enumerate(inputs):
            self.loaded.set_input(i, x)

    def run(self, samples: Sequence[Inputs]) -> list[list[np.ndarray]]:
        results = []
        for inputs in samples:
            self._set(inputs)
            self.loaded.run()
            results.append([self.loaded.output(i) for i in range(len(self.model.outputs))])
        return results

    def reset(self) -> None:
        self.loaded.reset_state()

    def _outputs(self, inputs: Inputs) -> Iterator[np.ndarray]:
        self._set(inputs)
        yield from self.loaded.layers()

    def layer_hashes(self, inputs: Inputs) -> list[int]:
        return [zlib.crc32(np.ascontiguousarray(y).tobytes()) for y in self._outputs(inputs)]

    def layer_output(self, inputs: Inputs, step: int) -> np.ndarray:
        for k, y in enumerate(self._outputs(inputs)):
            if k == step:
                return y.reshape(-1)
        raise MicaError(f"the model has no layer {step}")

    def bench(self, inputs: Inputs, runs: int) -> Times:
        total = math.inf
        steps = [math.inf] * len(self.model.steps)
        for _ in range(runs):
            self._set(inputs)
            begun = time.perf_counter()
            self.loaded.run()
            total = min(total, time.perf_counter() - begun)
            self._set(inputs)
            for k in range(len(steps)):
                begun = time.perf_counter()
                self.loaded.run_step(k)
                steps[k] = min(steps[k], time.perf_counter() - begun)
        return Times("seconds", total, steps)


def open_runner(
    data: bytes,
    target: str,
    say: Say | None = None,
    progress: Callable[[int, int], None] | None = None,
    *,
    icount: bool = False,
    custom: CustomOps = NO_CUSTOM,
) -> Runner:
    """A runner on `target`: "host", an emulated board, or a port. `say` is told of slow preparations.

    With `icount` the clock of a board in QEMU counts instructions. custom: operators of the user's own.
    """
    if target == "host":
        runner = HostRunner(data, custom)
        if say is not None and "reference" in runner.engine_name:
            say(f"running in the {runner.engine_name}")
        return runner
    from mica.run.board import BoardRunner

    return BoardRunner(data, target, say, progress, icount=icount, custom=custom)
