"""Reference kernels: all accesses lie inside the tensors that the check accepted. walker.py follows their text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from c_source import INTEGERS, Invariant, Number, Place, Pointer, State, Unproved, Value, parsed, read
from expressions import Contract
from polynomials import Facts, Poly, both, eq, fresh, le, negated
from walker import Walker
from words import Proof, Tree

CODES4 = 3  # MICA_LAYOUT_CODES4
REF = "usermod_c/kernels/ref/"
I8, I32, U32 = INTEGERS["int8_t"], INTEGERS["int32_t"], INTEGERS["uint32_t"]
ZERO, ONE = Poly(()), Poly.number(1)
REACH = Poly.number(1 << 30)
BYTES = Poly.number((1 << 31) - 1)  # MICA_MAX_BYTES: of a file, so of what it holds


def number(v: Value) -> Poly:
    assert isinstance(v, Number)
    return v.poly


# --- mica_taps: proved once, then what its callers may count on ------------------------------------------------


def inside(start: Poly, size: Poly, dilation: Poly, k: Poly) -> tuple[object, ...]:
    at = start + k * dilation
    return both(le(ZERO, at), le(at.plus(1), size))


def taps_given(start: Poly, size: Poly, kernel: Poly, dilation: Poly) -> tuple[object, ...]:
    most = Poly.number(65535)
    sizes = [f for p in (size, kernel, dilation) for f in (le(ONE, p), le(p, most))]
    return both(*sizes, le(-most, start), le(start + kernel.plus(-1) * dilation, REACH), le(start, REACH))


def taps(tree: Tree) -> str | None:
    source = read(tree, "usermod_c/kernels/shape.c")
    w = Walker(source, {}, {}, lemmas=[("kernel - inside", "dilation")])
    args = {n: Number(Poly.name(n), I32) for n in ("start", "size", "kernel", "dilation")}
    facts = Facts(natural={"size", "kernel", "dilation"}, positive={"size", "kernel", "dilation"})
    start, size, kernel, dilation = (number(v) for v in args.values())
    facts.add(taps_given(start, size, kernel, dilation))
    places: list[Value] = [Place("first_tap"), Place("end_tap")]
    try:
        ends = w.call(State(facts, {}), "mica_taps", [*args.values(), *places])
        for end in ends:
            first, last = (number(end.local[n]) for n in ("first_tap", "end_tap"))
            w.where = "mica_taps"
            w.prove(end, both(le(ZERO, first), le(first, last), le(last, kernel)), "0 <= first <= end <= kernel")
            k = fresh("k")
            end.facts.natural |= k.names()
            end.local |= {
                "k": Number(k),
                "f": Number(first),
                "e": Number(last),
                "d": Number(dilation),
                "n": Number(kernel),
            }
            w.hints = [
                ("k - f", "d"),
                ("e - 1 - k", "d"),
                ("n - 1 - k", "d"),
                ("skip - 1 - k", "d"),
                ("k - inside", "d"),
            ]
            is_in = inside(start, size, dilation, k)
            for what, given, claim in (
                ("a tap of [first, end) is outside", both(le(first, k), le(k.plus(1), last)), is_in),
                ("a tap before first is inside", both(le(k.plus(1), first), le(k.plus(1), kernel)), negated(is_in)),
                ("a tap from end on is inside", both(le(last, k), le(k.plus(1), kernel)), negated(is_in)),
            ):
                case = end.copy()
                case.facts.add(given)
                w.prove(case, claim, what)
            case = end.copy()  # of some taps, of which the first and the last are inside, as was proved
            case.facts.add(
                both(le(first.plus(1), last), *(inside(start, size, dilation, n) for n in (first, last.plus(-1))))
            )
            w.hints = [("e - 1 - f", "d - 1")]
            w.prove(case, le(last - first, size), "more taps than places")
    except Unproved as e:
        return str(e)
    return None


def taps_contract(w: Walker, s: State, args: list[Value]) -> None:
    start, size, kernel, dilation = (number(a) for a in args[:4])
    w.prove(s, taps_given(start, size, kernel, dilation), "what mica_taps is given")
    first, end = fresh("first"), fresh("end")
    s.facts.natural |= first.names() | end.names()
    s.facts.add(both(le(ZERO, first), le(first, end), le(end, kernel), le(end - first, size)))
    for k in (first, end.plus(-1)):
        s.facts.add(("or", (le(end, first), inside(start, size, dilation, k))))
    for k in (ZERO, -start):
        others = (le(k.plus(1), ZERO), le(kernel, k), negated(inside(start, size, dilation, k)))
        s.facts.add(("or", (*others, both(le(first, k), le(k.plus(1), end)))))
    w.spans.append((first, end, lambda k: inside(start, size, dilation, k)))
    for place, p in zip(args[4:], (first, end), strict=True):
        assert isinstance(place, Place)
        s.local[place.path] = Number(p, I32)


# --- what kernels call -------------------------------------------------------------------------------------


def reads(*counted: int) -> Contract:
    """Return the contract of a function that reads as many elements as its last argument says (theorem `lengths`)."""

    def contract(w: Walker, s: State, args: list[Value]) -> Value:
        n = number(args[-1])
        w.prove(s, le(ZERO, n), "a length that is below 0")
        for k in counted:
            p = args[k]
            assert isinstance(p, Pointer)
            w.access(s, p, n, f"argument {k + 1} of a sum")
        return Number(fresh("sum"), I32, data=True)

    return contract


def lengths(tree: Tree) -> str | None:
    """Prove of sums and dot products that they read n elements of each buffer, for every n from 0 on."""
    source = read(tree, "usermod_c/kernels/shape.c", REF + "fully_connected.c")
    w = Walker(source, {"a": "n", "b": "n"}, {})
    n, a, b = Poly.name("n"), Pointer("a", ZERO, "int8_t"), Pointer("b", ZERO, "int8_t")
    acc = Number(ZERO, data=True)
    calls: dict[str, list[Value]] = {"mica_sum": [a], "mica_dot": [acc, a, b], "dot_offset": [acc, a, b]}
    try:
        for name, args in calls.items():
            facts = Facts(natural={"n"})
            facts.add(both(le(ZERO, n), le(n, BYTES)))
            w.call(State(facts, {}), name, [*args, Number(n)])
    except Unproved as e:
        return str(e)
    return None if w.claims else "nothing was claimed"


def any_number(w: Walker, s: State, args: list[Value]) -> Value:
    return Number(fresh("any"), I32, data=True)


def row_bytes(w: Walker, s: State, args: list[Value]) -> Value:
    """Room for k weights and at most 3 bytes to fill it; of codes the bytes of a row (theorem `rows`)."""
    layout, k = (number(a) for a in args)
    w.prove(s, both(le(ZERO, k), le(k, BYTES)), "weights of a row")
    if w.given.setdefault("ROW", Number(k)) != Number(k):
        raise Unproved(f"{w.where}: a row of another length")
    found = w.unknown(s, "ROW_BYTES", U32)
    s.facts.add(le(found.poly, k.plus(3)))
    s.facts.add(("or", (eq(layout, Poly.number(CODES4)), le(k, found.poly))))
    w.given["ROW_BYTES"] = found
    return found


def coded(w: Walker, s: State, args: list[Value]) -> Value:
    """mica_coded: one byte of a row, and one of the table's 16 weights (theorem `codes`)."""
    table, row, i = args
    assert isinstance(table, Pointer) and isinstance(row, Pointer)
    w.prove(s, le(number(i).plus(1), number(w.given["ROW"])), "the number of a weight in its row")
    w.access(s, table, Poly.number(16), "the table")
    w.access(s, row, Poly.name("ROW_BYTES"), "a row of codes")
    return any_number(w, s, args)


