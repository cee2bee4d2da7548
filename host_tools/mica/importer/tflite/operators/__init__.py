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

OPERATORS: dict[str, Form] = {
    **arithmetic.FORMS,
    **constants.FORMS,
    **convolution.FORMS,
    **dense.FORMS,
    **movement.FORMS,
    **pointwise.FORMS,
    **pooling.FORMS,
    **recurrent.FORMS,
    **reduce.FORMS,
    **resize.FORMS,
    **softmax.FORMS,
    **variables.FORMS,
}
