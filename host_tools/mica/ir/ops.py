"""The operator table: every core operator of the compiler, and the kernel it becomes.

ONNX operators are many; they are rewritten into these few (`passes/`). Activations are laid out NHWC, convolution
weights [Cout, KH, KW, Cin/groups], depthwise weights [C*m, KH, KW], dense weights [N, K]. Attributes:

    strides, dilations  (vertical, horizontal)          pads       (top, left, bottom, right)
    kernel              (height, width) of a pool        groups     of a Conv2d
    clip                (low, high) real numbers the output is clamped to, None where open
"""

from dataclasses import dataclass

from mica.ir import shapes


@dataclass(frozen=True)
class Op:
    """One core operator: number of activation inputs, names of constant inputs, attributes, kernel name in the file."""

    name: str
    activations: int
    constants: tuple[str, ...]
    attrs: tuple[str, ...]
    kernel: str | None
    clips: bool = False  # can clamp its output for free, so a following Relu or Clip is fused into it
    keeps_quant: bool = False  # output integers are a selection of the input's: scale and zero point are the input's
    joins: bool = False  # output integers are those of all inputs, and constants: one scale serves all where it can
    reads: str = ""  # element type in which a model's input that it reads stays in the file (ir/exact_inputs.py)
    variadic: bool = False  # takes more activations than `activations`, up to schema.MAX_INPUTS
    shape: shapes.Rule = shapes.same  # of the output

    @property
    def selects(self) -> bool:
        """True if one scale serves inputs and output."""
        return self.keeps_quant or self.joins


_WINDOW = ("strides", "dilations", "pads")

