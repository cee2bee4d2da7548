"""Facts of the TensorFlow Lite file format (schema.fbs, version 3): numbers of slots, types and operators.

`tests/host/test_tflite_schema.py` compares them with the code that LiteRT generates from schema.fbs.
"""

IDENTIFIER = b"TFL3"  # at byte 4
VERSION = 3

# Slots of the tables that hold the graph.
MODEL = {"version": 0, "operator_codes": 1, "subgraphs": 2, "description": 3, "buffers": 4}
OPERATOR_CODE = {"deprecated_builtin_code": 0, "custom_code": 1, "version": 2, "builtin_code": 3}
SUBGRAPH = {"tensors": 0, "inputs": 1, "outputs": 2, "operators": 3, "name": 4}
TENSOR = {"shape": 0, "type": 1, "buffer": 2, "name": 3, "quantization": 4, "is_variable": 5, "sparsity": 6}
TENSOR |= {"shape_signature": 7}
QUANTIZATION = {"scale": 2, "zero_point": 3, "quantized_dimension": 6}
OPERATOR = {"opcode_index": 0, "inputs": 1, "outputs": 2, "builtin_options_type": 3, "builtin_options": 4}
OPERATOR |= {"custom_options": 5, "builtin_options_2_type": 11, "builtin_options_2": 12}
BUFFER = {"data": 0, "offset": 1, "size": 2}
# Options that are no numbers, or that are read before the operators are.
CALL_ONCE = {"init_subgraph_index": 0}
VAR_HANDLE = {"container": 0, "shared_name": 1}
COMPOSITE_KIND = "STABLEHLO_COMPOSITE"  # one operator of StableHLO, with a graph of the file that computes it
COMPOSITE = {"name": 0, "decomposition_subgraph_index": 1}
COMPOSITE_OPTIONS = 21  # their number in the union BuiltinOptions2

# TensorType; int4 has two elements a byte, the first in the low half.
_TYPES = """
float32 float16 int32 uint8 int64 string bool int16 complex64 int8 float64 complex128 uint64 resource variant uint32
uint16 int4 bfloat16
"""
TYPES = dict(enumerate(_TYPES.split()))

# Custom operators that hold a network in the code of an accelerator: who wrote them, and for what.
COMPILED = {
    "ethos-u": "Vela for Arm's Ethos-U",
    "NeutronGraph": "NXP's converter for Neutron",
    "edgetpu-custom-op": "the compiler for Coral's Edge TPU",
}
CUSTOM = 32  # a BuiltinOperator: the operator is named by its custom_code
# Operator codes from 127 on stand in builtin_code only; deprecated_builtin_code is then 127.
PLACEHOLDER = 127

# BuiltinOperator. Those without a row in `operators/` are here so that a refusal can name them.
_NAMES = """
ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE EMBEDDING_LOOKUP FLOOR
FULLY_CONNECTED HASHTABLE_LOOKUP L2_NORMALIZATION L2_POOL_2D LOCAL_RESPONSE_NORMALIZATION LOGISTIC
LSH_PROJECTION LSTM MAX_POOL_2D MUL RELU RELU_N1_TO_1 RELU6 RESHAPE RESIZE_BILINEAR RNN SOFTMAX SPACE_TO_DEPTH
SVDF TANH CONCAT_EMBEDDINGS SKIP_GRAM CALL CUSTOM EMBEDDING_LOOKUP_SPARSE PAD UNIDIRECTIONAL_SEQUENCE_RNN GATHER
BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND TRANSPOSE MEAN SUB DIV SQUEEZE UNIDIRECTIONAL_SEQUENCE_LSTM STRIDED_SLICE
BIDIRECTIONAL_SEQUENCE_RNN EXP TOPK_V2 SPLIT LOG_SOFTMAX DELEGATE BIDIRECTIONAL_SEQUENCE_LSTM CAST PRELU MAXIMUM
ARG_MAX MINIMUM LESS NEG PADV2 GREATER GREATER_EQUAL LESS_EQUAL SELECT SLICE SIN TRANSPOSE_CONV SPARSE_TO_DENSE
TILE EXPAND_DIMS EQUAL NOT_EQUAL LOG SUM SQRT RSQRT SHAPE POW ARG_MIN FAKE_QUANT REDUCE_PROD REDUCE_MAX PACK
LOGICAL_OR ONE_HOT LOGICAL_AND LOGICAL_NOT UNPACK REDUCE_MIN FLOOR_DIV REDUCE_ANY SQUARE ZEROS_LIKE FILL
FLOOR_MOD RANGE RESIZE_NEAREST_NEIGHBOR LEAKY_RELU SQUARED_DIFFERENCE MIRROR_PAD ABS SPLIT_V UNIQUE CEIL
REVERSE_V2 ADD_N GATHER_ND COS WHERE RANK ELU REVERSE_SEQUENCE MATRIX_DIAG QUANTIZE MATRIX_SET_DIAG ROUND
HARD_SWISH IF WHILE NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 SCATTER_ND SELECT_V2 DENSIFY SEGMENT_SUM
BATCH_MATMUL PLACEHOLDER_FOR_GREATER_OP_CODES CUMSUM CALL_ONCE BROADCAST_TO RFFT2D CONV_3D IMAG REAL COMPLEX_ABS
HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE REDUCE_ALL CONV_3D_TRANSPOSE VAR_HANDLE READ_VARIABLE
ASSIGN_VARIABLE BROADCAST_ARGS RANDOM_STANDARD_NORMAL BUCKETIZE RANDOM_UNIFORM MULTINOMIAL GELU
DYNAMIC_UPDATE_SLICE RELU_0_TO_1 UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_SUM ATAN2
UNSORTED_SEGMENT_MIN SIGN BITCAST BITWISE_XOR RIGHT_SHIFT
"""
OPERATORS = {**dict(enumerate(_NAMES.split())), 206: COMPOSITE_KIND}