CONTRACTS: dict[str, Contract] = {
    "mica_taps": taps_contract, "mica_sum": reads(0), "mica_dot": reads(1, 2), "mica_requant_s8": any_number,
    "mica_requant_s16": any_number, "mica_row_bytes": row_bytes, "mica_act_check": any_number, "dot": reads(1, 2),
    "mica_coded": coded,
}  # fmt: skip
IMAGE = "p->win.in_h * p->win.in_w * p->win.in_c"
OUTPUT = "p->win.out_h * p->win.out_w * p->win.out_c"
WINDOW_HINTS = [
    *(("p->win.in_h - 1 - p->win.dilation_h", f"p->win.in_w{c}") for c in ("", " * p->win.in_c")),
    ("p->win.in_w - 1 - p->win.dilation_w", "p->win.in_c"),
    ("65535 - a", "b * c * d"), ("65535 - a", "b"), ("k + 3 - ROW_BYTES", "n"),
    ("p->win.out_h - row_begin", "p->win.out_w"), ("p->win.out_h - row_begin", "p->win.out_w * p->win.out_c"),
    ("p->win.out_h - 1 - oy", "p->win.stride_h"), ("p->win.out_w - 1 - ox", "p->win.stride_w"),
    ("p->win.out_h - 1 - oy", "p->win.out_w * p->win.out_c"), ("p->win.out_w - 1 - ox", "p->win.out_c"),
    ("p->win.out_h - oy", "p->win.out_w * p->win.out_c"),
    *((f"p->win.in_h - 1 - (iy + {k} * p->win.dilation_h)", f"p->win.in_w{c}")
      for k in ("ky", "ky0") for c in ("", " * p->win.in_c")),
    *((f"iy + {k} * p->win.dilation_h", f"p->win.in_w{c}") for k in ("ky", "ky0") for c in ("", " * p->win.in_c")),
    *((f"p->win.in_w - 1 - (ix + {k} * p->win.dilation_w)", "p->win.in_c")
      for k in ("kx", "kx0", "(kx0 + kx)", "(kx1 - 1)")),
    *((f"ix + {k} * p->win.dilation_w", "p->win.in_c") for k in ("kx", "kx0", "(kx0 + kx)")),
]  # fmt: skip


