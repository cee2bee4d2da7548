"""The operators of TensorFlow Lite that mica takes, one family a file: each becomes ONNX nodes."""

from mica.importer.tflite.operators import (
    arithmetic,
    constants,
    convolution,
    dense,
    movement,
    pointwise,
    pooling,
    recurrent,
    reduce,
    resize,
    softmax,
    variables,
)
from mica.importer.tflite.operators.form import Form

FAMILIES = (
    *(arithmetic, constants, convolution, dense, movement, pointwise, pooling, recurrent, reduce, resize, softmax),
    variables,
)
OPERATORS: dict[str, Form] = {kind: form for family in FAMILIES for kind, form in family.FORMS.items()}
