"""A recurrent layer over a whole sequence: states are 16 bits inside, gates come from tables."""

from mica.fallback.common import factors

_SIMPLE, _LSTM, _GRU, _GRU_AFTER = range(4)


def _look_up(table, v):
    """A function that is linear between the 257 entries of its table; the argument is limited to 16 bits."""
    u = (-32768 if v < -32768 else 32767 if v > 32767 else v) + 32768
    k = u >> 8
    a = table[k]
    return a + (((table[k + 1] - a) * (u & 255) + 128) >> 8)


def _state(v):
    return -32767 if v < -32767 else 32767 if v > 32767 else v


def recurrent_s8(step):
    """x [T,B,I], initial states [1,B,H] -> every hidden state [T,B,H], the last one or the last cell state [1,B,H]."""
    x, y = step.x, step.y
    step.want(len(x[0].shape) == 3 and len(y.shape) == 3, "input and output want three dimensions")
    time, batch, wide = x[0].shape
    rows, batches, units = y.shape
    step.want(batches == batch and rows in (1, time), "the input does not make the output")
    cell = step.within("cell", 0, 3)
    reverse, result = step.within("reverse", 0, 1), step.within("result", 0, 1)
    coupled, peepholes = step.within("coupled", 0, 1), step.within("peepholes", 0, 1)
    cell_shift, output_shift = step.within("cell_shift", 0, 15), step.within("output_shift", 0, 13)
    zero = step.within("hidden_zero", -128, 127)
    lstm = cell == _LSTM
    more = len(x) > 2 or result or coupled or peepholes
    step.want(lstm or not more, "only an LSTM has a cell state, peepholes and coupled gates")
    step.want(not result or rows == 1, "the cell state makes one row")
    for t in x[1:]:
        step.want(t.shape == (1, batch, units), "an initial state has another shape")
    same = (result or zero == y.zero_point) and (len(x) < 2 or zero == x[1].zero_point)
    step.want(same, "hidden_zero is not the zero point of the hidden states")
    p = step.params
    in_mult, in_shift, out_mult, out_shift = p["in_mult"], p["in_shift"], p["out_mult"], p["out_shift"]
    factors(step, (in_mult, out_mult), (in_shift, out_shift))
    gates = (1, 4, 3, 3)[cell]
    n = gates * units
    row = wide + units
    matrix = step.constant("matrix", n * row)
    terms = step.constant("terms", 4 * n + 3 * units * peepholes)
    shifts = step.constant("shifts", n)
    gate = step.constant("gate", 257 if cell else 0)
    candidate = step.constant("candidate", 257)
    output = step.constant("output", 257 if lstm else 0)
    for i in range(n):
        sound = 0 <= terms[2 * n + i] < 1 << 30 and 0 <= terms[3 * n + i] < 1 << 30
        step.want(sound and 1 <= shifts[i] <= 60, "a factor or shift is out of its range")
    xs, ys = x[0].data, y.data
    h_first = x[1].data if len(x) > 1 else None
    c_first = x[2].data if len(x) > 2 else None
    c_zero = x[2].zero_point if c_first else 0
    before = cell == _GRU
    at_in = 31 + in_shift
    at_out = 31 + out_shift

    def run():
        hidden = [[0] * units for _ in range(batch)]
        cells = [[0] * units for _ in range(batch)]
        for b in range(batch):
            for u in range(units):
                i = b * units + u
                if h_first:
                    hidden[b][u] = (h_first[i] - zero) * 128
                if c_first:
                    cells[b][u] = _state(((c_first[i] - c_zero) * in_mult + (1 << (at_in - 1))) >> at_in)
        for k in range(time):
            t = time - 1 - k if reverse else k
            for b in range(batch):
                first = (t * batch + b) * wide
                a = [xs[i] for i in range(first, first + wide)]
                hidden[b] = step_once(a, hidden[b], cells[b])
                if rows > 1:
                    show(hidden[b], (t * batch + b) * units)
        for b in range(batch):
            if result:
                for u in range(units):
                    v = y.zero_point + ((cells[b][u] * out_mult + (1 << (at_out - 1))) >> at_out)
                    ys[b * units + u] = -128 if v < -128 else 127 if v > 127 else v
            elif rows == 1:
                show(hidden[b], b * units)

    def show(h, at):
        for u in range(units):
            v = zero + ((h[u] + 64) >> 7)
            ys[at + u] = -128 if v < -128 else 127 if v > 127 else v

    def part(k, values, o):
        """Return the product of x (k = 0) or the hidden state (k = 1) with row o of its weights, times its factor."""
        acc = terms[k * n + o]
        r = o * row + (wide if k else 0)
        for v in values:
            acc += v * matrix[r]
            r += 1
        return acc * terms[(2 + k) * n + o]

    def drive(o, v):
        return (v + (1 << (shifts[o] - 1))) >> shifts[o]

    def peep(which, u, c):
        return terms[4 * n + which * units + u] * c if peepholes else 0

    def step_once(a, h, c):
        """Return the new hidden state of one sequence; its cell state c changes in place."""
        new = [0] * units
        if before:
            # the recurrent product of the candidate sees all units, reset
            kept = []
            for u in range(units):
                o = units + u
                r = _look_up(gate, drive(o, part(0, a, o) + part(1, h, o)))
                kept.append(_state((r * h[u] + 8192) >> 14))
        for u in range(units):
            if cell == _SIMPLE:
                new[u] = _look_up(candidate, drive(u, part(0, a, u) + part(1, h, u)))
                continue
            s = part(0, a, u) + part(1, h, u)
            if lstm:
                old = c[u]
                opened = _look_up(gate, drive(u, s + peep(0, u, old)))
                o = 3 * units + u
                g = _look_up(candidate, drive(o, part(0, a, o) + part(1, h, o)))
                if coupled:
                    now = old + ((opened * (g - old) + 8192) >> 14)
                else:
                    o = 2 * units + u
                    f = _look_up(gate, drive(o, part(0, a, o) + part(1, h, o) + peep(2, u, old)))
                    now = (f * old + opened * g + 8192) >> 14
                c[u] = now = _state(now)
                o = units + u
                shown = _look_up(gate, drive(o, part(0, a, o) + part(1, h, o) + peep(1, u, now)))
                k = 14 - output_shift
                new[u] = _state((shown * _look_up(output, now << cell_shift) + (1 << (k - 1))) >> k)
            else:
                update = _look_up(gate, drive(u, s))
                o = 2 * units + u
                if before:
                    again = part(1, kept, o)
                else:
                    r = units + u
                    reset = _look_up(gate, drive(r, part(0, a, r) + part(1, h, r)))
                    again = (part(1, h, o) >> 14) * reset
                g = _look_up(candidate, drive(o, part(0, a, o) + again))
                new[u] = _state(g + ((update * (h[u] - g) + 8192) >> 14))
        return new

    return run
