"""From a detector's output to boxes: after m.run() or m.predict(...), `for box in mica.boxes.yolo8(m): print(box.label,
box.score)`.

Decoded in integers from the quantised output, so the host package (mica.run.boxes) finds the same boxes.
Places are in pixels of the picture that the network takes, or in whatever the output has.
Scores count in units of 2**-15, overlaps in 1/1024, and places in a power of two: a step of the output is 8 to 16 of
it.
"""

from collections import namedtuple

# label: a name where the file has as many as there are classes, else a number. x, y: the left upper corner.
Box: tuple[str | int, float, float, float, float, float] = namedtuple(
    "Box", ("label", "score", "x", "y", "width", "height")
)


def _columns(m, i, first):
    """The numbers of a candidate, one after the other: (data, where candidate 0 has it, step, scale, zero point);
    and how many candidates."""
    j = m._groups[i] if m._groups else None
    ids = m._m.outputs[j.first : j.first + j.parts] if j else (m._m.outputs[i],)
    columns, n = [], None
    for k, t in enumerate(ids):
        t = m._m.tensor(t)
        shape = t.shape
        if t.dtype != "b" or len(shape) != 3 or shape[0] != 1:
            raise ValueError(
                f"output {t.name} is {t.dtype!r} {shape}; int8 (1, numbers, boxes) or (1, boxes, numbers) is expected"
            )
        values, boxes = shape[1:] if first else (shape[2], shape[1])
        if n is not None and boxes != n:
            raise ValueError(f"output {t.name} is a part with other boxes")
        n = boxes
        data = m.output((j.first if j else i) + k)
        for v in range(values):
            columns.append((data, v * n if first else v, 1 if first else values, t.scale, t.zero_point))
    return columns, n


def _score(q, scale, zero):
    return ((q - zero) * int(scale * 16777216)) >> 9


def _least(columns, threshold):
    """The smallest int8 whose score is the threshold or more, 128 where there is none;
    for columns of the same scale once."""
    found, known = [], {}
    for _, _, _, scale, zero in columns:
        if (scale, zero) not in known:
            q = -128
            while q < 128 and _score(q, scale, zero) < threshold:
                q += 1
            known[scale, zero] = q
        found.append(known[scale, zero])
    return found


def _unit(columns):
    """A power of two: 1/8 to 1/16 of the largest scale."""
    scale = max([column[3] for column in columns[:4]])
    unit = 0.0625
    while scale < unit * 8:
        unit /= 2
    while scale >= unit * 16:
        unit *= 2
    return unit


def _candidate(columns, k, score, c, unit):
    """(-score, box, class, left, top, right, bottom, twice each) from middle and size."""
    x, y, w, h = [
        ((data[at + k * step] - zero) * int(scale / unit * 65536) + 32768) >> 16
        for data, at, step, scale, zero in columns[:4]
    ]
    return -score, k, c, 2 * x - w, 2 * y - h, 2 * x + w, 2 * y + h


def _overlap(a, b, limit):
    """Return True if a and b share more than limit / 1024 of the area that they cover together."""
    w = min(a[5], b[5]) - max(a[3], b[3])
    h = min(a[6], b[6]) - max(a[4], b[4])
    if w <= 0 or h <= 0:
        return False
    common = w * h
    both = (a[5] - a[3]) * (a[6] - a[4]) + (b[5] - b[3]) * (b[6] - b[4]) - common
    return common * 1024 > limit * both


def suppress(
    candidates: list[tuple[int, int, int, int, int, int, int]], limit: int, most: int
) -> list[tuple[int, int, int, int, int, int, int]]:
    """Non-maximum suppression: of boxes of a class that overlap by more than limit / 1024 the best is kept.
    Returns `most` at most."""
    kept = []
    for a in sorted(candidates):
        if len(kept) == most:
            break
        for b in kept:
            if a[2] == b[2] and _overlap(a, b, limit):
                break
        else:
            kept.append(a)
    return kept


def _named(m, kept, classes, unit):
    unit /= 2
    labels = m.labels
    names = labels if len(labels) == classes else range(classes)
    return [
        Box(names[c], -s / 32768, left * unit, top * unit, (right - left) * unit, (bottom - top) * unit)
        for s, _, c, left, top, right, bottom in kept
    ]


def _limits(threshold, overlap):
    if not 0 < threshold <= 1 or not 0 <= overlap <= 1:
        raise ValueError("threshold is more than 0 and 1 at most, overlap 0 to 1")
    return int(threshold * 32768), int(overlap * 1024)


