"""The kind of answer that an output of a model gives, by the kernels that make it: which comparison with float has a meaning.

CLASS     one class: an ArgMax or a label, a softmax, or scores of as many classes as there are labels
MAP       a class for each place: pixels, anchors
SCORES    probabilities, each by itself: a sigmoid; something is found where it is above 0.5
NUMBERS   anything else: forecasts, sound, pictures, logits without labels; there is an error, and no class
"""

import math

from mica.file.codec import ModelFile, StepRecord, TensorRecord
from mica.format.values import LOW, QUANTISED

CLASS, MAP, SCORES, NUMBERS = "class", "map", "scores", "numbers"
MOVES = ("concat_s8", "gather_s8", "move_s8", "narrow_s8", "pad_s8", "transpose_s8", "widen_s16")
SOFTMAX = ("softmax_s8", "softmax_s16", "log_softmax_s8")


def kind(model: ModelFile, output: int, labels: int = 0, classes: bool = False) -> str:
    """Return the kind of an output, by its place. labels: how many the model has. classes: the first output is known
    to tell classes."""
    t = model.tensors[model.outputs[output]]
    size = math.prod(t.dims)
    if t.dtype not in QUANTISED:
        return CLASS if size == 1 else MAP
    if labels > 1 and labels in t.dims:
        return CLASS if size == labels else MAP
    maker = _maker(model, t, len(model.steps))
    made = None if maker is None else model.tensors[maker.outputs[0]]
    if maker is not None and made is not None and maker.kernel in SOFTMAX:
        return CLASS if math.prod(made.dims) == made.dims[-1] else MAP
    if _is_probability(t) and size not in (math.prod(model.tensors[i].dims) for i in model.inputs):
        return SCORES
    return CLASS if classes and output == 0 and size > 1 else NUMBERS


def _is_probability(t: TensorRecord) -> bool:
    """True if its integers stand for 0 to 1. An autoencoder's output, as large as an input, is still a picture."""
    steps = 256 if t.dtype == "int8" else 2**15
    first = LOW if t.dtype == "int8" else 0
    return t.zero_point == first and math.isclose(t.scale * steps, 1.0, rel_tol=1.5 / 256)


def _maker(model: ModelFile, t: TensorRecord, before: int) -> StepRecord | None:
    """The step that computes a tensor, seen through those that only move it. A reshape is another tensor in its place."""
    for k in reversed(range(before)):
        step = model.steps[k]
        if any((y := model.tensors[i]).space == t.space and y.offset == t.offset for i in step.outputs):
            return _maker(model, model.tensors[step.inputs[0]], k) if step.kernel in MOVES else step
    return None
