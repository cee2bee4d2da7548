"""The first stages: the model file becomes a graph, and files of samples become arrays."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from mica.compile import embedding
from mica.compile.state import State
from mica.data import sounds, tables
from mica.data.calibration import learnt_missing, load_calibration
from mica.errors import MicaError
from mica.file import tokens
from mica.format.names import clean
from mica.importer import import_model
from mica.importer.join import join
from mica.importer.together import together
from mica.ir.axes import Front
from mica.ir.front_end import FrontEnd
from mica.packing.tokens import text_tokens
from mica.run import evaluation, labels
from mica.sound.insert import SAMPLES


def import_graph(s: State) -> State:
    """file -> graph of the source's operators"""
    if s.job.alone:
        s.graph = embedding.front_end_graph(str(s.job.front_end))
    elif s.job.together:
        files = (s.job.model, *s.job.joined)
        graphs = [import_model(path, s.job.shapes, s.job.custom, s.job.front_end is not None) for path in files]
        s.graph, s.widths = together(graphs, [path.name for path in files])
    else:
        s.graph = import_model(s.job.model, s.job.shapes, s.job.custom, s.job.front_end is not None)
        for before, path in zip((s.job.model, *s.job.joined), s.job.joined, strict=False):
            s.graph = join(s.graph, import_model(path, s.job.shapes, s.job.custom), (before.name, path.name))
    s.operators = [(node.op, node.name) for node in s.graph.nodes]
    s.labels_in_graph = bool(s.graph.labels)
    given = s.job.labels
    s.labels = labels.read(Path(given)) if isinstance(given, str | Path) else list(given)
    s.labels = s.labels or [clean(name) for name in s.graph.labels]
    for warning in s.graph.warnings:
        s.warn(warning)
    return s


def read_labelled(s: State) -> State:
    """A file of labelled data -> Dataset, whose classes the model has."""
    s.missing = learnt_missing(s.graph)
    given = s.job.labelled
    if given is not None:
        inputs = tables.Inputs(s.fed_inputs(), s.missing, _texts(s), s.columns)
        s.labelled = evaluation.load(given, inputs) if isinstance(given, str | Path) else given
        evaluation.numbered(s.labelled, s.labels)  # refuses classes that the model has not, before it is calibrated
    return s


def read_samples(s: State) -> State:
    """A file or folder of samples -> arrays by input name, sound as real numbers where the graph has the front end."""
    given, sound = s.job.samples, s.sound
    if given is None:
        return s
    if isinstance(given, np.ndarray):
        arrays: Mapping[str, np.ndarray] = {_only_input(s): given}
    else:
        arrays = _loaded(s, given) if isinstance(given, str | Path) else given
    if sound and s.in_graph and sound.name in arrays:
        arrays = {**arrays, sound.name: sounds.as_reals(arrays[sound.name], sound.front.step)}
    s.calibration = arrays
    return s


def _texts(s: State) -> Callable[[Sequence[str]], dict[str, np.ndarray]] | None:
    """Makes inputs of texts, where there is a vocabulary and the model classifies texts. Raises MicaError."""
    sizes = s.fed_inputs()
    found = text_tokens(s.job.tokens, sizes) if s.job.tokens is not None else None
    return partial(tokens.arrays, found, sizes) if found is not None else None


def _only_input(s: State) -> str:
    """Raises MicaError where the model has several."""
    inputs = list(s.fed_inputs())
    if len(inputs) != 1:
        raise MicaError(
            f"{s.job.model}: one array of samples, and the model has the inputs {', '.join(inputs)}",
            todo="give a dict of arrays by input name",
        )
    return inputs[0]


def _loaded(s: State, where: str | Path) -> dict[str, np.ndarray]:
    """The arrays of a file or folder, for the inputs that the data feeds. Raises MicaError."""
    rate = s.sound.front.rate if s.sound else 0
    sizes = s.fed_inputs()
    table = tables.Inputs(missing=s.missing, texts=_texts(s))
    arrays = load_calibration(where, list(sizes), sizes, s.job.pixels, rate, s.warn, table)
    before, s.columns = s.columns, table.columns or s.columns
    if before not in ([], s.columns):
        s.warn(f"{s.job.labelled} has its columns in another order than {where}, whose order is taken")
        read_labelled(s)
    if s.sound and not s.in_graph:
        _check_sound(str(where), arrays[SAMPLES], s.sound.front)
    return arrays


def _check_sound(where: str, x: np.ndarray, front: Front) -> None:
    """Raises MicaError where an array holds no int16 samples, or is longer than the frames by less than one of them."""
    n, length = front.input_shape[-1], x.shape[-1]
    if isinstance(front, FrontEnd) and n < length < n + front.hop:
        raise MicaError(
            f"{where}: sounds of {length:,} samples; the frames take {n:,}", todo=f"add samples={length} to --frontend"
        )
    size = float(np.abs(x).max(initial=0))
    if not size <= 2**15 or (0 < size <= 1):
        raise MicaError(
            f"{where}: holds samples of up to {size:.4g}", todo="expected int16 samples, from -32768 to 32767"
        )