CORE = (
    Op(
        "Conv2d",
        1,
        ("weights", "bias"),
        (*_WINDOW, "groups", "clip"),
        "conv2d_s8",
        clips=True,
        shape=shapes.window_with_weights,
    ),
    Op(
        "DepthwiseConv2d",
        1,
        ("weights", "bias"),
        (*_WINDOW, "clip"),
        "depthwise_conv2d_s8",
        clips=True,
        shape=shapes.window_with_weights,
    ),
    Op(
        "ConvTranspose2d",
        1,
        ("weights", "bias"),
        (*_WINDOW, "groups", "clip"),
        "conv_transpose2d_s8",
        clips=True,
        shape=shapes.window_with_weights,
    ),
    Op("FullyConnected", 1, ("weights", "bias"), ("clip",), "fully_connected_s8", clips=True, shape=shapes.dense),
    Op(
        "MaxPool2d",
        1,
        (),
        ("kernel", *_WINDOW, "clip"),
        "max_pool2d_s8",
        clips=True,
        keeps_quant=True,
        shape=shapes.pool,
    ),
    Op(
        "AveragePool2d",
        1,
        (),
        ("kernel", "strides", "pads", "count_include_pad", "clip"),
        "average_pool2d_s8",
        clips=True,
        shape=shapes.pool,
    ),
    Op("Add", 2, (), ("signs", "clip"), "add_s8", clips=True, shape=shapes.broadcast),
    Op("Mul", 2, (), ("clip",), "mul_s8", clips=True, shape=shapes.broadcast),
    Op("Div", 2, (), ("clip",), "div_s8", clips=True, shape=shapes.broadcast),
    Op("MinMax", 2, (), ("larger", "clip"), "minmax_s8", clips=True, shape=shapes.broadcast),
    Op("Greater", 2, (), (), "add_s8", shape=shapes.broadcast),  # 1 where a > b, else 0
    # c, a, b: a where c is 1, b where it is 0
    Op("Where", 3, (), ("clip",), "mul_s8", clips=True, shape=shapes.broadcast),
    # x, m: x where m is 0, the least of y where it is 1 (passes/masks.py)
    Op("Mask", 2, (), ("axis",), "add_s8", shape=shapes.broadcast),
    Op("PRelu", 2, (), ("clip",), "mul_s8", clips=True, shape=shapes.broadcast),  # x, slope
    Op("MatMul", 2, (), ("transpose_b", "factor", "clip"), "matmul_s8", clips=True, shape=shapes.matrix_product),
    Op("Reduce", 1, (), ("mode", "axis", "axes", "factor", "clip"), "reduce_s8", clips=True, shape=shapes.reduced),
    Op(
        "Extreme",
        1,
        (),
        ("larger", "axis", "axes", "clip"),
        "reduce_s8",
        clips=True,
        keeps_quant=True,
        shape=shapes.reduced,
    ),
    Op("ArgMax", 1, (), ("axis", "minimum", "select_last"), "argmax_s8", shape=shapes.reduced),  # gives int32
    # gives int32: the places; the values are picked by them
    Op("TopK", 1, (), ("axis", "smallest"), "top_k_s8", shape=shapes.top_k),
    Op("LayerNorm", 1, ("gamma", "beta"), ("mode", "axis", "inner", "epsilon", "clip"), "layer_norm_s8", clips=True),
    Op(  # inputs: sequence, initial hidden state, initial cell state; constants and attributes: reference/recurrent.py
        "Recurrent",
        1,
        ("weights", "recurrent", "bias", "recurrent_bias", "peepholes"),
        ("cell", "reverse", "coupled", "gate", "candidate", "output"),
        "recurrent_s8",
        variadic=True,
        shape=shapes.recurrent,
    ),
    # the user's own: mica/custom.py
    Op("Custom", 1, (), ("definition", "operator"), "custom_s8", variadic=True, shape=shapes.unknown),
    Op("Softmax", 1, (), (), "softmax_s8"),
    # queries, keys, values, length (int32): softmax(queries keys^T * factor) values, over the first length + more rows
    Op("Attend", 4, (), ("factor", "more"), "attend_s8", shape=shapes.attend),
    # x, cosines, sines: the halves of the rows of x turned against each other
    Op("Rotate", 3, (), ("inner",), "rotate_s8", shape=shapes.rotate),
    Op("LogSoftmax", 1, (), ("clip",), "log_softmax_s8", clips=True),
    Op("LogSumExp", 1, (), ("clip",), "log_softmax_s8", clips=True, shape=shapes.reduced),
    Op("Unary", 1, (), ("function", "arguments"), "lut_s8"),
    Op("Transpose", 1, (), ("perm",), "transpose_s8", keeps_quant=True, shape=shapes.transpose),
    Op("Reshape", 1, (), (), None, keeps_quant=True, shape=shapes.reshape),  # no kernel: two names for the same bytes
    # one ir.strided_copy.AxisMap a dimension
    Op("Remap", 1, (), ("axes",), "move_s8", keeps_quant=True, shape=shapes.remap),
    # as ir.strided_copy.StridedCopy
    Op("StridedCopy", 1, (), ("begin", "places"), "move_s8", keeps_quant=True, shape=shapes.strided_copy),
    Op("Gather", 1, ("indices",), ("axis",), "gather_s8", keeps_quant=True, shape=shapes.gather),
    # x, rows, index (int32): x, but its rows from the index on are others
    Op("ScatterRows", 3, (), ("axis", "circular"), "scatter_s8", joins=True, shape=shapes.scatter_rows),
    Op("Pick", 2, (), ("axis",), "pick_s8", keeps_quant=True, shape=shapes.pick),  # x, places (int32)
    Op("Concat", 2, (), ("axis",), "concat_s8", joins=True, variadic=True, shape=shapes.concat),
    Op("Pad", 1, (), ("begins", "ends", "mode", "value"), "pad_s8", joins=True, shape=shapes.pad),
    Op(
        "ResizeLinear",
        1,
        ("rows", "row_weights", "columns", "column_weights"),
        (),
        "resize_linear_s8",
        joins=True,
        shape=shapes.resize,
    ),
    Op("Features", 1, ("factor", "shift", "missing"), (), "features_s8", reads="float32"),  # x * factor + shift
    Op(
        "Ranks",
        1,
        ("thresholds", "first", "source", "missing"),
        ("step", "zero_point"),
        "ranks_s8",
        reads="float32",
        shape=shapes.ranks,
    ),
    Op("Trees", 1, (), ("forest",), "trees_s8", shape=shapes.trees),  # ir.forest.Forest
    Op("Neighbours", 1, (), ("vectors",), "nearest_s8", reads="float32", shape=shapes.vectors),  # ir.vectors.Neighbours
    Op("Machine", 1, (), ("vectors",), "machine_s8", reads="float32", shape=shapes.vectors),  # ir.vectors.Machine
    Op("LogMel", 1, (), ("front_end",), "log_mel_s8", reads="int16", shape=shapes.log_mel),  # ir.front_end.FrontEnd
    # ir.axes.AxisFeatures, each of them times a factor and with a shift
    Op("AxisFeatures", 1, ("factor", "shift"), ("front_end",), "axes_s8", reads="int16", shape=shapes.axis_features),
    Op("Embedding", 1, ("table",), (), "embedding_s8", shape=shapes.embedding),  # reads an int32 model input
)

