"""Run .mica files on this computer: with the C engine of the boards, or, where that was not built, in numpy.

model = engine.load(data)
model.set_input(0, x)  # int8
model.run()            # or model.run_step(i) for i in range(model.steps)
y = model.output(0)
"""

import numpy as np

from ..custom import NO_CUSTOM, CustomOps
from ..file.codec import FormatError, unpack_record
from ..file.pictures import Frame
from ..format.schema import HEADER, record_bytes
from ..kernels import CUSTOM
from ..reference import pictures
from ..reference.executor import ReferenceModel
from ..reference.sample import sample as draw
from . import native
from .native import EngineError as EngineError

_engine = native.find()
AVAILABLE = _engine is not None
NAME = f"C engine ({_engine.isa()} kernels)" if _engine else "numpy reference (no C compiler when mica was installed)"

Array = np.ndarray


class NativeModel(native.NativeModel):
    """A model in the C engine of this installation; `scratch_bytes` as in `native.NativeModel`."""

    def __init__(self, data: bytes, scratch_bytes: int = -1) -> None:
        assert _engine is not None
        super().__init__(_engine, data, scratch_bytes)


LoadedModel = (
    NativeModel | ReferenceModel
)  # they have the same interface: arrays have the tensor's shape and are copies


def load(data: bytes, custom: CustomOps = NO_CUSTOM) -> LoadedModel:
    """A model from the bytes of a .mica file. Raises FormatError where they break a rule.

    The engine has no operators of the user's own, so a model with such runs in numpy, with those of `custom`.
    """
    if not AVAILABLE:
        return ReferenceModel(data, custom)
    try:
        return NativeModel(data)
    except FormatError:
        if not _has_custom(data):
            raise
        return ReferenceModel(data, custom)


def sample(y: Array, scale: float, temperature: int, top_k: int, state: int) -> tuple[int, int]:
    """(token, next state): see reference.sample."""
    if _engine is None:
        return draw(y, scale, temperature, top_k, state)
    return _engine.sample(np.ascontiguousarray(y, np.int8).tobytes(), scale, temperature, top_k, state)


def see(frame: Frame, data: bytes, table: Array, begin: int = 0, end: int | None = None) -> Array:
    """Rows of a picture: see reference.pictures.rows()."""
    stop = frame.out_h if end is None else end
    if _engine is None:
        return pictures.rows(frame, data, table, begin, stop)
    made = _engine.see(frame, data, np.ascontiguousarray(table, np.int8), begin, stop)
    size = (stop - begin, frame.out_w)
    shape = (frame.channels, *size) if frame.has("PLANES") else (*size, frame.channels)
    return made.reshape(shape)


def _has_custom(data: bytes) -> bool:
    """True if the header of a file names the kernel of custom operators."""
    if len(data) < record_bytes(HEADER):
        return False
    return bool(unpack_record(HEADER, data, 0)["kernels"][CUSTOM.id // 32] >> CUSTOM.id % 32 & 1)
