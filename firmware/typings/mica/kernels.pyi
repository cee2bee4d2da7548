from array import array
from collections.abc import Sequence
from typing import Any

from _mica import add as add
from _mica import average_pool2d as average_pool2d
from _mica import conv2d as conv2d
from _mica import depthwise_conv2d as depthwise_conv2d
from _mica import gemm as gemm
from _mica import lut as lut
from _mica import max_pool2d as max_pool2d
from _mica import softmax as softmax
from _mica import transpose as transpose

def fold_bias(bias: Sequence[int], weights: Any, x_zero: int) -> array[int]: ...
def requant(real: float) -> tuple[int, int]: ...
