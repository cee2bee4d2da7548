"""The .mica file, version 1: the one definition of its bytes, as plain data.

Everything that knows the format derives from this module: `codec.py` reads and writes it, `scripts/gen_format.py`
turns it into `usermod_c/include/mica_format.h` and the tables of `SPEC.md`, and a test regenerates both and compares.

Little endian throughout. A place in the file is an offset, never a pointer. Sections begin on multiples of `ALIGN`.
A table's record size stands in the section table, so a later minor version may append fields to a record and an old
reader steps over them; a reader that meets a *smaller* record than it knows refuses the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MAGIC = b"MICA"
VERSION_MAJOR = 1
VERSION_MINOR = 1  # 1: the section LAYER_CRCS

ALIGN = 16  # bytes: file base, sections, arena base; the planner begins tensors on it that are no part of another
BLOB_ALIGN = 4  # bytes: tensor offsets, and constants inside the DATA section (weights begin on ALIGN)
MAX_RANK = 6
MAX_INPUTS = 4  # tensors a step reads
MAX_OUTPUTS = 4  # tensors a step writes
MAX_BLOBS = 6  # constants a step reads from DATA
MAX_PARAMS = 16  # int32 parameters of a step
NO_TENSOR = 0xFFFF
MAX_TENSORS = 0xFFFE
MAX_STEPS = 0xFFFE
MAX_DIM = 0xFFFF  # any one dimension; products are bounded by the arena
MAX_BYTES = 2**31 - 1  # file, arena, scratch, state: every offset inside them fits an int32
MAX_IO = 256  # model inputs and outputs together
MAX_KERNEL_ID = 127  # the bitmap in the header has 128 bits


@dataclass(frozen=True)
class Field:
    """One field of a record. `type` is u8 u16 u32 i8 i32 f32 or 4s; `count` > 1 makes it an array."""

    name: str
    type: str
    doc: str
    count: int = 1


TYPE_BYTES = {"u8": 1, "i8": 1, "u16": 2, "u32": 4, "i32": 4, "f32": 4, "4s": 4}


def record_bytes(fields: tuple[Field, ...]) -> int:
    """Size in bytes of a record: fields lie one behind the other, without padding."""
    return sum(TYPE_BYTES[f.type] * f.count for f in fields)


HEADER = (
    Field("magic", "4s", 'the four bytes "MICA"'),
    Field("version_major", "u16", "a reader refuses a major version it does not know"),
    Field("version_minor", "u16", "a reader accepts every minor version"),
    Field("file_bytes", "u32", "length of the whole file; bytes beyond it are ignored"),
    Field("crc32", "u32", "CRC-32 (zlib) of file_bytes bytes, this field taken as zero"),
    Field("header_bytes", "u16", "size of this header; the section table follows it"),
    Field("section_bytes", "u16", "size of one record of the section table"),
    Field("n_sections", "u16", "records in the section table"),
    Field("reserved", "u16", "zero"),
    Field("features", "u32", "required features, one bit each; a reader refuses a bit it does not know"),
    Field("flags", "u32", "informative bits; none defined in version 1"),
    Field("kernels", "u32", "bitmap of the kernel ids in use: id k is bit k % 32 of word k / 32", 4),
    Field("arena_bytes", "u32", "activations: what tensors use of the arena, a multiple of 16; scratch follows"),
    Field("scratch_min", "u32", "largest scratch_min of all steps"),
    Field("scratch_want", "u32", "largest scratch_want of all steps"),
    Field("state_bytes", "u32", "tensors that outlive a run, outside the arena"),
)

SECTION = (
    Field("kind", "u16", "see the table of sections; a reader skips kinds it does not know"),
    Field("record_bytes", "u16", "size of one record, 0 where the section is not a table"),
    Field("offset", "u32", "from the start of the file, a multiple of 16"),
    Field("bytes", "u32", "length of the section"),
    Field("count", "u32", "number of records, 0 where the section is not a table"),
)

TENSOR = (
    Field("name", "u32", "offset of a zero-terminated UTF-8 string in STRINGS"),
    Field("dtype", "u8", "element type, see the table of element types"),
    Field("rank", "u8", "number of dimensions in use, 0 to 6; rank 0 is one element"),
    Field("space", "u8", "where the bytes live: 0 arena, 1 state, 2 DATA (read only)"),
    Field("reserved", "u8", "zero"),
    Field("dims", "u32", "dimensions, outermost first, 1 to 65535; unused ones are 1", MAX_RANK),
    Field("scale", "f32", "real = scale * (q - zero_point); finite and positive"),
    Field("zero_point", "i32", "in the range of the element type"),
    Field("offset", "u32", "from the start of its space, a multiple of 4"),
    Field("bytes", "u32", "product of the dimensions times the element size"),
)

STEP = (
    Field("name", "u32", "offset of a zero-terminated UTF-8 string in STRINGS: the ONNX node it came from"),
    Field("kernel", "u16", "kernel id; an id carries its semantics and is never reused"),
    Field("layout", "u8", "how the weights lie, see the table of layouts"),
    Field("flags", "u8", "see the table of step flags"),
    Field("inputs", "u16", "tensor ids, 0xFFFF where unused", MAX_INPUTS),
    Field("outputs", "u16", "tensor ids, 0xFFFF where unused", MAX_OUTPUTS),
    Field("scratch_min", "u32", "bytes of scratch without which the step cannot run, the same on every core"),
    Field("scratch_want", "u32", "bytes of scratch with which it runs fastest"),
    Field("macs", "u32", "multiply-accumulates, saturating; for reports only"),
    Field("blobs", "u32", "pairs (offset in DATA, bytes) of the constants, in the kernel's order; (0, 0) unused", 12),
    Field("params", "i32", "parameters, in the kernel's order; unused ones are 0", MAX_PARAMS),
)

IO = (
    Field("tensor", "u16", "tensor id"),
    Field("role", "u16", "0 model input, 1 model output; in the order of the ONNX graph"),
)

METADATA = (
    Field("key", "u32", "offset of a zero-terminated UTF-8 string in STRINGS"),
    Field("value", "u32", "offset of a zero-terminated UTF-8 string in STRINGS"),
)

# Section kinds. GOLDEN is a sequence of vectors, each: all model inputs, then all model outputs, each padded to 4.
# LAYER_CRCS has for each of these vectors one u32 for each step: CRC-32 (zlib) of its output right after the step.
SECTIONS = {
    "TENSORS": 1,
    "STEPS": 2,
    "IO": 3,
    "STRINGS": 4,
    "METADATA": 5,
    "DATA": 6,
    "GOLDEN": 7,
    "LAYER_CRCS": 8,
}
REQUIRED_SECTIONS = ("TENSORS", "STEPS", "IO", "STRINGS", "DATA")
TABLES = {"TENSORS": TENSOR, "STEPS": STEP, "IO": IO, "METADATA": METADATA}

DTYPES = {"int8": 1, "uint8": 2, "int16": 3, "int32": 4, "float32": 5}
DTYPE_BYTES = {"int8": 1, "uint8": 1, "int16": 2, "int32": 4, "float32": 4}
SPACES = {"arena": 0, "state": 1, "data": 2}

FEATURES: dict[str, int] = {}  # name -> bit; none is required by version 1.0

# FAST: for every output channel, |bias| + 128 * sum|w| < 2**29, every weight >= -127 and 1 <= shift <= 22.
# `pack` sets it where it is true, `load` refuses a step that claims it falsely.
STEP_FLAGS = {"FAST": 1}

# How the rows of a weight matrix lie in DATA, one row an output channel of K weights. The kernels of every core read words
# of four weights, so a row begins on one. It is one order for all cores: what they want beyond it (pairs, four channels
# interleaved) they make while they unpack words into scratch, once for a tile of pixels, so that a file costs no core more
# than another's would. A fully connected layer uses a weight once and has no tile to spread the unpacking over; there the
# offset saves the core that is slowest at it an instruction for four weights. `plain` is for files made by hand.
LAYOUTS = {"plain": 0, "rows": 1, "offset_rows": 2}
LAYOUT_DOCS = {
    "plain": "K bytes a row, row behind row",
    "rows": "each row is filled up with zeros to a multiple of 4 bytes",
    "offset_rows": "as `rows`, and each byte, the filling too, is the weight + 128: a core without an instruction that "
    "widens bytes with their sign takes them apart with a mask, and one that has it loses nothing",
}
ROW_ALIGN = 4

METADATA_KEYS = {
    "name": "name of the model",
    "producer": "program and version that wrote the file",
    "source": "file name of the ONNX model",
    "source_sha256": "SHA-256 of the ONNX file, hexadecimal",
    "command": "command that made the file: options in a fixed order, file names without their folders",
    "labels": "class names, one per line",
    "input_scale": "float input = raw * input_scale + input_offset, as the evaluation data stores it",
    "input_offset": "see input_scale",
    "metric": "what the accuracy figures are: top1, auc or mse",
    "accuracy_int8": "measured at pack time on the labelled data, integers",
    "samples": "number of samples the accuracy was measured on",
}


@dataclass(frozen=True)
class Kernel:
    """One kernel id: what a step with this id means. `blobs` are (name, element type), `params` int32 names."""

    id: int
    name: str
    n_inputs: int
    blobs: tuple[tuple[str, str], ...]
    params: tuple[str, ...]
    doc: str
    min_inputs: int = 0  # where fewer than n_inputs will do; 0: all are wanted
    x_type: str = "int8"  # element type of the inputs
    y_type: str = "int8"  # and of the output
    layout: str = "plain"  # the order of the weights that `pack` writes; `plain` is read as well

    @property
    def least_inputs(self) -> int:
        """Number of inputs that a step has to have."""
        return self.min_inputs or self.n_inputs


_REQUANT = (("bias", "i32"), ("mult", "i32"), ("shift", "i8"))
_ACT = ("act_min", "act_max")
_RECURRENT_NUMBERS = ("cell_shift", "output_shift", "hidden_zero", "in_mult", "in_shift", "out_mult", "out_shift")
_WINDOW = ("kernel_h", "kernel_w", "stride_h", "stride_w", "dilation_h", "dilation_w", "pad_top", "pad_left")

KERNELS = (
    Kernel(
        1,
        "conv2d_s8",
        1,
        (("weights", "i8"), *_REQUANT),
        (*_WINDOW, "groups", *_ACT),
        "2-D convolution. x [1,H,W,Cin], y [1,OH,OW,Cout], weights [Cout,KH,KW,Cin/groups], one bias, mult, shift "
        "per output channel. y = clamp(zy + requant(bias + sum(x * w))), where a tap outside x reads zx and the bias "
        "already holds -zx * sum(w).",
        layout="rows",
    ),
    Kernel(
        2,
        "depthwise_conv2d_s8",
        1,
        (("weights", "i8"), *_REQUANT),
        (*_WINDOW, *_ACT),
        "Depthwise convolution. x [1,H,W,C], y [1,OH,OW,C*m], weights [C*m,KH,KW]; output channel o reads input "
        "channel o / m. Otherwise as conv2d_s8.",
    ),
    Kernel(
        3,
        "fully_connected_s8",
        1,
        (("weights", "i8"), *_REQUANT),
        _ACT,
        "Matrix product with constant weights. x [...,K], y [...,N] with the same leading dimensions, weights [N,K]. "
        "y = clamp(zy + requant(bias + sum(x * w))); the bias already holds -zx * sum(w).",
        layout="offset_rows",
    ),
    Kernel(
        4,
        "max_pool2d_s8",
        1,
        (),
        (*_WINDOW, *_ACT),
        "Largest value in each window. x [1,H,W,C], y [1,OH,OW,C] with the scale and zero point of x. Taps outside x "
        "do not count. y = clamp(max(x)).",
    ),
    Kernel(
        5,
        "average_pool2d_s8",
        1,
        (("mult", "i32"), ("shift", "i8")),
        (*_WINDOW, "pad_bottom", "pad_right", "count_include_pad", *_ACT),
        "Mean of each window, rescaled. x [1,H,W,C], y [1,OH,OW,C]. n is the number of taps inside x, or, with "
        "count_include_pad, inside x and its pads. y = clamp(zy + requant(sum(x - zx))) with mult and shift "
        "of entry n - 1, or of the only entry where there is one. Dilation must be 1.",
    ),
    Kernel(
        6,
        "add_s8",
        2,
        (),
        ("mult_a", "mult_b", "offset", "shift", *_ACT),
        "Sum or difference of two tensors with numpy broadcasting. "
        "y = clamp(zy + ((a * mult_a + b * mult_b + offset) >> shift)); the offset holds the rounding constant and "
        "both zero points. 128 * (|mult_a| + |mult_b|) + |offset| < 2**31, 0 <= shift <= 30.",
    ),
    Kernel(
        7,
        "softmax_s8",
        1,
        (("table", "u32"),),
        (),
        "Softmax over the last axis. e = table[d] = round(2**q * exp(-d * sx)), d = max - x in 0..255; "
        "y = min(127, (n + sum(e) / 2) / sum(e) + zy) in unsigned 32-bit integers, sum over the axis. Where y has scale 1/256 "
        "and zero point -128, the table has 256 entries and n = 256 * e. Elsewhere it has 512, and n = table[256 + d] = "
        "round(2**q * exp(-d * sx) / sy). table[0] >= 1, e <= 2**23, axis length * max(e) <= 2**31, n <= 2**31.",
    ),
    Kernel(
        8,
        "lut_s8",
        1,
        (("table", "i8"),),
        (),
        "Any function of one variable: y = table[x + 128], 256 entries made by the host. x and y have one shape.",
    ),
    Kernel(
        9,
        "transpose_s8",
        1,
        (),
        ("perm_0", "perm_1", "perm_2", "perm_3", "perm_4", "perm_5"),
        "Permutation of the dimensions: y.dims[i] = x.dims[perm_i] for i < rank. y has the scale and zero point of x.",
    ),
    Kernel(
        10,
        "move_s8",
        1,
        (("map", "i32"),),
        ("begin", "rank"),
        "A copy with strides: y, read as an array of the shape map[:,0], is y[i] = x[begin + sum(i[j] * map[j,1])]. "
        "map [rank,2] holds a length and a step through x's elements, which may be 0 or negative; rank 1 to 6. "
        "Every index lies inside x; the lengths multiply to the size of y. y has the scale and zero point of x.",
    ),
    Kernel(
        11,
        "concat_s8",
        4,
        (),
        ("axis",),
        "Two to four tensors, one behind the other along an axis. All have the scale and zero point of y.",
        min_inputs=2,
    ),
    Kernel(
        12,
        "pad_s8",
        1,
        (),
        ("begin_0", "begin_1", "begin_2", "begin_3", "begin_4", "begin_5", "mode", "value"),
        "x with begin_i elements before it along dimension i, and behind it what y's dimension leaves. They are: mode 0 "
        "value; 1 the nearest element of x; 2 x reflected, without its border; 3 x repeated. Modes 2 and 3 reach no "
        "further than x is long (less 1 for mode 2). y has the scale and zero point of x.",
    ),
    Kernel(
        13,
        "gather_s8",
        1,
        (("indices", "i32"),),
        ("axis",),
        "Picks along an axis: y[..., j, ...] = x[..., indices[j], ...], 0 <= indices[j] < x.dims[axis], as many as "
        "y.dims[axis]. y has the scale and zero point of x.",
    ),
    Kernel(
        14,
        "resize_linear_s8",
        1,
        (("rows", "u16"), ("row_weights", "i16"), ("columns", "u16"), ("column_weights", "i16")),
        ("row_taps", "column_taps"),
        "Resizing as weighted sums. x [1,H,W,C], y [1,OH,OW,C] with the scale and zero point of x; rows [OH], "
        "row_weights [OH,row_taps] and columns, column_weights likewise. y[i,j] = clamp((2**21 + sum over a < row_taps of "
        "row_weights[i,a] * sum over b < column_taps of column_weights[j,b] * x[rows[i] + a, columns[j] + b]) >> 22). "
        "All taps lie inside x, 1 to 255 of them; the weights of an entry sum to 2048, their absolute values to at most "
        "2896, so the sums stay below 2**31 and zero points cancel.",
    ),
    Kernel(
        15,
        "embedding_s8",
        1,
        (("table", "i8"),),
        ("rows",),
        "Rows of a constant table: y[..., :] = table[i], table [rows, last dimension of y], where i = x[...], plus rows "
        "where that is negative, then clamped to 0..rows - 1. x int32 has the other dimensions of y.",
        x_type="int32",
    ),
    Kernel(
        16,
        "mul_s8",
        2,
        (),
        ("mult", "shift", *_ACT),
        "Product of two tensors with numpy broadcasting. y = clamp(zy + requant((a - za) * (b - zb))).",
    ),
    Kernel(
        17,
        "minmax_s8",
        2,
        (),
        ("mult_a", "offset_a", "mult_b", "offset_b", "shift", "larger", *_ACT),
        "The larger of two tensors, or with larger = 0 the smaller, with numpy broadcasting. y = clamp(zy + "
        "(max(a * mult_a + offset_a, b * mult_b + offset_b) >> shift)); an offset holds the rounding constant and a zero "
        "point. 128 * |mult| + |offset| < 2**31 for each, 0 <= shift <= 30.",
    ),
    Kernel(
        18,
        "matmul_s8",
        2,
        (),
        ("transpose_b", "mult", "shift", *_ACT),
        "Matrix product of two tensors. a [...,M,K], b [...,K,N], or [...,N,K] with transpose_b = 1, y [...,M,N]; the "
        "leading dimensions broadcast as in numpy. y = clamp(zy + requant(sum((a - za) * (b - zb)))). K <= 33025.",
    ),
    Kernel(
        19,
        "reduce_s8",
        1,
        (),
        ("axis", "axes", "mode", "mult", "shift", "bias", *_ACT),
        "One number of all those along `axes` dimensions from `axis` on; y has what remains, in any shape. With d = x - zx, "
        "mode 0: y = clamp(zy + requant(sum(d))). 1 and 2: y = clamp(max(x)), clamp(min(x)), y has the scale and zero point of "
        "x. 3: sum(d * d), and 4: sum(|d|), as 0. 5: y = clamp(zy + requant(root)), root = 2**15 * sqrt(sum(d * d)) to 16 "
        "bits. 6: y = clamp(zy + requant(log + bias)), log = floor(2**16 * log2(sum(d))); act_min where sum(d) <= 0. At most "
        "2**23 numbers, for 3 and 5 33025; |bias| <= 2**24, 0 but for mode 6.",
    ),
    Kernel(
        20,
        "argmax_s8",
        1,
        (),
        ("axis", "minimum", "select_last"),
        "Where along an axis the largest element is, with minimum = 1 the smallest: the first, with select_last = 1 the last "
        "of equal ones. y has the other dimensions, in any shape.",
        y_type="int32",
    ),
    Kernel(
        21,
        "div_s8",
        2,
        (),
        ("factor", "shift", *_ACT),
        "Quotient of two tensors with numpy broadcasting. y = clamp(zy + (a - za) * factor / ((b - zb) * 2**shift)), rounded "
        "once, halves away from zero; where b = zb, zy where a = za, else the bound on the side of a's sign. "
        "0 <= factor <= 2**21, 0 <= shift <= 22.",
    ),
    Kernel(
        22,
        "layer_norm_s8",
        1,
        (("gamma", "i32"), ("beta", "i32")),
        ("axis", "inner", "channels", "mode", "epsilon_low", "epsilon_high", "shift", *_ACT),
        "Normalisation of rows: the n elements along the dimensions from `axis` on. y = clamp(zy + ((((normal * gamma[c]) >> "
        "20) + beta[c] + 2**(shift-1)) >> shift)), normal in units of 2**-20. With d = x - zx and e = epsilon * 2**-14, mode 0: "
        "normal = (n * x - sum(x)) / sqrt(n * sum(x * x) - sum(x)**2 + e); 1: d / sqrt(sum(d * d) + e); 2: d / "
        "sqrt(sum(|d|)**2 + e). Element i of row r has c = (r * n / inner + i / inner) % channels. x and y have one shape; "
        "epsilon < 2**62; n <= 65535; (root(n) + 2) * |gamma| + |beta| + 2**(shift-1) < 2**31 - 1; 0 <= shift <= 30.",
    ),
    Kernel(
        23,
        "conv_transpose2d_s8",
        1,
        (("weights", "i8"), *_REQUANT),
        (*_WINDOW, "groups", *_ACT),
        "Transposed 2-D convolution. x [1,H,W,Cin], y [1,OH,OW,Cout], weights [Cout,KH,KW,Cin/groups]; output (oy, ox) "
        "is reached by tap (ky, kx) from input (iy, ix) where iy * stride_h + ky * dilation_h = oy + pad_top, and "
        "likewise along the width. y = clamp(zy + requant(bias + sum over all taps of v * w)), where v is x, or zx for "
        "a tap that no input reaches, and the bias already holds -zx * sum(w).",
    ),
    Kernel(
        24,
        "recurrent_s8",
        3,
        (
            ("matrix", "i8"),
            ("terms", "i32"),
            ("shifts", "i8"),
            ("gate", "i16"),
            ("candidate", "i16"),
            ("output", "i16"),
        ),
        ("cell", "reverse", "result", "coupled", "peepholes", *_RECURRENT_NUMBERS),
        "A recurrent layer over a whole sequence: cell 0 simple, 1 LSTM, 2 GRU, 3 GRU that resets after the product; "
        "see the notes. x [T,B,I], from T - 1 down with reverse; then the initial hidden state, and cell state, "
        "[1,B,H], 0 where absent. y [T,B,H] is every hidden state, y [1,B,H] the last one, or with result 1 the last "
        "cell state. matrix [G*H,I+H], G gates: of an LSTM i, o, f, c, of a GRU z, r, h. terms [4,G*H]: bias and factor "
        "of the input's and of the recurrent product, in the order bias, bias, factor, factor, then with peepholes "
        "[3,H] for i, o, f. shifts [G*H]. The tables gate, candidate, output [257]: a GRU has no output table, a "
        "simple cell no gate table either. Needs scratch.",
        min_inputs=1,
    ),
    Kernel(
        30,
        "log_softmax_s8",
        1,
        (("table", "u32"),),
        ("sum", "mult", "mult_log", "offset", "shift", *_ACT),
        "Logarithm of the softmax over the last axis. y = clamp(zy + (((x - max(x)) * mult + ((log * mult_log) >> 16) + offset) "
        ">> shift)), log = floor(2**16 * log2(sum(table[max(x) - x]))), table as for softmax_s8. With sum = 1 max(x) stands in "
        "the place of x - max(x), and y has one number for each row: the logarithm of the sum of the exponentials. "
        "255 * |mult| + 32 * |mult_log| + |offset| < 2**31, 0 <= shift <= 30.",
    ),
)

# A step that no engine computes by itself: an operator of the user's own. It is in no firmware, and in no list of kernels.
CUSTOM = Kernel(
    MAX_KERNEL_ID,
    "custom_s8",
    4,
    (("definition", "u8"),),
    (),
    "An operator of the user's own. definition: JSON in UTF-8, an object with the strings `op`, its name, and `attributes`, an "
    "object. On a board y is what the function registered under that name makes of the inputs, one to four, of any shape; a "
    "board without such a function refuses the file.",
    min_inputs=1,
)

# Kernels whose output may lie exactly on an input of the same size. Everywhere else outputs and inputs share no byte.
IN_PLACE = ("add_s8", "softmax_s8", "lut_s8", "mul_s8", "minmax_s8", "div_s8", "layer_norm_s8", "log_softmax_s8")

KERNEL_BY_NAME = {k.name: k for k in (*KERNELS, CUSTOM)}
KERNEL_BY_ID = {k.id: k for k in (*KERNELS, CUSTOM)}

# Range of a per-channel or per-window factor mult * 2**-(31 + shift); see "Requantisation" in SPEC.md.
MULT_MIN, MULT_MAX = 0, 2**31 - 1
SHIFT_MIN, SHIFT_MAX = -30, 31


def scratch_min(kernel: str, out_channels: int, reduction: int) -> int:
    """Bytes of scratch a step of this kernel cannot run without, on any core.

    `out_channels` is the number of outputs that share one input patch, `reduction` the length of a dot product.
    Compared against `mica_scratch_min` in C by a test.  Nearly all kernels have a variant that needs none;
    a larger `scratch_want` only makes them faster.
    """
    del reduction
    if kernel == "recurrent_s8":  # three states of each unit, 16 bits each
        return 6 * out_channels
    return 0


SCRATCH_LIMIT = 16 << 10  # bytes that speed may cost where no board says otherwise
SCRATCH_LEAST = 2 << 10  # and the least that a board can make of it


def scratch_want(kernel: str, x: tuple[int, ...], y: tuple[int, ...], p: Mapping[str, int], limit: int) -> int:
    """Bytes of scratch with which a step runs fastest, at most `limit`; the same for every core.

    x, y: dimensions of the first input and the output. A kernel that is given less works on fewer pixels or rows at a
    time; one that is given more has no use for it. Limits below SCRATCH_LEAST, or the smallest tile of a step where
    that is larger, count as that: with less, kernels have to go without, several times slower, to save two kilobytes.

    conv2d: the patches of a tile of pixels, 16 bits an element, a running sum for each pixel where a dot product is done
    in parts, and the unpacked weights of four channels; at least one patch, as bytes and unpacked. depthwise: a strip of one
    channel, for two rows of the output at a time, 96 bits a column, and where each strip begins; or of four channels,
    64 bits a column each, and their constants; or one window of all channels; at least the first or the last. fully
    connected: one unpacked row of x.
    """
    want = tile = 0
    if kernel == "conv2d_s8" and p["groups"] == 1:
        k = row_bytes("rows", p["kernel_h"] * p["kernel_w"] * x[3])
        pixels = -(-y[1] * y[2] // 4) * 4
        want = pixels * (2 * k + 4) + 8 * k + SCRATCH_FIXED
        tile = 3 * k
    elif kernel == "depthwise_conv2d_s8":
        columns = (y[2] - 1) * p["stride_w"] + p["kernel_w"]
        window = row_bytes("rows", p["kernel_h"] * p["kernel_w"] * x[3])
        tile = max(12 * columns + 12 * (y[1] + 1), window)
        want = max(tile, 32 * columns + 160) + SCRATCH_FIXED
    elif kernel == "fully_connected_s8":
        tile = 2 * row_bytes("offset_rows", x[-1])
        want = tile + SCRATCH_FIXED
    least = scratch_min(kernel, y[-1] if y else 1, 0)
    return max(least, min(want, max(limit, tile, SCRATCH_LEAST)) & -4)


SCRATCH_FIXED = 64  # bytes beside what grows with the shapes: constants of a call, and room to align


def row_bytes(layout: str, k: int) -> int:
    """Length in bytes of a row of k weights."""
    return k if layout == "plain" else -(-k // ROW_ALIGN) * ROW_ALIGN
