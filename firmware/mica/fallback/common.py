"""Helpers of all kernels: products of dimensions, walks through strided tensors, requantisation, roots, logarithms."""


def volume(dims):
    """Return the product of the dimensions."""
    n = 1
    for d in dims:
        n *= d
    return n


def strides(dims):
    """Return how many elements lie between neighbours along each dimension."""
    out = [1] * len(dims)
    for i in range(len(dims) - 1, 0, -1):
        out[i - 1] = out[i] * dims[i]
    return out


def offsets(dims, steps, at=0):
    """Yield at + sum(i[j] * steps[j]) for every index i of an array of the shape `dims`, in order."""
    rank = len(dims)
    if rank == 0:
        yield at
        return
    inner, step = dims[-1], steps[-1]
    index = [0] * rank
    while True:
        here = at
        for _ in range(inner):
            yield here
            here += step
        j = rank - 2
        while j >= 0:
            index[j] += 1
            at += steps[j]
            if index[j] < dims[j]:
                break
            at -= steps[j] * dims[j]
            index[j] = 0
            j -= 1
        if j < 0:
            return


def broadcast(step, a, b, y):
    """Return the strides of shapes a and b as seen along y, to which they broadcast as in numpy."""
    rank = len(y)
    step.want(rank == max(len(a), len(b)), "the inputs do not broadcast to the output")
    out = []
    for dims, other in ((a, b), (b, a)):
        own = strides(dims)
        along = [0] * rank
        for i in range(1, len(dims) + 1):
            n = dims[-i]
            m = other[-i] if i <= len(other) else 1
            step.want(n == y[-i] or (n == 1 and m == y[-i]), "the inputs do not broadcast to the output")
            if n > 1:
                along[-i] = own[-i]
        out.append(along)
    return out


def split(step, axis, axes):
    """Return the products of the input's dimensions before `axis`, of `axes` from there, and behind them."""
    dims = step.x[0].shape
    step.want(axis >= 0 and axes >= 0 and axis + axes <= len(dims), "the axis is not one of the input")
    return volume(dims[:axis]), volume(dims[axis : axis + axes]), volume(dims[axis + axes :])


def image(step):
    """Return H, W, C of the input and of the output, both [1, H, W, C]."""
    x, y = step.x[0].shape, step.y.shape
    step.want(len(x) == 4 and len(y) == 4 and x[0] == 1 and y[0] == 1, "input and output want the shape [1, H, W, C]")
    return x[1:], y[1:]


def window(step, oh, ow):
    """Return kernel, stride, dilation, pad of the height, then of the width."""
    out = []
    for axis, n, pad in (("h", oh, "pad_top"), ("w", ow, "pad_left")):
        k, s, d = (step.within(name + axis, 1, 65535) for name in ("kernel_", "stride_", "dilation_"))
        step.want((n - 1) * s + (k - 1) * d <= 1 << 30, "the windows reach too far")
        out.extend((k, s, d, step.within(pad, 0, 65535)))
    return out


def factors(step, mult, shift):
    """Check factors of requantisation: all of them, so that none fails later."""
    for i in range(len(mult)):
        step.want(mult[i] >= 0 and -30 <= shift[i] <= 31, "a factor is out of its range")


def channels(step, n):
    """Return finish(acc, o): the int8 that the sum of output channel o of n becomes."""
    mult, shift = step.constant("mult", n), step.constant("shift", n)
    factors(step, mult, shift)
    low, high = step.clamp()
    zero = step.y.zero_point

    def finish(acc, o):
        s = shift[o] + 31
        v = zero + ((acc * mult[o] + (1 << (s - 1))) >> s)
        return low if v < low else high if v > high else v

    return finish


def one_factor(step):
    """Return finish(acc) for a step with one mult and one shift."""
    mult = step.within("mult", 0, 0x7FFFFFFF)
    s = step.within("shift", -30, 31) + 31
    half = 1 << (s - 1)
    low, high = step.clamp()
    zero = step.y.zero_point

    def finish(acc):
        v = zero + ((acc * mult + half) >> s)
        return low if v < low else high if v > high else v

    return finish


def root(v):
    """Return sqrt(v) to the nearest integer, at most 65535; v in [0, 2**32)."""
    if v == 0:
        return 0
    r = 65536
    while True:  # Newton from above: falls until it is floor(sqrt(v))
        n = (r + v // r) >> 1
        if n >= r:
            break
        r = n
    return min(r + (v - r * r > r), 65535)


def log2(v):
    """Return floor(2**16 * log2(v)) by 16 squarings of a mantissa that are cut to 32 bits; v in [1, 2**32)."""
    log = 0
    while v >> (log + 1):
        log += 1
    m = v << (31 - log)
    for _ in range(16):
        m *= m
        two = m >> 63
        m >>= 31 + two
        log = log << 1 | two
    return log
