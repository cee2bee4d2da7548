"""Attention over the rows of a cache that are filled; rotations by place."""

from mica.fallback.common import volume


def attend_s8(step):
    """Scores, weights that fall with their distance to the largest, their mean of the values."""
    q, k, v, length = step.x
    a, b, c, d = q.shape, k.shape, v.shape, step.y.shape
    step.want(2 <= len(a) == len(b) == len(c) == len(d), "the inputs differ in rank")
    step.want(a[:-2] == b[:-2] == c[:-2] == d[:-2], "the inputs differ before the last two dimensions")
    m, width, rows, wide = a[-2], a[-1], b[-2], c[-1]
    step.want(
        b[-1] == width and c[-2] == rows and d[-2:] == (m, wide), "queries, keys and values do not make the output"
    )
    more = step.within("more", 0, 1)
    step.want(width <= 32768 and len(length.data) == 1, "the queries are too wide, or there is no single length")
    step.within("rows", rows, rows)
    step.within("width", width, width)
    q_zero, y_zero = q.zero_point, step.y.zero_point
    k_zero, v_zero = (
        step.within("k_zero", k.zero_point, k.zero_point),
        step.within("v_zero", v.zero_point, v.zero_point),
    )
    limit, fall = step.within("limit", 1, 0x7FFFFFFF), step.within("fall", 0, 0x7FFFFFFF)
    down, times, shift = (
        step.within("fall_shift", 0, 31),
        step.within("mult", 0, 0x7FFFFFFF),
        step.within("shift", -6, 8),
    )
    step.want(limit * fall < 1 << 32 and limit * fall >> down <= 65535, "the largest difference leaves the table")
    low, high = step.clamp()
    table = step.constant("table", 257)
    step.want(table[0] >= 256 and 255 * table[0] * rows < 1 << 31, "the sums can overflow")
    for i in range(256):
        step.want(table[i + 1] <= table[i], "the table rises")
    heads = volume(a[:-2])
    q, k, v, length, y = q.data, k.data, v.data, length.data, step.y.data

    def weight(apart):
        u = min(apart, limit) * fall >> down
        i = u >> 8
        return table[i] - ((table[i] - table[i + 1]) * (u & 255) >> 8)

    def run():
        n = min(max(length[0] + more, 1), rows)
        for row in range(heads * m):
            first = row // m * rows
            s = [
                sum([(q[row * width + i] - q_zero) * (k[(first + t) * width + i] - k_zero) for i in range(width)])
                for t in range(n)
            ]
            most = max(s)
            s = [weight(most - one) for one in s]
            total = sum(s)
            z = 0
            while not total << z >> 31:
                z += 1
            mult, e = min((1 << 62) // (total << z), 0x7FFFFFFF) * times >> 31, 31 - z + shift
            for i in range(wide):
                acc = sum([s[t] * (v[(first + t) * wide + i] - v_zero) for t in range(n)])
                at = y_zero + ((acc * mult + (1 << (30 + e))) >> (31 + e))
                y[row * wide + i] = low if at < low else high if at > high else at

    return run


def rotate_s8(step):
    """Rows of two halves, turned by angles of which cosines and sines are given."""
    x, c, s = step.x
    step.want(x.shape == step.y.shape, "the output has another shape")
    step.want(len(x.shape) >= 1 and len(c.shape) >= 1 and c.shape == s.shape, "cosines and sines differ")
    half = c.shape[-1]
    step.want(x.shape[-1] == 2 * half, "the rows are not twice as long as the cosines")
    inner = step.within("inner", 1, 0x7FFFFFFF)
    rows, turns = volume(x.shape[:-1]), volume(c.shape[:-1])
    step.want(rows % (turns * inner) == 0, "the rotations do not divide the rows")
    c_zero = step.within("c_zero", c.zero_point, c.zero_point)
    s_zero = step.within("s_zero", s.zero_point, s.zero_point)
    mult_c, mult_s = step.within("mult_c", 0, 0x7FFFFFFF), step.within("mult_s", 0, 0x7FFFFFFF)
    shift = step.within("shift", 1, 30)
    offset = 1 << (shift - 1)
    step.want(65025 * (mult_c + mult_s) + offset < 1 << 31, "the sums can overflow")
    low, high = step.clamp()
    x_zero, y_zero = x.zero_point, step.y.zero_point
    x, c, s, y = x.data, c.data, s.data, step.y.data

    def put(i, v):
        v = y_zero + ((v + offset) >> shift)
        y[i] = low if v < low else high if v > high else v

    def run():
        for row in range(rows):
            angle, at = row // inner % turns * half, row * 2 * half
            for i in range(half):
                cosine, sine = (c[angle + i] - c_zero) * mult_c, (s[angle + i] - s_zero) * mult_s
                a, b = x[at + i] - x_zero, x[at + half + i] - x_zero
                put(at + i, a * cosine - b * sine)
                put(at + half + i, a * sine + b * cosine)

    return run