# ActivationFunctionType, as far as LiteRT's kernels compute them inside another operator.
ACTIVATIONS = {0: "", 1: "RELU", 2: "RELU_N1_TO_1", 3: "RELU6", 4: "TANH"}
SAME, VALID = 0, 1  # Padding
MOST_STATES = 256  # tensors that a WHILE hands from run to run

# Option tables: their number in the union BuiltinOptions, and each field that mica reads.
# A field has a slot, a type and a default if that is not 0. Types: b and i are integers, ? is a truth value, f a float.
_OPTIONS = """
Conv2D                       1 padding:0b stride_w:1i stride_h:2i activation:3b dilation_w:4i=1 dilation_h:5i=1
DepthwiseConv2D              2 padding:0b stride_w:1i stride_h:2i depth_multiplier:3i activation:4b dilation_w:5i=1
                               dilation_h:6i=1
Pool2D                       5 padding:0b stride_w:1i stride_h:2i filter_width:3i filter_height:4i activation:5b
SVDF                         6 rank:0i activation:1b
FullyConnected               8 activation:0b weights_format:1b
Softmax                      9 beta:0f
Concatenation               10 axis:0i activation:1b
Add                         11 activation:0b
L2Norm                      12 activation:0b
ResizeBilinear              15 align_corners:2? half_pixel_centers:3?
SpaceToDepth                19 block_size:0i
Mul                         21 activation:0b
Gather                      23 axis:0i batch_dims:1i
Reducer                     27 keep_dims:0?
Sub                         28 activation:0b
Div                         29 activation:0b
StridedSlice                32 begin_mask:0i end_mask:1i ellipsis_mask:2i new_axis_mask:3i shrink_axis_mask:4i offset:5?
Split                       35 num_splits:0i
ArgMax                      40 output_type:0b
TransposeConv               49 padding:0b stride_w:1i stride_h:2i activation:3b
Pack                        59 values_count:0i axis:1i
Unpack                      64 num:0i axis:1i
ArgMin                      57 output_type:0b
SplitV                      79 num_splits:0i
UnidirectionalSequenceLSTM  71 activation:0b cell_clip:1f projection_clip:2f time_major:3? diagonal:5?
ResizeNearestNeighbor       74 align_corners:0? half_pixel_centers:1?
LeakyRelu                   75 alpha:0f
MirrorPad                   77 mode:0b
ReverseSequence             87 seq_dim:0i batch_dim:1i
While                       93 cond_subgraph_index:0i body_subgraph_index:1i
DepthToSpace                94 block_size:0i
BatchMatMul                101 adj_x:0? adj_y:1?
Cumsum                     102 exclusive:0? reverse:1?
Gelu                       116 approximate:0?
"""
Field = tuple[int, str, int | float]


def _field(text: str) -> tuple[str, Field]:
    """Return the name, slot, type and default of `dilation_w:4i=1`."""
    name, _, about = text.partition(":")
    slot, _, default = about.partition("=")
    return name, (int(slot[:-1]), slot[-1], (float if slot[-1] == "f" else int)(default or 0))


def _options() -> dict[str, tuple[int, dict[str, Field]]]:
    """Return number and fields of each table; a line that begins with a space goes on."""
    rows = [row.split() for row in _OPTIONS.strip().replace("\n ", " ").splitlines()]
    return {f"{name}Options": (int(code), dict(map(_field, fields))) for name, code, *fields in rows}


OPTIONS = _options()
