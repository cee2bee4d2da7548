"""The .mica file, version 1: the one definition of its bytes, as plain data.
`mica.kernels` defines the steps, a row a kernel.

Everything that knows the format derives from these: `codec.py` reads it, `writer.py` writes it, `scripts/gen_format.py`
turns it into `usermod_c/include/mica_format.h` and the tables of `SPEC.md`, and a test regenerates both and compares.

Little endian throughout. A place in the file is an offset, never a pointer. Sections begin on multiples of `ALIGN`.
A table's record size stands in the section table, so a later minor version may append fields to a record and an old
reader steps over them; a reader that meets a *smaller* record than it knows refuses the file.
"""

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
MAX_NAME = 255  # bytes of a name, without the zero
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
    Field(
        "space", "u8", "where the bytes live: 0 arena, 1 state, 2 DATA (read only), 3 rows (arena, some rows at a time)"
    ),
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

ORDER = (
    Field("step", "u16", "step of which rows are made; 0xFFFE: rows of the fed input are; 0xFFFF: a strip begins"),
    Field("rows", "u16", "how many rows; of a strip its first step"),
    Field("drop", "u16", "oldest rows of the output that leave the memory before; of a strip the number of its steps"),
)

# The beginning of the section TOKENS; tables and pieces follow it (tokens.py).
TOKENS = (
    Field("count", "u16", "pieces, 1 to 65534; the number of a piece is its token"),
    Field("listed", "u16", "pieces that text is made of: entries of the list by bytes"),
    Field("method", "u8", "how text is taken apart, see the table of methods"),
    Field("flags", "u8", "see the table of flags"),
    Field("begin", "u16", "token that stands before a text, 0xFFFF: none"),
    Field("end", "u16", "token that ends a text, 0xFFFF: none"),
    Field("token", "u16", "model input that takes the token"),
    Field("position", "u16", "model input that takes its position, 0 for the first, 0xFFFF: none; with CLASSES zeros"),
    Field("length", "u16", "model input that takes the number of tokens seen, 0xFFFF: none; with CLASSES the mask"),
    Field("output", "u16", "model output with a score for each token; with CLASSES for each class"),
    Field("padding", "u16", "with CLASSES the token behind a short text, else zero"),
    Field("positions", "u32", "how many positions there are, 0: no end; with CLASSES the unknown token, 0xFFFF: none"),
    Field("window", "u32", "the most that `length` is given, 0 where there is no such input"),
    Field("piece_bytes", "u32", "bytes of all pieces, at most 65535"),
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
    "ORDER": 9,
    "TOKENS": 10,
}
REQUIRED_SECTIONS = ("TENSORS", "STEPS", "IO", "STRINGS", "DATA")
TABLES = {"TENSORS": TENSOR, "STEPS": STEP, "IO": IO, "METADATA": METADATA, "ORDER": ORDER}

DTYPES = {"int8": 1, "uint8": 2, "int16": 3, "int32": 4, "float32": 5}
DTYPE_BYTES = {"int8": 1, "uint8": 1, "int16": 2, "int32": 4, "float32": 4}
SPACES = {"arena": 0, "state": 1, "data": 2, "rows": 3}
NEW_STRIP = 0xFFFF  # `step` of the record of ORDER that begins a strip
FEED = 0xFFFE  # `step` of one by which the caller delivers rows of the fed input

# name -> bit; none is required by version 1.0.
# STRIPS: there is a section ORDER, and only then.
# FED: one model input is kept by rows, and only then.
# `JOINS`: some outputs are parts of one array, as the metadata `joins` says (output_groups.py).
# TOKENS: there is a section TOKENS, and only then.
FEATURES: dict[str, int] = {"STRIPS": 1, "JOINS": 2, "TOKENS": 4, "FED": 8}