CORE_BY_NAME = {op.name: op for op in CORE}

# What makes features of a sensor's int16 samples, by its attribute front_end.
FRONT_ENDS = ("LogMel", "AxisFeatures")

# Functions that Unary can stand for: name -> number of arguments. `reference/unary.py` computes them.
_OF_ONE = """
abs acos acosh asin asinh atan atanh ceil cos cosh erf exp floor gelu gelu_tanh hard_swish log mish not_zero round
sigmoid sign sin sinh softplus softsign sqrt tan tanh truncate
"""
UNARY_FUNCTIONS = {
    **dict.fromkeys(_OF_ONE.split(), 0),
    **dict.fromkeys(("celu", "elu", "greater", "leaky_relu", "less", "swish", "thresholded_relu"), 1),
    **dict.fromkeys(("hard_sigmoid", "selu", "shrink"), 2),
    "affine": 2,  # scale, shift
    "clip": 2,  # low, high; either may be None
    "composed": 1,  # several pointwise operators, without rounding between them: a program of reference/unary.py
    "equal": 1,  # value: 1 where x is it, else 0
    "network": 1,  # a function that a pass made of several layers (passes/one_number.py)
    "not": 0,  # of 0 and 1
    "power": 1,  # exponent
    "power_of": 1,  # base
    "quantise": 2,  # scale, zero point: rounds to what int8 can hold; where a quantised model says so
    "quantise16": 1,  # scale: likewise to int16
    "reciprocal": 1,  # numerator
}

# Operators whose elements each depend on one element of each input: they fit into one table where there is one input.
POINTWISE = ("Unary", "Add", "Mul", "Div", "MinMax", "Greater", "Where", "PRelu")
# Those of several inputs, which all broadcast as in numpy.
BROADCASTING = POINTWISE[1:]
# Functions whose results are 0 and 1.
TRUTH_FUNCTIONS = ("equal", "greater", "less", "not", "not_zero")

# What a person is told of any other ONNX operator.
NOT_SUPPORTED = "operator not supported (`mica info --ops` lists the supported ones)"

# ONNX operators that the importer spells out as others, by ONNX's own definition (`importer/expand/definitions.py`).
_DEFINED_BY_ONNX = """
Attention CausalConvWithState CenterCropPad NegativeLogLikelihoodLoss RotaryEmbedding SoftmaxCrossEntropyLoss SwiGLU
"""
DEFINED_BY_ONNX = frozenset(_DEFINED_BY_ONNX.split())

# Operators of the domain com.microsoft that ONNX Runtime's quantiser writes. The importer spells them out.
_MICROSOFT_OPS = """
DequantizeLinear QGemm QLinearAdd QLinearAveragePool QLinearConcat QLinearGlobalAveragePool QLinearLeakyRelu QLinearMul
QLinearReduceMean QLinearSigmoid QLinearSoftmax QuantizeLinear
"""
MICROSOFT_OPS = frozenset(_MICROSOFT_OPS.split())

# ONNX operators whose results are elements of their first input, unchanged: they mean the same on the integers of a
# quantised tensor as on the real numbers that these stand for.
_MOVES = """
DepthToSpace Dropout Expand Flatten Gather GatherElements GatherND GlobalMaxPool Identity MaxPool ReduceMax ReduceMin
Reshape ReverseSequence Slice SpaceToDepth Split Squeeze Tile Transpose Unsqueeze
"""
MOVES = frozenset(_MOVES.split())
