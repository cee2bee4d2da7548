"""A recurrent layer over a whole sequence: states are 16 bits inside, gates come from tables."""

from mica.fallback.common import factors

_SIMPLE, _LSTM, _GRU, _GRU_AFTER = range(4)
_CARRIED = 2  # result: states come and go as they are inside, two bytes each


def _look_up(table, v):
    """A function that is linear between the 257 entries of its table; the argument is limited to 16 bits."""
    u = (-32768 if v < -32768 else 32767 if v > 32767 else v) + 32768
    k = u >> 8
    a = table[k]
    return a + (((table[k + 1] - a) * (u & 255) + 128) >> 8)


def _state(v):
    return -32767 if v < -32767 else 32767 if v > 32767 else v


class _Gates:
    """The weights of some gates of all units, one row each, and the tables of their functions."""

    def __init__(self, step, n, wide, units, peepholes, tables):
        self.n, self.wide, self.units, self.peepholes = n, wide, units, peepholes
        self.row = wide + units
        self.matrix = step.constant("matrix", n * self.row)
        self.terms = step.constant("terms", 4 * n + 3 * units * peepholes)
        self.shifts = step.constant("shifts", n)
        self.tables = tables  # of the gate, of the candidate
        for i in range(n):
            sound = 0 <= self.terms[2 * n + i] < 1 << 30 and 0 <= self.terms[3 * n + i] < 1 << 30
            step.want(sound and 1 <= self.shifts[i] <= 60, "a factor or shift is out of its range")

    def part(self, k, values, o):
        """Return the product of x (k = 0) or the hidden state (k = 1) with row o of its weights, times its factor."""
        acc = self.terms[k * self.n + o]
        r = o * self.row + (self.wide if k else 0)
        for v in values:
            acc += v * self.matrix[r]
            r += 1
        return acc * self.terms[(2 + k) * self.n + o]

    def both(self, o, a, h):
        return self.part(0, a, o) + self.part(1, h, o)

    def value(self, which, o, v):
        """Return the gate (which = 0) or the candidate (which = 1) of a sum."""
        return _look_up(self.tables[which], (v + (1 << (self.shifts[o] - 1))) >> self.shifts[o])

    def peep(self, which, u, c):
        return self.terms[4 * self.n + which * self.units + u] * c if self.peepholes else 0


# Each returns a function of x, the hidden state h and the cell state c of one sequence.
# It returns the new hidden state; c changes in place.


def _simple(g):
    return lambda a, h, c: [g.value(1, u, g.both(u, a, h)) for u in range(g.units)]


def _lstm(g, coupled, cell_shift, output_shift, table):
    units, k = g.units, 14 - output_shift

    def once(a, h, c):
        new = []
        for u in range(units):
            old = c[u]
            opened = g.value(0, u, g.both(u, a, h) + g.peep(0, u, old))
            candidate = g.value(1, 3 * units + u, g.both(3 * units + u, a, h))
            if coupled:
                now = old + ((opened * (candidate - old) + 8192) >> 14)
            else:
                o = 2 * units + u
                now = (g.value(0, o, g.both(o, a, h) + g.peep(2, u, old)) * old + opened * candidate + 8192) >> 14
            c[u] = now = _state(now)
            shown = g.value(0, units + u, g.both(units + u, a, h) + g.peep(1, u, now))
            new.append(_state((shown * _look_up(table, now << cell_shift) + (1 << (k - 1))) >> k))
        return new

    return once


def _gru(g, before):
    """before: the recurrent product of the candidate sees all units, reset."""
    units = g.units

    def once(a, h, c):
        resets = [g.value(0, units + u, g.both(units + u, a, h)) for u in range(units)]
        kept = [_state((resets[u] * h[u] + 8192) >> 14) for u in range(units)] if before else None
        new = []
        for u in range(units):
            update = g.value(0, u, g.both(u, a, h))
            o = 2 * units + u
            again = g.part(1, kept, o) if before else (g.part(1, h, o) >> 14) * resets[u]
            candidate = g.value(1, o, g.part(0, a, o) + again)
            new.append(_state(candidate + ((update * (h[u] - candidate) + 8192) >> 14)))
        return new

    return once


