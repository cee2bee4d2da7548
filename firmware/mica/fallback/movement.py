"""Kernels that only move elements."""

from mica.fallback.common import offsets, split, strides, volume


def transpose_s8(step):
    """y.dims[i] = x.dims[perm_i]."""
    a, b = step.x[0].shape, step.y.shape
    perm = [step.params[f"perm_{i}"] for i in range(len(b))]
    step.want(len(a) == len(b) and sorted(perm) == list(range(len(b))), "perm is no permutation of the dimensions")
    step.want(tuple([a[i] for i in perm]) == b, "the output does not have the permuted shape")
    step.same_scale()
    own = strides(a)
    along = [own[i] for i in perm]
    x, y = step.x[0].data, step.y.data

    def run():
        at = 0
        for i in offsets(b, along):
            y[at] = x[i]
            at += 1

    return run


def move_s8(step):
    """y[i] = x[begin + sum(i[j] * map[j,1])], an array of the shape map[:,0]."""
    begin, rank = step.within("begin", 0, 0x7FFFFFFF), step.within("rank", 1, 6)
    step.same_scale()
    table = step.constant("map", 2 * rank)
    dims = [table[2 * i] for i in range(rank)]
    along = [table[2 * i + 1] for i in range(rank)]
    x, y = step.x[0].data, step.y.data
    step.want(min(dims) >= 1 and volume(dims) == len(y), "the map does not make the output")
    reach = [(n - 1) * s for n, s in zip(dims, along)]
    least, most = (begin + sum(r for r in reach if sign * r > 0) for sign in (-1, 1))
    step.want(least >= 0 and most < len(x), "the map reads outside the input")

    def run():
        at = 0
        for i in offsets(dims, along, begin):
            y[at] = x[i]
            at += 1

    return run


def _beside(step, x, axis):
    """Check that x has the shape of the output but along `axis`."""
    a, b = x.shape, step.y.shape
    step.want(0 <= axis < len(b) and len(a) == len(b), "the axis is not one of the output")
    step.want(a[:axis] == b[:axis] and a[axis + 1 :] == b[axis + 1 :], "an input differs beside the axis")
    step.same_scale(x)


def concat_s8(step):
    """Two to four tensors one behind the other along an axis."""
    axis = step.params["axis"]
    for x in step.x:
        _beside(step, x, axis)
    shape, y = step.y.shape, step.y.data
    step.want(sum([x.shape[axis] for x in step.x]) == shape[axis], "the inputs do not make the output")
    outer, inner = volume(shape[:axis]), volume(shape[axis + 1 :])
    parts = [(x.data, x.shape[axis] * inner) for x in step.x]

    def run():
        at = 0
        for i in range(outer):
            for x, n in parts:
                y[at : at + n] = x[i * n : i * n + n]
                at += n

    return run


def _source(i, n, mode):
    """Return which of n elements is shown at place i, which may lie before or behind them; -1 for a constant."""
    if 0 <= i < n:
        return i
    if mode == 0:
        return -1
    if mode == 1:
        return 0 if i < 0 else n - 1
    if mode == 2:
        return -i if i < 0 else 2 * (n - 1) - i
    return i % n


def pad_s8(step):
    """x with begin_i elements before it along dimension i; the elements after it fill the rest of y."""
    a, b = step.x[0].shape, step.y.shape
    step.want(len(a) == len(b), "input and output differ in rank")
    mode, value = step.within("mode", 0, 3), step.within("value", -128, 127)
    step.same_scale()
    before = [step.params[f"begin_{i}"] for i in range(len(b))]
    for n, wide, left in zip(a, b, before):
        right = wide - left - n
        step.want(left >= 0 and right >= 0, "the input does not fit into the output")
        step.want(mode < 2 or max(left, right) <= n - (mode == 2), "more padding than there is to repeat")
    x, y = step.x[0].data, step.y.data
    along = strides(a)
    axes = range(len(b) - 1, -1, -1)

    def run():
        for at in range(len(y)):
            rest, i = at, 0
            for d in axes:
                rest, place = divmod(rest, b[d])
                s = _source(place - before[d], a[d], mode)
                if s < 0:
                    i = -1
                    break
                i += s * along[d]
            y[at] = value if i < 0 else x[i]

    return run


def gather_s8(step):
    """y[..., j, ...] = x[..., indices[j], ...]."""
    axis = step.params["axis"]
    _beside(step, step.x[0], axis)
    outer, n, inner = split(step, axis, 1)
    indices = step.constant("indices", step.y.shape[axis])
    for i in range(len(indices)):
        step.want(0 <= indices[i] < n, "an index lies outside the axis")
    x, y = step.x[0].data, step.y.data

    def run():
        at = 0
        for first in range(0, outer * n, n):
            for j in range(len(indices)):
                i = (first + indices[j]) * inner
                y[at : at + inner] = x[i : i + inner]
                at += inner

    return run


def embedding_s8(step):
    """y[..., :] = table[x[...]]; indices below 0 count from the end, and are limited to the rows there are."""
    b = step.y.shape
    step.want(len(b) >= 1 and b[:-1] == step.x[0].shape, "the indices do not make the output")
    rows = step.within("rows", 1, 0x7FFFFFFF)
    width = b[-1]
    table = step.constant("table", rows * width)
    x, y = step.x[0].data, step.y.data

    def run():
        for k in range(len(x)):
            i = x[k]
            i = min(max(i + rows if i < 0 else i, 0), rows - 1) * width
            y[k * width : k * width + width] = table[i : i + width]

    return run


def scatter_s8(step):
    """x, with other rows from an index on; where y lies on x, they alone are written."""
    step.same_shape()
    axis, circular = step.params["axis"], step.within("circular", 0, 1)
    x, rows, index = step.x
    step.same_scale()
    _beside(step, rows, axis)
    outer, n, inner = split(step, axis, 1)
    r = rows.shape[axis]
    count = len(index.data)
    step.want(r < n, "as many rows as there are places for")
    step.want(
        count == 1 or (axis > 0 and count == x.shape[0]), "the number of indices is not that of the first dimension"
    )
    each = outer // count
    x, rows, index, y = x.data, rows.data, index.data, step.y.data

    def run():
        y[:] = x
        for row in range(outer):
            i = index[row // each]
            i = i % n if circular else min(max(i, 0), n - r)
            for j in range(r):
                at, of = (row * n + (i + j) % n) * inner, (row * r + j) * inner
                y[at : at + inner] = rows[of : of + inner]

    return run


def pick_s8(step):
    """y[..., j, ...] = x[..., places[..., j, ...], ...]."""
    axis = step.params["axis"]
    x, places = step.x
    _beside(step, x, axis)
    outer, n, inner = split(step, axis, 1)
    row = places.shape != step.y.shape
    alone = tuple(step.y.shape[: axis + 1]) + (1,) * (len(step.y.shape) - axis - 1)
    step.want(not row or tuple(places.shape) == alone, "the places have another shape than the output")
    k = step.y.shape[axis]
    x, places, y = x.data, places.data, step.y.data

    def run():
        for at in range(outer * k * inner):
            i = places[at // inner if row else at]
            i = min(max(i + n if i < 0 else i, 0), n - 1)
            y[at] = x[(at // (k * inner) * n + i) * inner + at % inner]

    return run
