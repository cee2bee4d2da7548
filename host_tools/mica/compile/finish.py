"""The last stages: what the file says of itself, vectors for self-tests, accuracy, signature."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from mica import __version__
from mica.compile.state import State
from mica.data.calibration import holds_pictures
from mica.errors import MicaError
from mica.file import pictures, scores
from mica.file.codec import ModelFile, encode
from mica.format import output_groups, signature
from mica.format.names import clean, clean_lines
from mica.importer import wake_word
from mica.importer.onnx_file import file_sha256
from mica.quantise.scores import find as find_scores
from mica.run import accuracy as measured
from mica.run import evaluation, labels
from mica.run.float_model import FloatModel
from mica.run.golden import with_golden
from mica.run.host import HostRunner


def describe(s: State) -> State:
    """The name, source, labels and front end that the file will hold, beside the metadata of the job."""
    job = s.job
    if job.together:
        beside = wake_word.all_beside((job.model, *job.joined), s.widths)
    else:
        beside = {} if job.alone or job.embedding is not None else wake_word.beside(job.model)
    if beside and not job.together:
        named = ", ".join(f"{key} {value}" for key, value in beside.items())
        s.watch.note(f"{job.model.with_suffix('.json').name} beside the model says: {named}")
    s.facts = {
        "name": clean(job.model.stem),
        "producer": f"mica {__version__}",
        "source": clean(job.model.name),
        **({} if job.alone else {"source_sha256": file_sha256(job.model)}),
        **beside,
        **({"labels": clean_lines("\n".join(s.labels))} if s.labels_in_graph else {}),
        **({"frontend": clean(s.sound.text), "sample_rate": str(s.sound.front.rate)} if s.sound else {}),
        **{clean(key): clean_lines(value) for key, value in job.metadata.items()},
        **({"labels": clean_lines("\n".join(s.labels))} if s.labels else {}),
        **({evaluation.MISSING: "NaN"} if s.missing else {}),
        **({evaluation.COLUMNS: "\n".join(s.columns)} if s.columns else {}),
    }
    if any(part.parts > 1 for part in s.splits):
        s.facts[output_groups.KEY] = output_groups.text(
            [(part.parts, part.axis, clean(part.name)) for part in s.splits]
        )
    classes = s.facts["labels"].split("\n") if "labels" in s.facts else []
    if job.embedding is not None:
        s.facts["embedding"] = clean(s.graph.outputs[0])
        return s
    place = find_scores(s.graph, s.samples, s.splits, {result for _, result in s.pairs}, classes)
    if place is not None:
        s.facts[scores.KEY] = str(place)
    return s


def picture(s: State) -> State:
    """The file says how a picture becomes its input, where the job or the samples are pictures."""
    job, model = s.job, s.compiled.model
    if not job.picture and not (isinstance(job.samples, str | Path) and holds_pictures(job.samples)):
        return s
    inputs = [model.tensors[t] for t in model.inputs]
    if len(inputs) != 1:
        raise MicaError(f"--picture: the model has the inputs {', '.join(t.name for t in inputs)}", todo="expected one")
    found = pictures.layout(inputs[0].dims, job.pixels.colours)
    if not job.picture and (found is None or found[0] == "rgba" or inputs[0].dtype != "int8"):
        return s
    colours = job.pixels.colours or found[0]  # type: ignore[index]
    model.metadata[pictures.KEY] = pictures.write(colours, job.pixels.scale, job.pixels.offset, inputs[0])
    s.changed = True
    return s


def check_labels(s: State) -> State:
    """Refuses labels of another number than the model has classes."""
    job = s.job
    if job.labels:
        where = Path(job.labels) if isinstance(job.labels, str | Path) else Path("labels")
        labels.check(s.compiled.model.metadata["labels"].split("\n"), s.compiled.model, where)
    return s


def golden(s: State) -> State:
    """Inputs and the outputs that they must give, for self-tests."""
    if not s.job.golden:
        return s
    given = s.calibration
    if given is not None and s.job.step is not None:
        given = _newest(given, s.compiled.model)
    model = with_golden(s.compiled.model, s.compiled.data, given, s.job.golden, s.job.custom)
    s.compiled, s.changed = replace(s.compiled, model=model), True
    return s


def accuracy(s: State) -> State:
    """The metric of int8 and float on labelled data; the file holds it."""
    job, model = s.job, s.compiled.model
    if s.labelled is None:
        return s
    if model.state_bytes:
        raise MicaError("has a state, which lives from run to run; --data measures one sample at a time")
    front = s.sound.front if s.sound and not s.in_graph else None
    with HostRunner(s.compiled.data, job.custom) as runner:
        found = measured.compare(s.labelled, runner, FloatModel(job.model, front), s.watch.progress, s.warn)
    s.accuracy = found
    model.metadata["metric"] = found["metric"]
    model.metadata["accuracy_int8"] = f"{found['value']:.4f}"
    model.metadata["samples"] = str(len(s.labelled))
    s.changed = True
    return s


def write(s: State) -> State:
    """The bytes again, where a stage added to the model since `pack`."""
    if s.changed:
        s.compiled = replace(s.compiled, data=encode(s.compiled.model))
    return s


def sign(s: State) -> State:
    """The signature behind the file, where the job has a key."""
    if s.job.key is not None:
        s.compiled = replace(s.compiled, data=signature.sign(s.compiled.data, s.job.key))
    return s


def check_size(s: State) -> State:
    """Refuses a file above the limit of bytes that four bits were chosen for."""
    limit, size = s.job.bits.size if s.job.bits else None, len(s.compiled.data)
    if limit is not None and size > limit:
        raise MicaError(
            f"--size {limit}: the file takes {size:,} bytes, what was added behind the weights included",
            todo="fewer vectors of --golden, or a larger --size",
        )
    return s


def _newest(arrays: Mapping[str, np.ndarray], model: ModelFile) -> dict[str, np.ndarray]:
    """The last rows of samples that are whole windows, for inputs that are given fewer rows a run."""
    found = {}
    for t in (model.tensors[i] for i in model.inputs):
        x = arrays[t.name]
        for axis in range(1, min(x.ndim, len(t.dims) + 1)):
            x = np.take(x, range(x.shape[-axis] - t.dims[-axis], x.shape[-axis]), -axis)
        found[t.name] = x
    return found
