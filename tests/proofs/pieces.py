"""Steps whose output is cut into columns: what run_<operator> gives a kernel is what the kernel's check accepts."""

from __future__ import annotations

from c_source import Number, Place, Pointer, State, Unproved, Value, parsed, read
from expressions import Contract, Expressions, written
from polynomials import Facts, Poly, both, eq, le
from walker import Walker
from walks import IMAGE, OUTPUT, REF, U32, number
from words import Proof, Tree

WHAT = Pointer("text", Poly(()), "char")
CUT = {f"piece.{name}" for name in ("x", "y", "win.in_w", "win.out_w", "win.pad_left")}
HINTS = [
    ("p->win.out_w - 1 - begin", "p->win.stride_w"), ("p->win.in_w - skip", "p->win.in_c"),
    ("piece.win.in_w", "p->win.in_c"), ("p->win.in_w - piece.win.in_w", "p->win.in_c"),
    ("p->win.out_w - piece.win.out_w", "p->win.out_c"), ("p->win.out_w - piece.win.out_w", "p->win.stride_w"),
    ("p->win.out_w - begin", "p->win.out_c"), ("p->win.out_w - end", "p->win.out_c"),
    ("piece.win.out_w - 1", "p->win.out_c"), ("piece.win.out_w - 1", "p->win.stride_w"),
    ("p->win.out_w - end", "p->win.stride_w"), ("65535 - a", "b * c * d"), ("65535 - a", "b"),
]  # fmt: skip


def accepted(w: Walker, s: State, place: Place, check: str) -> None:
    """Prove that a kernel's check accepts a piece, whose window lies inside of x and y."""
    for way in w.call(s, check, [place, WHAT]):
        assert isinstance(way.result, Number)
        if way.result.poly.constant() != 0:
            w.prove(State(way.facts, s.local), False, "the check would refuse it")
    names = State(s.facts, s.local | {"q": place})
    for pointer, size in (("x", IMAGE), ("y", OUTPUT)):
        p = w.value(names, parsed(f"q->{pointer}"))
        assert isinstance(p, Pointer)
        w.access(s, p, number(w.value(names, parsed(size.replace("p->", "q->")))), pointer)


def rows(check: str) -> Contract:
    """Return the contract of a kernel: rows of an image inside of x and y, in a window that its check accepts."""

    def contract(w: Expressions, s: State, args: list[Value]) -> None:
        place, begin, end = args[0], number(args[1]), number(args[2])
        assert isinstance(w, Walker) and isinstance(place, Place)
        if not set(written(s)) <= CUT:
            raise Unproved(f"{w.where}: a piece has another field of its own")
        names = State(s.facts, s.local | {"q": place})
        w.prove(s, both(le(begin.plus(1), end), le(end, number(w.value(names, parsed("q->win.out_h"))))), "the rows")
        accepted(w, s, place, check)

    return contract


def walker(tree: Tree, op: str, file: str) -> tuple[Walker, list[State]]:
    """Return a walker of a step s whose kernel's check accepted its parameters, and what it then knows."""
    name, window = f"mica_{op}_s8", ("usermod_c/runtime/window.c", "usermod_c/kernels/shape.c")
    source = read(tree, f"usermod_c/runtime/{file}", *window, f"{REF}{op}.c")
    run = Pointer("run", Poly(()), "char")
    given: dict[str, Value] = {"s.p": Place("s.p"), f"s.p.{op}": Place("p"), "s.run": run, f"run_{op}": run}
    hints = [(a.replace("p->", f"s->p.{op}."), b.replace("p->", f"s->p.{op}.")) for a, b in HINTS]
    sizes = {"p.x": IMAGE.replace("p->", f"s->p.{op}."), "p.y": OUTPUT.replace("p->", f"s->p.{op}.")}
    w = Walker(source, sizes, {f"{name}_ref": rows(f"{name}_check")}, hints, given=given, roots={"p": f"{name}_t"})
    w.copies[f"s.p.{op}"] = "p"
    states = []
    for way in w.call(State(Facts(), {}), f"{name}_check", [Place("p"), WHAT]):
        assert isinstance(way.result, Number)
        way.facts.add(eq(way.result.poly, Poly(())))
        if not way.facts.proves(False):
            states.append(State(way.facts, {}))
    return w, states


def cut(op: str, file: str) -> Proof:
    """Return the proof of run_<op>, for all windows that the check accepts and all ranges of rows."""

    def prove(tree: Tree) -> str | None:
        try:
            w, states = walker(tree, op, file)
            for state in states:
                begin, end = (w.unknown(state, n, U32) for n in ("begin", "end"))
                w.call(state, f"run_{op}", [Place("s"), begin, end, WHAT, Number(Poly(()), U32)])
        except Unproved as e:
            return str(e)
        return None if w.claims else f"run_{op}: nothing was claimed"

    return prove


def pixels(tree: Tree) -> str | None:
    """Prove that the check accepts a convolution of pixels over an image that is one row high."""
    try:
        w, states = walker(tree, "conv2d", "op_conv.c")
        count = 0
        for state in states:
            for way in w.call(state, "mica_conv2d_by_pixels", [Place("s"), Place("to")]):
                assert isinstance(way.result, Number)
                if way.result.poly.constant() != 0:
                    count += 1
                    step = State(way.facts, {"s": Place("s")} | written(way))
                    accepted(w, step, Place("to.p.conv2d"), "mica_conv2d_s8_check")
    except Unproved as e:
        return str(e)
    return None if count else "no step has pixels"