def yolo8(m: Model, threshold: float = 0.25, overlap: float = 0.45, most: int = 100, i: int = 0) -> list[Box]:
    """Boxes of an output (1, 4 + classes, boxes): middle, size and a score for each class,
    as Ultralytics exports YOLOv8 and YOLO11.

    i: which output of predict(). overlap: of boxes of the same class, above which the weaker one goes.
    most: boxes at most, the best first.
    """
    score, limit = _limits(threshold, overlap)
    columns, n = _columns(m, i, True)
    if len(columns) < 5:
        raise ValueError(f"a box has {len(columns)} numbers; 4 and a score for each class are expected")
    found, unit = [], _unit(columns)
    for c, (column, least) in enumerate(zip(columns[4:], _least(columns[4:], score))):
        data, at, _, scale, zero = column
        for k in range(n):
            if data[at + k] >= least:
                found.append(_candidate(columns, k, _score(data[at + k], scale, zero), c, unit))
    return _named(m, suppress(found, limit, most), len(columns) - 4, unit)


def yolo5(m: Model, threshold: float = 0.25, overlap: float = 0.45, most: int = 100, i: int = 0) -> list[Box]:
    """Boxes of an output (1, boxes, 5 + classes): middle, size, how sure of an object, and a score for each class,
    as YOLOv5 has it.

    A box's score is the product of both. Otherwise as yolo8().
    """
    score, limit = _limits(threshold, overlap)
    columns, n = _columns(m, i, False)
    if len(columns) < 6:
        raise ValueError(f"a box has {len(columns)} numbers; 5 and a score for each class are expected")
    data, at, step, scale, zero = columns[4]
    least = _least(columns[4:5], score)[0]
    found, unit = [], _unit(columns)
    for k in range(n):
        q = data[at + k * step]
        if q < least:
            continue
        sure = _score(q, scale, zero)
        for c, (one, start, by, s, z) in enumerate(columns[5:]):
            total = sure * _score(one[start + k * by], s, z) >> 15
            if total >= score:
                found.append(_candidate(columns, k, total, c, unit))
    return _named(m, suppress(found, limit, most), len(columns) - 5, unit)


def fomo(m: Model, threshold: float = 0.5, cell: int = 8, most: int = 100, i: int = 0) -> list[Box]:
    """Objects on a grid (1, rows, columns, 1 + classes), of which class 0 is nothing, as Edge Impulse's FOMO has it.

    Cells of a class that touch, corners included, are one object: its box is around them, its score their best.
    cell: pixels of a cell.
    Labels are those of the classes without the first; or all of them, the first being that of nothing.
    """
    score, _ = _limits(threshold, 0)
    if m._groups:
        raise ValueError("a grid in parts is not expected")
    t = m._m.tensor(m._m.outputs[i])
    if t.dtype != "b" or len(t.shape) != 4 or t.shape[0] != 1 or t.shape[3] < 2:
        raise ValueError(f"output {t.name} is {t.dtype!r} {t.shape}; int8 (1, rows, columns, 1 + classes) is expected")
    _, rows, columns, values = t.shape
    data = m.output(i)
    (least,) = _least(((None, 0, 0, t.scale, t.zero_point),), score)
    found = []
    for c in range(1, values):
        left = {k for k in range(rows * columns) if data[k * values + c] >= least}
        for start in range(rows * columns):
            if start not in left:
                continue
            left.discard(start)
            todo, best = [start], -128
            x0, y0, x1, y1 = columns, rows, 0, 0
            while todo:
                k = todo.pop()
                y, x = k // columns, k % columns
                best = max(best, data[k * values + c])
                x0, y0, x1, y1 = min(x0, x), min(y0, y), max(x1, x + 1), max(y1, y + 1)
                for v in range(max(y - 1, 0), min(y + 2, rows)):
                    for u in range(max(x - 1, 0), min(x + 2, columns)):
                        if v * columns + u in left:
                            left.discard(v * columns + u)
                            todo.append(v * columns + u)
            sides = (cell * x0, cell * y0, cell * x1, cell * y1)
            found.append((-_score(best, t.scale, t.zero_point), start, c) + sides)
    found = sorted(found)[:most]
    labels = m.labels
    if len(labels) != values:
        labels = [""] + (labels if len(labels) == values - 1 else list(range(1, values)))
    return [
        Box(labels[c], -s / 32768, float(left), float(top), float(right - left), float(bottom - top))
        for s, _, c, left, top, right, bottom in found
    ]
