"""_mica.see() in MicroPython, for firmware without it: the same bytes, some thousand times slower."""

_PER_PIXEL = (1, 2, 2, 3, 3, 2, 2)


def _pixel(data, at, format, x, colour):
    """Return the colours of the pixel at byte `at`, whose column is x, as far as they are asked for."""
    if format == 0:
        return (data[at],)
    if format < 3:
        v = data[at] | data[at + 1] << 8 if format == 1 else data[at] << 8 | data[at + 1]
        return v >> 11, v >> 5 & 63, v & 31
    if format < 5:
        return (data[at], data[at + 1], data[at + 2]) if format == 3 else (data[at + 2], data[at + 1], data[at])
    y = data[at + format - 5]
    if not colour:
        return (y,)
    at += 6 - format - 2 * (x & 1)
    return y, data[at], data[at + 2]


def _stored(s, format, colour):
    """Return grey, or red, green and blue, of 0 to 255, from sums with 5 bits of fraction."""
    if len(s) == 1:
        return ((s[0] + 16) >> 5,)
    a, b, c = s
    if format < 3:
        if colour:
            return (16847 * a + 32768) >> 16, (8290 * b + 32768) >> 16, (16847 * c + 32768) >> 16
        return ((5067 * a + 4857 * b + 1908 * c + 32768) >> 16,)
    if format < 5:
        if colour:
            return (a + 16) >> 5, (b + 16) >> 5, (c + 16) >> 5
        return ((77 * a + 150 * b + 29 * c + 4096) >> 13,)
    y, u, v = 256 * a + 4096, b - 4096, c - 4096
    return [max(0, min(k >> 13, 255)) for k in (y + 359 * v, y - 88 * u - 183 * v, y + 454 * u)]


def _place(i, of, n):
    """Return where pixel i of n lies between `of`: the one before, the one behind it, and 32nds of the way."""
    step = (of << 16) // n
    at = max(0, min(i * step + (step >> 1) - 32768, (of - 1) << 16))
    return at >> 16, min((at >> 16) + 1, of - 1), at >> 11 & 31


def rows(numbers, frame, table, begin, end, out):
    """Write rows of the picture, as _mica.see() does."""
    width, height, x0, y0, w, h, out_w, out_h, format, flags = numbers
    data = memoryview(frame)
    if isinstance(frame, str) or len(bytes(data[:1])) > 1:
        data = bytes(frame)  # of words
    size = _PER_PIXEL[format]
    if len(data) != width * height * size:
        raise ValueError(
            f"see: the frame has {len(data)} bytes; {width} x {height} pixels of its format have "
            f"{width * height * size}"
        )
    colour, planes = flags & 1, flags & 4
    channels = 3 if colour else 1
    if len(out) != (end - begin) * out_w * channels or not 0 <= begin <= end <= out_h:
        raise ValueError("see: rows, a table or an output of another size")
    n = out_w * out_h
    for y in range(begin, end):
        for x in range(out_w):
            if flags & 8:
                left, top = x * w // out_w, y * h // out_h
                columns = range(x0 + left, x0 + max((x + 1) * w // out_w, left + 1))
                lines = range(y0 + top, y0 + max((y + 1) * h // out_h, top + 1))
                parts = [(u, v, 1) for v in lines for u in columns]
                by, down = (1 << 24) // len(parts), 19
            else:
                u0, u1, wx = _place(x, w, out_w)
                v0, v1, wy = _place(y, h, out_h)
                both = wx * wy >> 5
                parts = (
                    (x0 + u0, y0 + v0, 32 - wx - wy + both),
                    (x0 + u1, y0 + v0, wx - both),
                    (x0 + u0, y0 + v1, wy - both),
                    (x0 + u1, y0 + v1, both),
                )
                by, down = 1, 0
            sums = None
            for u, v, weight in parts:
                c = [k * weight for k in _pixel(data, (v * width + u) * size, format, u, colour)]
                sums = c if sums is None else [a + b for a, b in zip(sums, c)]
            made = _stored([s * by >> down for s in sums], format, colour)
            at = y * out_w + x if planes else ((y - begin) * out_w + x) * channels
            for k in range(channels):
                value = table[256 * k + made[channels - 1 - k if flags & 2 else k]]
                out[at + k * (n if planes else 1)] = value
