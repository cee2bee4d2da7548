"""Real numbers of any width are float32 in the graph: the quantiser rounds them to 8 bits in any case.

constant, input, attribute of float16, bfloat16, float64    =>   the same of float32
y = Cast(x, to=float16), ConstantOfShape ...                =>   y = Cast(x, to=float32), ConstantOfShape ...
"""

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from mica.importer.protos import array_of

WIDTHS = ("float16", "bfloat16", "float64")
_OTHER = (TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)
# Attributes that name a type: of Cast, of EyeLike and its like, of the quantisers, of what computes in more bits.
_TYPES = ("to", "dtype", "output_dtype", "precision", "stash_type", "softmax_precision")


def single(array: np.ndarray) -> np.ndarray:
    """The array as float32 where it holds real numbers of another width; else as it is."""
    if str(array.dtype) not in WIDTHS:
        return array
    with np.errstate(over="ignore"):  # a float64 beyond float32 is infinite
        return array.astype(np.float32)


def single_name(dtype: str) -> str:
    """The name of the type that numbers of type `dtype` have in the graph."""
    return "float32" if dtype in WIDTHS else dtype


def with_single(proto: onnx.NodeProto) -> onnx.NodeProto:
    """The node with float32 wherever an attribute names, or holds, real numbers of another width."""
    if not any(_type_of(a) in _OTHER or a.t.data_type in _OTHER for a in proto.attribute):
        return proto
    result = onnx.NodeProto()
    result.CopyFrom(proto)
    for a in result.attribute:
        if _type_of(a) in _OTHER:
            a.i = TensorProto.FLOAT
        elif a.t.data_type in _OTHER:
            a.t.CopyFrom(numpy_helper.from_array(single(array_of(a.t)), a.t.name))
    return result


def _type_of(a: onnx.AttributeProto) -> int:
    """The element type that an attribute names; 0 where it names none."""
    return a.i if a.name in _TYPES and a.type == onnx.AttributeProto.INT else 0
