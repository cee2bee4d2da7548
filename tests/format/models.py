"""The small models that the format's tests damage: together they use every kernel."""

from __future__ import annotations

from collections.abc import Callable

from arithmetic_model import arithmetic_model
from attention_model import attention_model
from audio_model import audio_model
from axes_model import axes_model
from codes_model import codes_model
from movement_model import movement_model
from pad_model import pad_model
from recurrent_model import recurrent_model
from rich_model import rich_model
from tabular_model import tabular_model
from vector_model import vector_model
from wide_model import wide_model

from mica.file.codec import ModelFile

MODELS: tuple[Callable[[], ModelFile], ...] = (
    rich_model,
    attention_model,
    movement_model,
    arithmetic_model,
    recurrent_model,
    tabular_model,
    vector_model,
    codes_model,
    audio_model,
    axes_model,
    wide_model,
    pad_model,
)


def model_with(kernel: str) -> ModelFile:
    """A model that has a step of this kernel."""
    return next(m for m in (make() for make in MODELS) if any(s.kernel == kernel for s in m.steps))
