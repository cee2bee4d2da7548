"""The whole compile: a list of named stages, each from state to state.

    model file -> graph -> core operators -> ranges -> integer graph -> plan -> bytes -> the finished file

After each stage the graphs are checked, and MICA_DUMP=1 prints them.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mica.compile import board_fit, early, embedding, finish, front, planning, quantising, reading
from mica.compile.job import Job, Watch, ignore
from mica.compile.state import Compiled, State
from mica.errors import Unsupported
from mica.ir import knobs

Stage = Callable[[State], State]

STAGES: tuple[tuple[str, Stage], ...] = (
    ("import", reading.import_graph),
    ("recognise", front.recognise_front_end),  # before the passes, which would take a spectrum apart
    ("embedding", embedding.cut),  # before states, which an output less may lose
    ("states", front.find_states),
    ("pair states", front.pair_states),  # before samples: those of a window are its new rows
    ("front end", front.choose),
    ("read labelled data", reading.read_labelled),
    ("refuse early", early.refuse),
    ("read samples", reading.read_samples),  # after the front end, whose samples are sound
    ("centre features", embedding.centre),
    ("lower", quantising.lower),
    ("sample", quantising.sample),
    ("split outputs", quantising.split),  # before ranges: each part has its own
    ("equalise", quantising.equalise),
    ("choose ranges", quantising.choose_ranges),
    ("describe", finish.describe),  # before four bits: a limit of bytes counts what the file says of itself
    ("four bits", quantising.choose_bits),
    ("quantise", quantising.quantise),
    ("keep states", planning.keep_states),
    ("plan", planning.plan),
    ("pack", planning.pack),
    ("plan for the board", planning.plan_for_board),
    ("order weights", planning.order_weights),
    ("picture", finish.picture),
    ("check labels", finish.check_labels),
    ("golden vectors", finish.golden),
    ("accuracy", finish.accuracy),
    ("write", finish.write),  # once, for all that was added
    ("sign", finish.sign),
    ("check fit", board_fit.require_fit),
    ("check size", finish.check_size),  # last: the limit is of the whole file
)


def run(job: Job, watch: Watch | None = None) -> State:
    """The state behind the last stage. Raises MicaError, and Unsupported with the file's name."""
    state = State(job, watch or Watch())
    for name, stage in STAGES:
        try:
            state = stage(state)
        except Unsupported as e:
            raise (e if str(job.model) in str(e) else e.at(str(job.model))) from None
        state.check(name)
        knobs.dump(name, state)
    return state


def compile_file(
    model: str | Path,
    samples: Any = None,
    shapes: Mapping[str, int] | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    warn: Callable[[str], None] | None = None,
    **options: Any,
) -> Compiled:
    """The packed model of `Job(model, samples, shapes, **options)`; progress and warn: of its `Watch`."""
    watch = Watch(progress or ignore, warn or ignore)
    return run(Job(Path(model), samples, shapes or {}, **options), watch).compiled