def _check(step, cell, result, more):
    """Check the shapes of inputs and output, and the zero points; return the zero point of the hidden states."""
    x, y = step.x, step.y
    step.want(len(x[0].shape) == 3 and len(y.shape) == 3, "input and output want three dimensions")
    time, batch, _ = x[0].shape
    rows, batches, units = y.shape
    carried = result == _CARRIED
    rows -= _ahead(cell, result)
    step.want(batches == batch and rows in (1, time), "the input does not make the output")
    more = more or len(x) > 2 or result == 1
    step.want(cell == _LSTM or not more, "only an LSTM has a cell state, peepholes and coupled gates")
    step.want(result != 1 or rows == 1, "the cell state makes one row")
    for t in x[1:]:
        step.want(t.shape == (1, batch, units << carried), "an initial state has another shape")
    zero = step.within("hidden_zero", -128, 127)
    same = carried or ((result or zero == y.zero_point) and (len(x) < 2 or zero == x[1].zero_point))
    step.want(same, "hidden_zero is not the zero point of the hidden states")
    return zero


def _cell(step, cell, coupled, peepholes):
    """Return the function of one sequence and one row of x."""
    wide, units = step.x[0].shape[2], step.y.shape[2]
    cell_shift, output_shift = step.within("cell_shift", 0, 15), step.within("output_shift", 0, 13)
    tables = step.constant("gate", 257 if cell else 0), step.constant("candidate", 257)
    g = _Gates(step, (1, 4, 3, 3)[cell] * units, wide, units, peepholes, tables)
    output = step.constant("output", 257 if cell == _LSTM else 0)
    if cell == _LSTM:
        return _lstm(g, coupled, cell_shift, output_shift, output)
    return _gru(g, cell == _GRU) if cell else _simple(g)


def _ahead(cell, result):
    """Rows in front of the output that hold the last states."""
    return 0 if result != _CARRIED else 4 if cell == _LSTM else 2


def _carried(x, k, b, units):
    """The states of sequence b in input k."""
    if len(x) <= k:
        return [0] * units
    data, at = x[k].data, 2 * b * units
    return [_state((data[i] & 255) | data[i + 1] << 8) for i in range(at, at + 2 * units, 2)]


def _first(step, zero, multiplier, places):
    """Return the hidden and cell states to begin with, a list for each sequence."""
    x, units = step.x, step.y.shape[2]
    hidden, cells = ([[0] * units for _ in range(x[0].shape[1])] for _ in range(2))
    for i in range(len(hidden) * units):
        b, u = divmod(i, units)
        if len(x) > 1:
            hidden[b][u] = (x[1].data[i] - zero) * 128
        if len(x) > 2:
            cells[b][u] = _state(((x[2].data[i] - x[2].zero_point) * multiplier + (1 << (places - 1))) >> places)
    return hidden, cells


def recurrent_s8(step):
    """x [T,B,I], initial states [1,B,H] -> every hidden state [T,B,H], the last one or the last cell state [1,B,H]."""
    cell = step.within("cell", 0, 3)
    reverse, result = step.within("reverse", 0, 1), step.within("result", 0, 2)
    coupled, peepholes = step.within("coupled", 0, 1), step.within("peepholes", 0, 1)
    zero = _check(step, cell, result, coupled or peepholes)
    p = step.params
    factors(step, (p["in_mult"], p["out_mult"]), (p["in_shift"], p["out_shift"]))
    once = _cell(step, cell, coupled, peepholes)
    time, batch, wide = step.x[0].shape
    rows, _, units = step.y.shape
    front, carried = _ahead(cell, result), result == _CARRIED
    rows -= front
    shown = (step.y.zero_point, p["out_mult"], 31 + p["out_shift"]) if carried else (zero, 1, 7)
    xs, ys = step.x[0].data, step.y.data

    def show(values, at, base, multiplier, places):
        for v in values:
            v = base + ((v * multiplier + (1 << (places - 1))) >> places)
            ys[at] = -128 if v < -128 else 127 if v > 127 else v
            at += 1

    def run():
        if carried:
            hidden, cells = ([_carried(step.x, k, b, units) for b in range(batch)] for k in (1, 2))
        else:
            hidden, cells = _first(step, zero, p["in_mult"], 31 + p["in_shift"])
        for k in range(time):
            t = time - 1 - k if reverse else k
            for b in range(batch):
                first = (t * batch + b) * wide
                hidden[b] = once([xs[i] for i in range(first, first + wide)], hidden[b], cells[b])
                if rows > 1:
                    show(hidden[b], ((front + t) * batch + b) * units, *shown)
        for b in range(batch):
            for k in range(front // 2):
                at = 2 * (k * batch + b) * units
                for v in (hidden, cells)[k][b]:
                    ys[at], ys[at + 1] = (v & 255 ^ 128) - 128, v >> 8
                    at += 2
            if result == 1:
                show(cells[b], b * units, step.y.zero_point, p["out_mult"], 31 + p["out_shift"])
            elif rows == 1:
                show(hidden[b], (front * batch + b) * units, *shown)

    return run
