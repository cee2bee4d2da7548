"""Rows of features in units of their own, and ensembles of decision trees."""

from struct import unpack_from

from mica.fallback.common import one_factor

_NAN = 0x7F800000
_MOST = 1 << 40


def rows(step):
    """Return how long the rows of the input and of the output are."""
    a, b = step.x[0].shape, step.y.shape
    step.want(
        len(a) >= 1 and len(a) == len(b) and a[:-1] == b[:-1], "input and output differ before the last dimension"
    )
    return a[-1], b[-1]


def place(x, i, scale, exponent, offset):
    """Return where float32 i of x lies on a grid of integers, None for a NaN.
    Read as bits: floats here may be shorter."""
    bits = unpack_from("<i", x, 4 * i)[0]
    if bits & 0x7FFFFFFF > _NAN:
        return None
    power = bits >> 23 & 255
    v = (bits & 0x7FFFFF | (0x800000 if power else 0)) * scale
    if bits < 0:
        v = -v
    shift = (power or 1) - 150 + exponent
    if shift >= 0:
        v <<= shift
    else:
        v = (v + (1 << (-shift - 1))) >> -shift
    return (min(max(v, -_MOST), _MOST) + offset + 128) >> 8


def features_s8(step):
    """Each feature times its factor."""
    step.same_shape()
    n = rows(step)[1]
    scale, offset = step.constant("scale", n), step.constant("offset", n)
    exponent, missing = step.constant("exponent", n), step.constant("missing", n)
    for v in scale:
        step.want(v > -0x80000000, "a scale is -2**31")
    low, high = step.clamp()
    x, y = step.x[0].data, step.y.data

    def run():
        for i in range(len(y)):
            f = i % n
            v = place(x, i, scale[f], exponent[f], offset[f])
            v = missing[f] if v is None else v
            y[i] = low if v < low else high if v > high else v

    return run


