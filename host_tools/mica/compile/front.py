"""Stages that find out how the model meets its data: its front end, its states, and inputs that slide."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from mica.compile.job import PlacedFrontEnd
from mica.compile.state import State
from mica.data import calibration
from mica.errors import MicaError
from mica.ir.front_end import IN_GRAPH, FrontEnd
from mica.packing import state
from mica.passes import streaming
from mica.printable import shown
from mica.sound import front_ends, recognise


def recognise_front_end(s: State) -> State:
    """Replaces a front end that the graph holds by one layer; refuses a second one in front of it."""
    wish = s.job.front_end
    if wish is not None:
        if recognise.found(s.graph) is not None:
            text = wish if isinstance(wish, str) else wish.text
            raise MicaError(f"--frontend {text}: the model has a front end of its own", todo="leave --frontend out")
        return s
    found = recognise.found(recognise.run(s.graph))
    if found is None:
        return s
    if s.job.windows or s.job.step:
        raise MicaError(
            f"{'--stream' if s.job.step else '--window'}: '{found[0]}' is sound, of which the model's own front end "
            "takes all at once",
            todo="cut the network behind the features out of the model, and give its front end with --frontend",
        )
    s.sound, s.in_graph = PlacedFrontEnd(*found, IN_GRAPH), True
    return s


def find_states(s: State) -> State:
    """The pairs of the job, else those that are found by their names."""
    if s.job.states is not None:
        s.pairs = list(s.job.states)
        return s
    s.pairs = pairs = state.find(s.graph, s.graph.states, lambda name: _fed(s.job.samples, name))
    if pairs:
        names = shown([f"{a}={b}" for a, b in pairs], 3)
        s.watch.note(f"states found by their names: {names}; --state none takes none")
    return s


def _fed(samples: object, name: str) -> bool:
    """True if samples, as of the job, hold numbers other than 0 for an input."""
    if isinstance(samples, str | Path) and Path(samples).suffix == ".npz":
        samples = calibration.read_arrays(samples)
    if not isinstance(samples, Mapping) or name not in samples:
        return False
    x = np.asarray(samples[name])
    return x.dtype.kind in "fiub" and bool(np.any(x))  # samples of anything else are refused where they are read


def choose(s: State) -> State:
    """Reads the description of a front end, for the shape of the input that it stands before."""
    step = s.job.step
    sizes = s.fed_inputs()
    if step is not None and step.name not in sizes:
        raise MicaError(
            f"--stream {step.name}={step.rows}: the model has no input '{step.name}'",
            todo=f"its inputs are {', '.join(sizes)}",
        )
    goes_on = step is not None or bool(s.pairs)
    if isinstance(s.job.front_end, PlacedFrontEnd):
        s.sound = s.job.front_end
    elif s.job.front_end is not None:
        s.sound = described(s.job.front_end, sizes, goes_on and not s.job.windows, bool(s.job.windows))
    return go_on(s) if goes_on and not s.job.windows else s


def go_on(s: State) -> State:
    """A front end keeps its noise from run to run, if all rows of a run are new. Raises MicaError.

    All rows are new to a model with states of its own, and where --stream says so.
    """
    step, front = s.job.step, s.sound.front if s.sound and not s.in_graph else None
    sound = front if isinstance(front, FrontEnd) else None
    if step is not None:
        shape = s.graph.value(step.name).shape
        axis = step.axis if step.axis is not None else next((i for i, n in enumerate(shape) if n > 1), 0)
        rows = sound.frames if sound else shape[axis] if 0 <= axis < len(shape) else 0
        if s.pairs and step.rows != rows:
            raise MicaError(
                f"--stream {step.name}={step.rows}: the model has states of its own, so all {rows} rows "
                "of a run are new",
                todo=f"expected {step.name}={rows}, or leave --stream out",
            )
        if step.rows != rows or not (s.pairs or (sound and sound.has_noise)):
            return s  # layers keep the rows before
        s.job = replace(s.job, step=None)
    if s.sound is None or sound is None:
        return s
    if step is not None and sound.peak:
        raise MicaError(f"--frontend {s.sound.text}: divides by the largest sample of a run", todo="take peak=no")
    s.sound = replace(s.sound, front=replace(sound, keeps=True))
    noise = ", and the noise of the front end goes on" if sound.has_noise else ""
    s.watch.note(
        f"all {sound.frames} rows of '{s.sound.name}' are new in each run{noise}: "
        f"a run takes {sound.samples} samples, each time {sound.frames * sound.hop} further on"
    )
    return s


def described(text: str, sizes: Mapping[str, tuple[int, ...]], step: bool, windows: bool) -> PlacedFrontEnd:
    """The front end of a description, before the only input. Raises MicaError.

    step: for a row at a time: pre-emphasis then needs the sample before it.
    windows: for some rows of an input that keeps the others.
    """
    kind = text.partition(":")[0]
    if (step or windows) and (why := front_ends.OF_WINDOWS.get(kind)):
        raise MicaError(f"--frontend {text}: {why}", todo="leave --window and --stream out")
    if windows and (why := front_ends.OF_FRAMES.get(kind)):
        raise MicaError(f"--frontend {text}: {why}", todo="take --stream in the place of --window")
    if len(sizes) != 1:
        raise MicaError(f"--frontend: the model has the inputs {', '.join(sizes)}", todo="expected one")
    ((name, shape),) = sizes.items()
    return PlacedFrontEnd(name, *front_ends.find_front(text, shape, f"input '{name}'", step))


def pair_states(s: State) -> State:
    """Inputs of --window become windows that slide, each a state more. Checks all pairs against the graph."""
    s.pairs = [*s.graph.states, *s.pairs, *(streaming.window(s.graph, w) for w in s.job.windows)]
    streaming.check(s.graph, s.pairs)
    return s
