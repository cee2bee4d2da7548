"""Files and lines that add a kernel: Hardmax, which mica does not have, in every place that is written by hand.

FILES are new files, copied from this folder. INSERTED are lines for existing files, each in front of a line that occurs
once in its file. `scripts/gen_format.py` generates all other lists of kernels.
"""

HERE = "tests/kernels/new_kernel"

FILES = {
    "usermod_c/kernels/ref/hardmax.c": "hardmax.c",
}

_ROW = '''
def _hardmax_rules(x: Tensors, y: Tensor, p: Params) -> Shapes:
    require(len(y.dims) >= 1, "hardmax of a single element")
    require(-128 <= p["one"] <= 127, f"one is {p['one']}; expected an int8")
    same(x[0], y)
    return {}


@Kernel(id=126, params=("one",), group="activation", rules=_hardmax_rules, counts=rows_counts)
def hardmax_s8(xs: Sequence[Array], blobs: Blobs, p: Params, q: Output) -> Array:
    """y = one where x is the first of the largest along the last axis, elsewhere zy."""
    y = np.full(q.dims, q.y_zero, np.int8)
    np.put_along_axis(y, np.argmax(xs[0], axis=-1)[..., None], p["one"], axis=-1)
    return y



'''

_CONTRACT = """// ---- hardmax_s8: y = one where x is the first of the largest of its row, elsewhere y_zero
//   x int8 [rows, axis]; y the same; rows: rows
typedef struct {
    const int8_t *x;
    int8_t *y;
    uint32_t rows;
    uint16_t axis;
    int8_t one, y_zero;
} mica_hardmax_s8_t;

"""

_FLOAT = """def _hardmax(node: Node, a: Arrays, shape: tuple[int, ...]) -> np.ndarray:
    y = np.zeros(shape, np.float32)
    np.put_along_axis(y, np.argmax(a[0], axis=-1)[..., None], 1.0, axis=-1)
    return y


"""

_STEP = """def _hardmax(g: Graph, out: Graph, node: Node) -> None:
    q = quant(out, node.outputs[0])
    one = int(np.clip(np.rint(1 / q.scale) + q.zero_point, -128, 127))
    emit(out, node, "hardmax_s8", [node.inputs[0]], [], {"one": one})


"""

_FALLBACK = '''def hardmax_s8(step):
    """Over the last axis."""
    step.same_shape()
    step.want(len(step.y.shape) >= 1, "hardmax of a single element")
    n = step.y.shape[-1]
    one, zero = step.within("one", -128, 127), step.y.zero_point
    x, y = step.x[0].data, step.y.data

    def run():
        for first in range(0, len(x), n):
            most = first
            for i in range(first, first + n):
                y[i] = zero
                if x[i] > x[most]:
                    most = i
            y[most] = one

    return run


'''

_LOADER = """#ifndef MICA_WITHOUT_HARDMAX_S8
MICA_LOAD_ROWS(hardmax, HARDMAX) {
    MICA_LOAD_ONE(r, p);
    if (mica_load_same_shape(r)
        && mica_load_require(r, r->y.rank >= 1, MICA_ERR_SHAPE, "hardmax of a single element")) {
        p->y_zero = (int8_t)r->y.zero_point;
        p->one = (int8_t)mica_load_param(r, MICA_HARDMAX_S8_PARAM_ONE, -128, 127);
        p->axis = (uint16_t)r->y.dims[r->y.rank - 1];
        p->rows = r->y.bytes / p->axis;
        mica_load_checked(r, mica_hardmax_s8_check(p, &r->what));
    }
}
#endif

"""

# file -> (line, what comes in front of it)
INSERTED: dict[str, list[tuple[str, str]]] = {
    "host_tools/mica/kernels/softmax.py": [
        ("KERNELS = (", _ROW.lstrip("\n")),
    ],
    "host_tools/mica/ir/ops.py": [
        ('    Op("Softmax", 1, (), (), "softmax_s8"),', '    Op("Hardmax", 1, (), (), "hardmax_s8"),\n'),
    ],
    "host_tools/mica/reference/float_ops.py": [
        ("# Operators with more than one output; OPS has the first.", _FLOAT),
        ('    "Softmax": lambda node, a, shape: softmax(a[0]),', '    "Hardmax": _hardmax,\n'),
    ],
    "host_tools/mica/quantise/kernels/softmax.py": [
        ('STEPS = {"Softmax": _softmax, "Unary": _unary}', _STEP),
    ],
    "usermod_c/include/families/rows.h": [("// ---- reduce_s8: ", _CONTRACT)],
    "usermod_c/runtime/op_softmax.c": [("#ifndef MICA_WITHOUT_LOG_SOFTMAX_S8", _LOADER)],
    "firmware/mica/fallback/softmax.py": [("def log_softmax_s8(step):", _FALLBACK)],
}
# file -> (what stands there once, what takes its place)
REPLACED: dict[str, tuple[str, str]] = {
    "host_tools/mica/kernels/softmax.py": ("log_softmax_s8)\n", "hardmax_s8, log_softmax_s8)\n"),
    "host_tools/mica/passes/lower/normalise.py": (
        '("LogSoftmax", "Softmax"), _s',
        '("Hardmax", "LogSoftmax", "Softmax"), _s',
    ),
    "host_tools/mica/quantise/kernels/softmax.py": (
        '"Unary": _unary}',
        '"Unary": _unary, "Hardmax": _hardmax}',
    ),
}