# How text becomes tokens: the longest piece from the left; pieces side by side merged, that of the least cost first;
# the pieces whose costs have the least sum; the longest piece of each word from the left,
# the later ones with CONTINUED before them.
TOKEN_METHODS = {"LONGEST": 0, "MERGES": 1, "UNIGRAM": 2, "WORDPIECE": 3}
# SPACE: a space is put before a text. WORDS: pieces do not reach over the bounds of words.
# BYTES: merging begins with bytes, not with characters. CLASSES: the model takes a whole text and gives scores of
# classes. LOWER: letters become small. ACCENTS: they lose their accents. MARKS: each mark is a word.
# BARE: marks are left out. Both: a run of marks is a word.
# In other methods than WORDPIECE, LOWER makes text plain first. MARKS: WORDS know letters and blanks beyond ASCII.
TOKEN_FLAGS = {
    **{"SPACE": 1, "WORDS": 2, "BYTES": 4, "CLASSES": 8},
    **{"LOWER": 16, "ACCENTS": 32, "MARKS": 64, "BARE": 128},
}
NO_TOKEN = 0xFFFF
MAX_TOKENS = 0xFFFE
MAX_PIECE_BYTES = 0xFFFF  # of all pieces together

# FAST: for every output channel, |bias| + 128 * sum|w| < 2**29, no weight below weights.INT8's range and 1 <= shift <=
# 22.
# `pack` sets it if it is true; `load` refuses a step that claims it falsely.
STEP_FLAGS = {"FAST": 1}

LISTEN_THRESHOLD, LISTEN_MEAN = "listen_threshold", "listen_mean"
THRESHOLD, MEAN = 0.7, 3  # of a listener, where neither the file nor the program says another
METADATA_KEYS = {
    "name": "name of the model",
    "producer": "program and version that wrote the file",
    "source": "file name of the ONNX model",
    "source_sha256": "SHA-256 of the ONNX file, hexadecimal",
    "command": "command that made the file: options in a fixed order, file names without their folders",
    "labels": "class names, one per line",
    "input_scale": "float input = raw * input_scale + input_offset, as the evaluation data stores it",
    "input_offset": "see input_scale",
    "frontend": "how the front end was asked for that turns sound into features, as after `mica pack --frontend`",
    "sample_rate": "samples a second of an int16 input that is sound",
    LISTEN_THRESHOLD: "of a listener: the mean output from which on a word counts, unless the program says another; "
    "without it 0.7. A number for each label, with blanks between: each is judged alone",
    LISTEN_MEAN: "of how many outputs that mean is; without it 3; several as for `listen_threshold`",
    "picture": "colours of the picture that the input is, and how their bytes become int8; see Pictures",
    "part": "of a model that was cut: which part of which file, and the tensors that it takes and gives, by their "
    "numbers there; the first part has what the whole said, under names that begin with `whole.`",
    "joins": "outputs that are parts of one array, a line for each array: number of parts, axis, name",
    "scores": "place among the arrays of predict() of the one that holds scores of the classes, -1: none; without it "
    "the first that is no int32",
    "weights": "numbers of the steps whose constants are to be copied from flash into RAM, as far as it goes, those "
    "first that gain most for a byte; without it those that multiply, in their order",
    "missing": "NaN: the model has learnt missing values, which are NaN among its features",
    "columns": "names of the columns of the table that the model was packed with, in the order of its input, one per "
    "line; of more than 1,000 bytes `sha256:` and their SHA-256",
    "metric": "what the accuracy figures are: top1, auc or mse",
    "accuracy_int8": "measured at pack time on the labelled data, integers",
    "samples": "number of samples the accuracy was measured on",
}

# Of pictures: kernels/picture.h has the same numbers, and firmware/mica/pictures.py; a test compares them.
PICTURE_COLOURS = ("grey", "rgb", "bgr")
PICTURE_FORMATS = ("grey", "rgb565le", "rgb565be", "rgb888", "bgr888", "yuyv", "uyvy")  # the number of one is its place
PICTURE_FLAGS = {"COLOUR": 1, "BGR": 2, "PLANES": 4, "AREA": 8}
PICTURE_MAX_SIDE = 16384  # of a frame and of what is made of it
PICTURE_MAX_COVER = 128  # columns, and rows, that one pixel is the mean of


# Range of a per-channel or per-window factor mult * 2**-(31 + shift); see "Requantisation" in SPEC.md.
MULT_MIN, MULT_MAX = 0, 2**31 - 1
SHIFT_MIN, SHIFT_MAX = -30, 31

SCRATCH_LIMIT = 16 << 10  # bytes that speed may cost, unless a board has another limit
SCRATCH_ANY = 32 << 10  # the most that a board has: what a file for any board wants, of which each gives what it has
SCRATCH_LEAST = 2 << 10  # and the least that a board can make of it