@dataclass(frozen=True)
class Kernel:
    name: str
    file: str
    sizes: dict[str, str]
    hints: Iterable[tuple[str, str]] = ()
    lemmas: Iterable[tuple[str, str]] = ()
    invariants: Iterable[Invariant] = ()
    contracts: dict[str, Contract] = field(default_factory=dict)
    bounded: Iterable[tuple[str, str]] = ()
    grouped: str = ""  # the number of groups, of which in_c and out_c are multiples
    rows: str = "p->win.out_h"
    equal: tuple[str, str] = ("0", "0")  # numbers that the check finds equal
    weights: str = ""  # the bytes that the loader asks for, by the kernel's own function


def walked(name: str, coded: bool | None = None) -> Proof:
    """Return the proof of a reference kernel's theorem; of weights that are codes, or none, alone."""
    kernel = next(k for k in KERNELS if k.name == name)

    def prove(tree: Tree) -> str | None:
        try:
            return None if walk(kernel, tree, coded) else f"{kernel.name}: nothing was claimed"
        except Unproved as e:
            return str(e)

    return prove


def walk(kernel: Kernel, tree: Tree, coded: bool | None) -> int:
    """Follow the kernel on all that its check accepts; return how many claims it took."""
    source = read(tree, REF + kernel.file, "usermod_c/kernels/shape.c")
    given: dict[str, Value] = {}
    facts = Facts()
    if kernel.grouped:  # theorem `multiples`: the check found that nothing is left over
        groups, each = Poly.name(kernel.grouped), [Poly.name("in_each"), Poly.name("out_each")]
        facts.natural |= {"in_each", "out_each", kernel.grouped}
        facts.positive |= {"in_each", "out_each"}
        facts.types.most |= {"in_each": 65535, "out_each": 65535}
        for name, n in zip(("in_c", "out_c"), each, strict=True):
            if f"p.win.{name}" != kernel.grouped:
                given[f"p.win.{name}"] = Number(groups * n, INTEGERS["uint16_t"])
                facts.add(le(groups * n, Poly.number(65535)))
    given["p.x_zero"] = Number(fresh("x_zero"), I8, data=True)
    if kernel.name == "pool_s16":  # it compares them with x
        given |= {f"p.{n}": Number(fresh(n), INTEGERS["int16_t"], data=True) for n in ("act_min", "act_max")}
    w = Walker(source, kernel.sizes, CONTRACTS | kernel.contracts, [*WINDOW_HINTS, *kernel.hints], kernel.lemmas,
               kernel.invariants, kernel.bounded, given, {"p": f"mica_{kernel.name}_t"})  # fmt: skip
    what = Pointer("text", ZERO, "char")
    begin, end = Poly.name("row_begin"), Poly.name("row_end")
    for way in w.call(State(facts, {}), f"mica_{kernel.name}_check", [Place("p"), what]):
        assert isinstance(way.result, Number)
        state = State(way.facts, {"p": Place("p")})
        state.facts.add(eq(way.result.poly, ZERO))
        state.facts.natural |= {"row_begin", "row_end"}
        same = eq(*(w.number(state, parsed(n)).poly for n in kernel.equal))
        w.prove(state, same, "numbers that the check finds equal")
        state.facts.add(same)
        rows = w.number(state, parsed(kernel.rows)).poly
        state.facts.add(both(le(ZERO, begin), le(begin, end), le(end, rows)))
        if state.facts.proves(False):
            continue
        args: list[Value] = [Place("p"), Number(begin, U32), Number(end, U32), what, Number(ZERO, U32)]
        for case, table in layouts(state, coded) if kernel.weights else [(state, 0)]:
            if kernel.weights:  # theorem `load_blob`: they lie in the file, behind the table of their codes
                found = w.number(case, parsed(kernel.weights)).poly
                case.facts.add(le(found, BYTES))
                w.given["WEIGHTS"] = Number(found.plus(-table))
            w.call(case, f"mica_{kernel.name}_ref", args)
    return w.claims


