"""Facts of the TensorFlow Lite file format (schema.fbs, version 3): numbers of slots, types and operators.

`tests/host/test_tflite_schema.py` compares them with the code that LiteRT generates from schema.fbs.
"""

IDENTIFIER = b"TFL3"  # at byte 4
VERSION = 3

# Slots of the tables that hold the graph.
MODEL = {"version": 0, "operator_codes": 1, "subgraphs": 2, "description": 3, "buffers": 4}
OPERATOR_CODE = {"deprecated_builtin_code": 0, "custom_code": 1, "version": 2, "builtin_code": 3}
SUBGRAPH = {"tensors": 0, "inputs": 1, "outputs": 2, "operators": 3, "name": 4}
TENSOR = {
    **{"shape": 0, "type": 1, "buffer": 2, "name": 3, "quantization": 4, "is_variable": 5, "sparsity": 6},
    "shape_signature": 7,
}
QUANTIZATION = {"scale": 2, "zero_point": 3, "quantized_dimension": 6}
OPERATOR = {
    "opcode_index": 0,
    "inputs": 1,
    "outputs": 2,
    "builtin_options_type": 3,
    "builtin_options": 4,
    "custom_options": 5,
    "builtin_options_2_type": 11,
    "builtin_options_2": 12,
}
BUFFER = {"data": 0, "offset": 1, "size": 2}
# Options that are no numbers, or that are read before the operators are.
CALL_ONCE = {"init_subgraph_index": 0}
VAR_HANDLE = {"container": 0, "shared_name": 1}
COMPOSITE_KIND = "STABLEHLO_COMPOSITE"  # one operator of StableHLO, with a graph of the file that computes it
COMPOSITE = {"name": 0, "decomposition_subgraph_index": 1}
COMPOSITE_OPTIONS = 21  # their number in the union BuiltinOptions2

# TensorType; int4 has two elements a byte, the first in the low half.
TYPES = {
    0: "float32",
    1: "float16",
    2: "int32",
    3: "uint8",
    4: "int64",
    5: "string",
    6: "bool",
    7: "int16",
    8: "complex64",
    9: "int8",
    10: "float64",
    11: "complex128",
    12: "uint64",
    13: "resource",
    14: "variant",
    15: "uint32",
    16: "uint16",
    17: "int4",
    18: "bfloat16",
}

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

_STRIDES = {"padding": (0, "b", 0), "stride_w": (1, "i", 0), "stride_h": (2, "i", 0)}

# Option tables: their number in the union BuiltinOptions, and of each field that mica reads its slot, type and default.
Field = tuple[int, str, int | float]
OPTIONS: dict[str, tuple[int, dict[str, Field]]] = {
    "Conv2DOptions": (1, {**_STRIDES, "activation": (3, "b", 0), "dilation_w": (4, "i", 1), "dilation_h": (5, "i", 1)}),
    "DepthwiseConv2DOptions": (
        2,
        {
            **_STRIDES,
            "depth_multiplier": (3, "i", 0),
            "activation": (4, "b", 0),
            "dilation_w": (5, "i", 1),
            "dilation_h": (6, "i", 1),
        },
    ),
    "Pool2DOptions": (
        5,
        {**_STRIDES, "filter_width": (3, "i", 0), "filter_height": (4, "i", 0), "activation": (5, "b", 0)},
    ),
    "SVDFOptions": (6, {"rank": (0, "i", 0), "activation": (1, "b", 0)}),
    "FullyConnectedOptions": (8, {"activation": (0, "b", 0), "weights_format": (1, "b", 0)}),
    "SoftmaxOptions": (9, {"beta": (0, "f", 0.0)}),
    "ConcatenationOptions": (10, {"axis": (0, "i", 0), "activation": (1, "b", 0)}),
    "AddOptions": (11, {"activation": (0, "b", 0)}),
    "L2NormOptions": (12, {"activation": (0, "b", 0)}),
    "ResizeBilinearOptions": (15, {"align_corners": (2, "?", 0), "half_pixel_centers": (3, "?", 0)}),
    "SpaceToDepthOptions": (19, {"block_size": (0, "i", 0)}),
    "MulOptions": (21, {"activation": (0, "b", 0)}),
    "GatherOptions": (23, {"axis": (0, "i", 0), "batch_dims": (1, "i", 0)}),
    "ReducerOptions": (27, {"keep_dims": (0, "?", 0)}),
    "SubOptions": (28, {"activation": (0, "b", 0)}),
    "DivOptions": (29, {"activation": (0, "b", 0)}),
    "StridedSliceOptions": (
        32,
        {
            "begin_mask": (0, "i", 0),
            "end_mask": (1, "i", 0),
            "ellipsis_mask": (2, "i", 0),
            "new_axis_mask": (3, "i", 0),
            "shrink_axis_mask": (4, "i", 0),
            "offset": (5, "?", 0),
        },
    ),
    "SplitOptions": (35, {"num_splits": (0, "i", 0)}),
    "ArgMaxOptions": (40, {"output_type": (0, "b", 0)}),
    "TransposeConvOptions": (49, {**_STRIDES, "activation": (3, "b", 0)}),
    "PackOptions": (59, {"values_count": (0, "i", 0), "axis": (1, "i", 0)}),
    "UnpackOptions": (64, {"num": (0, "i", 0), "axis": (1, "i", 0)}),
    "ArgMinOptions": (57, {"output_type": (0, "b", 0)}),
    "SplitVOptions": (79, {"num_splits": (0, "i", 0)}),
    "UnidirectionalSequenceLSTMOptions": (
        71,
        {
            "activation": (0, "b", 0),
            "cell_clip": (1, "f", 0.0),
            "projection_clip": (2, "f", 0.0),
            "time_major": (3, "?", 0),
            "diagonal": (5, "?", 0),
        },
    ),
    "ResizeNearestNeighborOptions": (74, {"align_corners": (0, "?", 0), "half_pixel_centers": (1, "?", 0)}),
    "LeakyReluOptions": (75, {"alpha": (0, "f", 0.0)}),
    "MirrorPadOptions": (77, {"mode": (0, "b", 0)}),
    "ReverseSequenceOptions": (87, {"seq_dim": (0, "i", 0), "batch_dim": (1, "i", 0)}),
    "WhileOptions": (93, {"cond_subgraph_index": (0, "i", 0), "body_subgraph_index": (1, "i", 0)}),
    "DepthToSpaceOptions": (94, {"block_size": (0, "i", 0)}),
    "BatchMatMulOptions": (101, {"adj_x": (0, "?", 0), "adj_y": (1, "?", 0)}),
    "CumsumOptions": (102, {"exclusive": (0, "?", 0), "reverse": (1, "?", 0)}),
    "GeluOptions": (116, {"approximate": (0, "?", 0)}),
}