def ranks_s8(step):
    """Rank of each feature: the number of its thresholds that it exceeds."""
    n, columns = rows(step)
    thresholds = step.constant("thresholds", step.within("count", 0, 0x1FFFFFFF))
    first, source = step.constant("first", columns + 1), step.constant("source", columns)
    missing = step.constant("missing", columns)
    step.want(first[0] == 0 and first[columns] == len(thresholds), "the columns' thresholds are not all that there are")
    for c in range(columns):
        step.want(source[c] < n, "a source is none of the features")
        step.want(0 <= first[c + 1] - first[c] <= 255, "a column of more than 255 thresholds")
    x, y = step.x[0].data, step.y.data

    def run():
        for i in range(len(y)):
            c = i % columns
            bits = unpack_from("<i", x, 4 * (i // columns * n + source[c]))[0]
            key = bits & 0x7FFFFFFF
            if key > _NAN:
                y[i] = missing[c]
                continue
            if bits < 0:
                key = -key
            low = first[c]
            left = first[c + 1] - low
            while left:
                half = left >> 1
                if thresholds[low + half] < key:
                    low += half + 1
                    left -= half + 1
                else:
                    left = half
            y[i] = low - first[c] - 128

    return run


def trees_s8(step):
    """The sum of the leaves that a row reaches. Words with bit 15 are not the first of a record, see SPEC.md."""
    n, results = rows(step)
    step.want(n <= 8192 and results <= 8192, "a row is too long")
    nodes = step.constant("nodes", step.within("words", 1, 0x3FFFFFFF))
    roots = step.constant("roots", step.within("trees", 1, 65535))
    bias = step.constant("bias", results)
    finish = one_factor(step)
    _check_trees(step, nodes, n, results)
    for root in roots:
        step.want(_begins(nodes, root), "a tree does not begin with a record")
    for v in bias:
        step.want(abs(v) + 0x4000 * len(roots) < 1 << 31, "the sum of the trees can overflow")
    x, y = step.x[0].data, step.y.data

    def run():
        at = 0
        for row in range(0, len(x), n):
            total = list(bias)
            for i in roots:
                while not nodes[i] & 0x4000:
                    threshold = (nodes[i + 1] & 255 ^ 128) - 128
                    i += 3 if x[row + nodes[i]] <= threshold else 3 + (nodes[i + 2] & 0x7FFF)
                more = 0x2000
                while more:
                    head = nodes[i]
                    more = head & 0x2000
                    total[head & 0x1FFF] += (nodes[i + 1] & 0x7FFF ^ 0x4000) - 0x4000
                    i += 2
            for v in total:
                y[at] = finish(v)
                at += 1

    return run


def forest_s8(step):
    """The sum of the leaves that a row reaches; nodes are words of 32 bits, see SPEC.md."""
    n, results = rows(step)
    step.want(n <= 255 and results <= 8192, "a row is too long")
    nodes = step.constant("nodes", step.within("words", 4, 0x1FFFFFFF))
    roots = step.constant("roots", step.within("trees", 1, 65535))
    leaves = step.constant("leaves", step.within("units", 1, 0x8000))
    bias = step.constant("bias", results)
    finish = one_factor(step)
    _check_forest(step, nodes, leaves, n, results)
    for root in roots:
        step.want(root < len(nodes) - 3, "a tree does not begin with a node")
    for v in bias:
        step.want(abs(v) + (len(roots) << 15) < 1 << 31, "the sum of the trees can overflow")
    x, y = step.x[0].data, step.y.data

    def run():
        at = 0
        for row in range(0, len(x), n):
            total = list(bias)
            for i in roots:
                word = nodes[i]
                while not word & 0x800000:
                    i += 1 if x[row + (word & 255)] <= word >> 24 else 1 + (word >> 8 & 0x7FFF)
                    word = nodes[i]
                i = word >> 8 & 0x7FFF
                more = 0x8000
                while more:
                    word = leaves[i]
                    more = word & 0x8000
                    total[word & 0x7FFF] += word >> 16
                    i += 1
            for v in total:
                y[at] = finish(v)
                at += 1

    return run


def _check_forest(step, nodes, leaves, n, results):
    """Check that each node leads forward to others, and each leaf to its entries."""
    whole = len(nodes) - 3
    for i, word in enumerate(nodes):
        field = word >> 8 & 0x7FFF
        if word & 0x800000:
            sound = field < len(leaves) and word & ~0x7FFF00 == -0x7F7FFF01
            step.want(sound, "a leaf of the trees has no entries, or another mark")
        else:
            step.want(word & 255 < n, "a tree asks for a column that the input does not have")
            step.want(i + 1 + field < whole, "a child of a tree is not a node behind it")
    for i, word in enumerate(leaves):
        target = word & 0x7FFF
        step.want(target < results, "a leaf adds to a number that the output does not have")
        if word & 0x8000:
            rises = i + 1 < len(leaves) and leaves[i + 1] & 0x7FFF > target
            step.want(rises, "the entries of a leaf do not ascend")


def _begins(nodes, at):
    return at < len(nodes) and nodes[at] < 0x8000


def _check_trees(step, nodes, n, results):
    """Check that records lie one behind the other, and that each leads forward to others."""
    words = len(nodes)
    step.want(nodes[0] < 0x8000, "a record of the trees is cut short")
    at = 0
    while at < words:
        head = nodes[at]
        if head & 0x4000:
            target = head & 0x1FFF
            whole = at + 1 < words and nodes[at + 1] >= 0x8000 and (at + 2 == words or nodes[at + 2] < 0x8000)
            step.want(whole, "a record of the trees is cut short")
            step.want(target < results, "a leaf adds to a number that the output does not have")
            if head & 0x2000:
                rises = at + 2 < words and nodes[at + 2] & 0x4000 and nodes[at + 2] & 0x1FFF > target
                step.want(rises, "the entries of a leaf do not ascend")
            at += 2
        else:
            whole = _begins(nodes, at + 3) and nodes[at + 1] >= 0x8000 and nodes[at + 2] >= 0x8000
            step.want(whole, "a record of the trees is cut short")
            step.want(head < n, "a tree asks for a column that the input does not have")
            at += 3
            step.want(_begins(nodes, at + (nodes[at - 1] & 0x7FFF)), "a child of a tree is not a record behind it")