def layouts(s: State, coded: bool | None) -> list[tuple[State, int]]:
    """Return the case of weights and that of codes, or one of them, and the bytes of the table before them."""
    found = []
    codes = eq(Poly.name("p.ch.layout"), Poly.number(CODES4))
    for fact, table in ((negated(codes), 0), (codes, 16)):
        if coded in (None, table > 0):
            case = s.copy()
            case.facts.add(fact)
            found.append((case, table))
    return found


TENSORS = {"p.x": IMAGE, "p.y": OUTPUT}
EACH = dict.fromkeys(("p.ch.bias", "p.ch.mult", "p.ch.shift", "p.bias", "p.mult", "p.shift"), "p->win.out_c")
WEIGHTS = {"p.ch.weights": "WEIGHTS", "p.ch.table": "16"}
ENTRIES = dict.fromkeys(("p.mult", "p.shift"), "p->entries")
TAPS = [("p->win.kernel_h", "p->win.kernel_w")]
OUTPUTS = ("p->win.out_c - 1 - o", "ROW_BYTES")
CODES = [  # loops over all taps, inside the image or not
    *((f"p->win.kernel_{a} - 1 - k{b}", f"p->win.dilation_{a}") for a, b in ("hy", "wx")),
    ("p->win.in_h - 1 - iy", "p->win.in_w"), ("p->win.in_h - 1 - iy", "p->win.in_w * p->win.in_c"),
    ("iy", "p->win.in_w"), ("iy", "p->win.in_w * p->win.in_c"), ("p->win.in_w - 1 - ix", "p->win.in_c"),
    ("ix", "p->win.in_c"), ("p->groups - 1 - o / group_out", "group_in"),
]  # fmt: skip
KERNELS = [
    Kernel("max_pool2d_s8", "max_pool2d.c", TENSORS),
    Kernel("average_pool2d_s8", "average_pool2d.c", TENSORS | ENTRIES, bounded=TAPS),
    Kernel(
        "pool_s16", "pool_s16.c", TENSORS | ENTRIES, bounded=TAPS, equal=("p->win.in_c", "p->win.out_c"),
        hints=[("p->win.in_h - (ky1 - ky0)", "kx1 - kx0"), ("p->win.in_w - (kx1 - kx0)", "p->win.in_h"),
               ("p->win.in_c - 1", "p->win.in_h * p->win.in_w")],
    ),
    Kernel(
        "depthwise_conv2d_s8", "depthwise_conv2d.c",
        TENSORS | EACH | WEIGHTS, weights="mica_depthwise_conv2d_s8_weights_bytes(p)",
        hints=[("p->win.out_c - 1 - o", "p->win.kernel_h * p->win.kernel_w"),
               ("p->win.kernel_h - 1 - ky", "p->win.kernel_w"),
               ("p->win.kernel_h - ky0", "p->win.kernel_w")],
        lemmas=[("p->win.in_c - 1 - Q", "multiplier"), ("p->win.in_c - 2 - Q", "multiplier")],
        invariants=[Invariant("o", "left", "first", "1", "Q",
                              "Q * multiplier + multiplier - left == o && 0 <= left && left <= multiplier")],
        bounded=TAPS, grouped="p.win.in_c",
    ),
    Kernel(
        "conv2d_s8", "conv2d.c", TENSORS | EACH | WEIGHTS, weights="mica_conv2d_s8_weights_bytes(p)",
        hints=[
            OUTPUTS, ("p->groups - 1 - Q", "group_in"), ("p->groups - 2 - Q", "group_in"),
            *((f"p->win.kernel_h - {k}", f"p->win.kernel_w{c}")
              for k in ("ky0", "ky1", "1 - ky") for c in ("", " * group_in")),
            ("ky1", "kernel_w"), ("ky1", "kernel_w * group_in"),
            *((f"p->win.kernel_w - {k}", "group_in") for k in ("kx0", "kx1", "1 - kx")), ("kx0 - kx1", "group_in"),
            ("kx1 - kx0", "group_in"),
            *CODES,
        ],
        lemmas=[*((f"p->groups - {k} - Q", "group_out") for k in (1, 2)),
                ("p->groups - 1 - o / group_out", "group_out")],
        invariants=[Invariant("o", "left", "first", "group_in", "Q",
                              "Q * group_out + group_out - left == o && 0 <= left && left <= group_out")],
        grouped="p.groups",
    ),
    Kernel(
        "conv2d_s16", "conv2d_s16.c", TENSORS | EACH | {"p.weights": "p->win.out_c * reduction"},
        hints=[
            ("p->win.out_c - 1 - o", "reduction"), ("p->groups - 1 - o / group_out", "group_in"),
            *((f"p->win.kernel_h - {k}", f"p->win.kernel_w{c}")
              for k in ("ky0", "1 - ky") for c in ("", " * group_in")),
            *((f"p->win.kernel_w - {k}", "group_in") for k in ("kx1", "kx0", "1 - kx")), ("kx1 - kx0", "group_in"),
        ],
        lemmas=[("p->groups - 1 - o / group_out", "group_out")], grouped="p.groups",
    ),
    Kernel(
        "fully_connected_s8", "fully_connected.c",
        {"p.x": "p->rows * p->in_k", "p.y": "p->rows * p->out_n",
         **WEIGHTS,
         **dict.fromkeys(("p.ch.bias", "p.ch.mult", "p.ch.shift"), "p->out_n")},
        hints=[("p->rows - row_begin", "p->in_k"), ("p->rows - row_begin", "p->out_n"),
               ("p->rows - 1 - row", "p->in_k"),
               ("p->rows - 1 - row", "p->out_n"), ("p->out_n - 1 - o", "ROW_BYTES")],
        contracts={"dot_offset": reads(1, 2)}, rows="p->rows", weights="mica_fully_connected_s8_weights_bytes(p)",
    ),
]  # fmt: skip


# --- the loader's tables ------------------------------------------------------------------------------------


def record(tree: Tree) -> str | None:
    """Record i of a table, for i below mica_count(): all of it lies in the table's section."""
    text = tree.read("usermod_c/runtime/model.h")
    place = "return f->base + f->s[kind].offset + (size_t)i * f->s[kind].record_bytes;"
    count = "return f->s[kind].offset ? f->s[kind].bytes / f->s[kind].record_bytes : 0;"
    if place not in text or count not in text:
        return "mica_record or mica_count has another form"
    names = ("i", "count", "record_bytes", "rest", "bytes")
    i, n, each, rest, size = (Poly.name(name) for name in names)
    facts = Facts(natural=set(names))
    facts.add(both(eq(n * each + rest, size), le(i.plus(1), n)))
    proved = facts.proves(le((i + ONE) * each, size), [(n - i - ONE, each)])
    return None if proved else "a record passes its section"
