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


def rows(check: str) -> Contract:
    """Return the contract of a kernel: rows of an image inside of x and y, in a window that its check accepts."""

    def contract(w: Expressions, s: State, args: list[Value]) -> None:
        place, begin, end = args[0], number(args[1]), number(args[2])
        assert isinstance(w, Walker) and isinstance(place, Place)
        if not set(written(s)) <= CUT:
            raise Unproved(f"{w.where}: a piece has another field of its own")
        names = State(s.facts, s.local | {"q": place})
        w.prove(s, both(le(begin.plus(1), end), le(end, number(w.value(names, parsed("q->win.out_h"))))), "the rows")
        for way in w.call(s, check, [place, WHAT]):
            assert isinstance(way.result, Number)
            if way.result.poly.constant() != 0:
                w.prove(State(way.facts, s.local), False, "the check would refuse it")
        for pointer, size in (("x", IMAGE), ("y", OUTPUT)):
            p = w.value(names, parsed(f"q->{pointer}"))
            assert isinstance(p, Pointer)
            w.access(s, p, number(w.value(names, parsed(size.replace("p->", "q->")))), pointer)

    return contract


def cut(op: str, file: str) -> Proof:
    """Return the proof of run_<op>, for all windows that the check accepts and all ranges of rows."""

    def prove(tree: Tree) -> str | None:
        name, window = f"mica_{op}_s8", ("usermod_c/runtime/window.c", "usermod_c/kernels/shape.c")
        source = read(tree, f"usermod_c/runtime/{file}", *window, f"{REF}{op}.c")
        given: dict[str, Value] = {"s.p": Place("s.p"), f"s.p.{op}": Place("p")}
        hints = [(a.replace("p->", f"s->p.{op}."), b.replace("p->", f"s->p.{op}.")) for a, b in HINTS]
        sizes = {"p.x": IMAGE.replace("p->", f"s->p.{op}."), "p.y": OUTPUT.replace("p->", f"s->p.{op}.")}
        w = Walker(source, sizes, {f"{name}_ref": rows(f"{name}_check")}, hints, given=given, roots={"p": f"{name}_t"})
        begin, end = Poly.name("begin"), Poly.name("end")
        try:
            for way in w.call(State(Facts(), {}), f"{name}_check", [Place("p"), WHAT]):
                assert isinstance(way.result, Number)
                state = State(way.facts, {})
                state.facts.add(eq(way.result.poly, Poly(())))
                for n in ("begin", "end"):
                    w.unknown(state, n, U32)
                if not state.facts.proves(False):
                    args: list[Value] = [Place("s"), Number(begin, U32), Number(end, U32), WHAT, Number(Poly(()), U32)]
                    w.call(state, f"run_{op}", args)
        except Unproved as e:
            return str(e)
        return None if w.claims else f"run_{op}: nothing was claimed"

    return prove
