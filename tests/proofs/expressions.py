"""Expressions in C as polynomials, and the claims about each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from c_source import (
    INT,
    INTEGERS,
    Invariant,
    Number,
    Place,
    Pointer,
    Source,
    State,
    Type,
    Unproved,
    Value,
    common,
    parsed,
    promoted,
    text_of,
)
from polynomials import Formula, Poly, both, eq, fresh, le, negated
from pycparser import c_ast

Contract = Callable[["Expressions", State, list[Value]], Value | None]


class Expressions:
    """sizes: elements of each buffer, by the path of its pointer. hints: pairs of expressions whose product is 0 at
    least because both are; `lemma`s that are proved with a product: (what is 0 at least, by which factor)."""

    def __init__(
        self,
        source: Source,
        sizes: dict[str, str],
        contracts: dict[str, Contract],
        hints: Iterable[tuple[str, str]] = (),
        lemmas: Iterable[tuple[str, str]] = (),
        invariants: Iterable[Invariant] = (),
        bounded: Iterable[tuple[str, str]] = (),
        given: dict[str, Value] | None = None,
        roots: dict[str, str] | None = None,
    ) -> None:
        self.source, self.sizes, self.contracts = source, sizes, contracts
        self.hints, self.lemmas, self.invariants = list(hints), list(lemmas), list(invariants)
        self.given = given or {}  # fields of structures
        self.roots = roots or {}  # of a structure: the name of its type
        self.bounded = list(bounded)  # limits of factors
        self.quiet = 0
        self.spans: list[tuple[Poly, Poly, Callable[[Poly], Formula]]] = []  # what holds of all numbers of [first, end)
        self.claims = 0
        self.quotients: dict[tuple[Poly, Poly], tuple[Poly, Poly]] = {}
        self.truths: dict[str, Formula] = {}  # numbers that are 1 where these are true, else 0
        self.where = ""
        self.copies: dict[str, str] = {}  # of local structures: the path of the one that each was made from
        self.outer: dict[str, Value] = {}  # what the callers of the function call their values, for hints

    # --- proofs

    def products(self, state: State) -> list[tuple[Poly, Poly]]:
        pairs = tuple(tuple(self._expression(state, text) for text in texts) for texts in self.hints)
        known = state.facts.current().products
        if pairs not in known:
            found: list[tuple[Poly, Poly]] = []
            for a, b in pairs:
                if a and b and self._natural(state, a, found) and self._natural(state, b, found):
                    found.append((a, b))
            known[pairs] = found
        return known[pairs]

    def richer(self, state: State) -> State:
        """Return the state with the facts that `lemmas` say, where there are any."""
        pairs = tuple(tuple(self._expression(state, text) for text in texts) for texts in self.lemmas)
        known = state.facts.current().richer
        if pairs not in known:
            facts = state.facts
            for p, factor in pairs:
                if p is not None and factor is not None and self._natural(state, factor):
                    # If it were below 0, then -(p + 1) * factor would be 0 at least.
                    claim = le(Poly(()), p)
                    below = ("or", (claim, ("le", p.plus(1) * factor)))
                    if state.facts.proves(claim, more=[below]):
                        facts = state.facts.copy() if facts is state.facts else facts
                        facts.add(claim)
            known[pairs] = facts
        return State(known[pairs], state.local)

    def _natural(self, state: State, p: Poly, products: Iterable[tuple[Poly, Poly]] = ()) -> bool:
        plain = all(c > 0 and all(state.facts.at_least_0(n) for n in m) for m, c in p.terms)
        return plain or state.facts.proves(le(Poly(()), p), products)

    def _expression(self, state: State, text: str) -> Poly | None:
        """Return what a hint says of this function's values; where it has none of those names, of its callers'."""
        self.quiet += 1
        try:
            for names in ({**self.outer, **state.local}, self.outer):
                try:
                    return self.number(State(state.facts, names), parsed(text)).poly
                except (KeyError, AssertionError, Unproved):
                    pass
            return None
        finally:
            self.quiet -= 1

    def prove(self, state: State, claim: Formula, what: str) -> None:
        if self.quiet or claim is True:
            return
        self.claims += 1
        if state.facts.proves(claim):
            return
        richer = self.richer(state)
        if not richer.facts.proves(claim, self.products(richer)):
            raise Unproved(f"{self.where}: {what}")

    def fits(self, state: State, value: Number, what: str) -> Number:
        bits, signed = value.type
        low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
        if value.data or self.quiet:
            return value
        constant = value.poly.constant()
        if constant is None or not low <= constant <= high:
            claim = both(le(Poly.number(low), value.poly), le(value.poly, Poly.number(high)))
            self.prove(state, claim, f"{what} does not fit {'u' * (not signed)}int{bits}")
        return value

    def access(self, state: State, p: Pointer, count: Poly, what: str) -> None:
        if p.base not in self.sizes:
            raise Unproved(f"{self.where}: {what}: nothing is known of {p.base}")
        if self.quiet:
            return
        size = self._expression(state, self.sizes[p.base])
        assert size is not None, self.sizes[p.base]
        claim = ("or", (le(count, Poly(())), both(le(Poly(()), p.at), le(p.at + count, size))))
        self.prove(state, claim, f"{what} passes its buffer {p.base}")

    # --- types

    def type_of(self, node: Any) -> tuple[str, Any]:
        """("number", type), ("pointer", element's name), ("struct", fields) or ("array", ...)."""
        if isinstance(node, c_ast.PtrDecl):
            inner = node.type
            return "pointer", " ".join(inner.type.names) if isinstance(inner.type, c_ast.IdentifierType) else "?"
        if isinstance(node, c_ast.TypeDecl | c_ast.Typename):
            return self.type_of(node.type)
        if isinstance(node, c_ast.IdentifierType):
            name = " ".join(node.names)
            if name == "void":
                return "void", None
            return ("number", INTEGERS[name]) if name in INTEGERS else self.type_of(self.source.types[name])
        if isinstance(node, c_ast.Struct | c_ast.Union):
            return "struct", {d.name: d.type for d in node.decls}
        if isinstance(node, c_ast.Enum):
            return "number", INT
        return "array", node

    def field(self, state: State, path: str) -> Value:
        """Return the content of a structure, by its path: what was written there, or what the caller gave."""
        if path in state.local:
            return state.local[path]
        if path in self.given:
            return self.given[path]
        fields = path.split(".")
        for n in range(len(fields) - 1, 0, -1):
            of = ".".join(fields[:n])
            if of in self.copies:
                found = self.field(state, ".".join([self.copies[of], *fields[n:]]))
                return Place(path) if isinstance(found, Place) else found
        kind, what = self.type_of(self.source.types[self.roots[fields[0]]])
        for name in fields[1:]:
            assert kind == "struct", path
            kind, what = self.type_of(what[name])
        if kind == "struct":
            return Place(path)
        if kind == "pointer":
            return Pointer(path, Poly(()), what)
        return self.unknown(state, path, what)

    def unknown(self, state: State, name: str, type: Type, data: bool = False) -> Number:
        (bits, signed), p, types = type, Poly.name(name), state.facts.types
        if name not in types.known:
            types.known.add(name)
            low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
            types.formulas.append(both(le(Poly.number(low), p), le(p, Poly.number(high))))
            if not signed:
                types.most[name] = high
        return Number(p, type, data)

    # --- expressions

    def number(self, state: State, node: c_ast.Node) -> Number:
        value = self.value(state, node)
        assert isinstance(value, Number), node
        return value

    def value(self, state: State, node: c_ast.Node) -> Value:
        method = getattr(self, "_" + type(node).__name__.lower(), None)
        if method is None:
            raise Unproved(f"{self.where}: {type(node).__name__} is not understood")
        found = method(state, node)
        assert isinstance(found, Number | Pointer | Place)
        return found

    def _constant(self, state: State, node: c_ast.Constant) -> Value:
        if node.type == "string":
            return Pointer("text", Poly(()), "char")
        n = int(node.value.rstrip("uUlL"), 0)
        unsigned = "u" in node.value.lower()
        return Number(Poly.number(n), (32 if n < 1 << 32 else 64, not unsigned and (n < 1 << 31 or n >= 1 << 32)))

    def _id(self, state: State, node: c_ast.ID) -> Value:
        if node.name in state.local:
            return state.local[node.name]
        if node.name in self.given:
            return self.given[node.name]
        if node.name in self.source.constants:
            return Number(Poly.number(self.source.constants[node.name]))
        raise KeyError(node.name)

    def _structref(self, state: State, node: c_ast.StructRef) -> Value:
        inner = self.value(state, node.name)
        assert isinstance(inner, Place)
        return self.field(state, f"{inner.path}.{node.field.name}")

    def _arrayref(self, state: State, node: c_ast.ArrayRef) -> Value:
        p, index = self.value(state, node.name), self.number(state, node.subscript)
        assert isinstance(p, Pointer)
        return self.load(state, replace(p, at=p.at + index.poly), text_of(node))

    def load(self, state: State, p: Value, text: str) -> Value:
        assert isinstance(p, Pointer)
        self.access(state, p, Poly.number(1), f"the read {text}")
        return self.unknown(state, fresh(p.base).terms[0][0][0], INTEGERS.get(p.element, INT), data=True)

    def _cast(self, state: State, node: c_ast.Cast) -> Value:
        kind, what = self.type_of(node.to_type.type)
        value = self.value(state, node.expr)
        if kind == "pointer" and isinstance(value, Pointer):
            return replace(value, element=what)
        if kind != "number" or not isinstance(value, Number):
            return value
        return self.fits(state, replace(value, type=what), "a cast")

    def _unaryop(self, state: State, node: c_ast.UnaryOp) -> Value:
        if node.op == "&":
            if isinstance(node.expr, c_ast.ID):
                return Place(node.expr.name)
            return self.value(state, node.expr)
        if node.op in ("++", "--", "p++", "p--"):
            before = self.value(state, node.expr)
            step = Number(Poly.number(1 if "+" in node.op else -1))
            after = self.plus(state, before, step)
            self.assign(state, node.expr, after)
            return before if node.op[0] == "p" else after
        if node.op == "*":
            p = self.value(state, node.expr)
            return state.local.get(p.path, p) if isinstance(p, Place) else self.load(state, p, text_of(node))
        if node.op == "!":
            return self.truth(state, node)
        v = self.number(state, node.expr)
        if node.op == "-":
            return self.fits(state, Number(-v.poly, promoted(v.type), v.data), "a negation")
        if node.op == "+":
            return v
        raise Unproved(f"{self.where}: {node.op} is not understood")

    def _assignment(self, state: State, node: c_ast.Assignment) -> Value:
        assert node.op == "=", node.op
        self.assign(state, node.lvalue, self.value(state, node.rvalue))
        return self.value(state, node.lvalue)

    def plus(self, state: State, a: Value, b: Value, sign: int = 1, text: str = "a step") -> Value:
        if isinstance(b, Pointer) and isinstance(a, Number):
            a, b = b, a
        if isinstance(a, Pointer) and isinstance(b, Number):
            return replace(a, at=a.at + b.poly * Poly.number(sign))
        assert isinstance(a, Number) and isinstance(b, Number)
        poly = a.poly + b.poly * Poly.number(sign)
        return self.fits(state, Number(poly, common(a.type, b.type), a.data or b.data), text)

    def _binaryop(self, state: State, node: c_ast.BinaryOp) -> Value:
        if node.op in ("&&", "||", "==", "!=", "<", "<=", ">", ">="):
            return self.truth(state, node)
        a, b = self.value(state, node.left), self.value(state, node.right)
        if node.op in "+-":
            return self.plus(state, a, b, 1 if node.op == "+" else -1, text_of(node))
        assert isinstance(a, Number) and isinstance(b, Number)
        data, type = a.data or b.data, common(a.type, b.type)
        x, y = a.poly.constant(), b.poly.constant()
        if node.op in ("<<", ">>") and x is not None and y is not None:
            return self.fits(
                state, Number(Poly.number(x << y if node.op == "<<" else x >> y), promoted(a.type)), "a shift"
            )
        if node.op == "*":
            if not data and not self.quiet:
                self.bound(state, a.poly, b.poly)
            return self.fits(state, Number(a.poly * b.poly, type, data), f"the product {text_of(node)}")
        if data or node.op not in ("/", "%"):
            return self.unknown(state, fresh("v").terms[0][0][0], type, data=True)
        return self.quotient(state, a, b, type, node.op)

    def bound(self, state: State, a: Poly, b: Poly) -> None:
        """Add the limits of a product of two numbers that have the limits `bounded` says."""
        for texts in self.bounded if len(a.names() | b.names()) > 1 else ():
            most = [self._expression(state, text) for text in texts]
            if most[0] is None or most[1] is None:
                continue
            for x, y in ((a, b), (b, a)):
                limits = both(le(Poly(()), x), le(x, most[0]), le(Poly(()), y), le(y, most[1]))
                if state.facts.proves(limits) or state.facts.proves(limits, self.products(state)):
                    state.facts.add(both(le(Poly(()), x * y), le(x * y, most[0] * most[1])))
                    one = Poly.number(1)
                    if state.facts.proves(both(le(one, x), le(one, y)), self.products(state)):
                        state.facts.add(le(one, x * y))
                    return

    def quotient(self, state: State, a: Number, b: Number, type: Type, op: str) -> Value:
        exact = a.poly.divided(b.poly)
        self.prove(state, both(le(Poly(()), a.poly), le(Poly.number(1), b.poly)), "a quotient of what can be negative")
        if exact is not None:
            return Number(exact if op == "/" else Poly(()), type)
        q, r = self.quotients.setdefault((a.poly, b.poly), (fresh("q"), fresh("r")))
        state.facts.natural |= q.names() | r.names()
        f = both(eq(q * b.poly + r, a.poly), le(r.plus(1), b.poly), le(Poly(()), q), le(Poly(()), r), le(q, a.poly))
        if f not in state.facts.formulas:
            state.facts.add(f)
        return Number(q if op == "/" else r, type)

    def truth(self, state: State, node: c_ast.Node) -> Number:
        """Return a condition as a number, 0 or 1."""
        f = self.condition(state, node)
        if isinstance(f, bool):
            return Number(Poly.number(int(f)))
        b = fresh("b")
        one = eq(b, Poly.number(1))
        self.truths[b.terms[0][0][0]] = f
        state.facts.natural |= b.names()
        state.facts.add(("or", (both(f, one), both(negated(f), eq(b, Poly(()))))))
        return Number(b, (1, False))

    def _ternaryop(self, state: State, node: c_ast.TernaryOp) -> Value:
        f = self.condition(state, node.cond)
        values = []
        for condition, part in ((f, node.iftrue), (negated(f), node.iffalse)):
            inner = State(state.facts.copy(), state.local)
            inner.facts.add(condition)
            values.append((condition, self.value(inner, part), inner.facts))
        if any(isinstance(v, Pointer) for _, v, _ in values):
            raise Unproved(f"{self.where}: a choice of pointers")
        a, b = values[0][1], values[1][1]
        assert isinstance(a, Number) and isinstance(b, Number)
        t = fresh("t")
        for condition, v, facts in values:
            assert isinstance(v, Number)
            more = facts.formulas[len(state.facts.formulas) :]
            state.facts.natural |= facts.natural
            state.facts.add(("or", (negated(condition), both(eq(t, v.poly), *more))))
        return Number(t, common(a.type, b.type), a.data or b.data)

    def condition(self, state: State, node: c_ast.Node) -> Formula:
        if isinstance(node, c_ast.UnaryOp) and node.op == "!":
            return negated(self.condition(state, node.expr))
        if isinstance(node, c_ast.BinaryOp) and node.op in ("&&", "||"):
            left = self.condition(state, node.left)
            inner = State(state.facts.copy(), state.local)
            inner.facts.add(left if node.op == "&&" else negated(left))
            before = len(inner.facts.formulas)
            right = self.condition(inner, node.right)
            state.facts.natural |= inner.facts.natural
            # Facts of the right side hold where that side is evaluated.
            more = both(*inner.facts.formulas[before:])
            state.facts.add(("or", (negated(left) if node.op == "&&" else left, more)))
            return ("and" if node.op == "&&" else "or", (left, right))
        if isinstance(node, c_ast.BinaryOp) and node.op in ("==", "!=", "<", "<=", ">", ">="):
            return self.comparison(state, node)
        v = self.value(state, node)
        if isinstance(v, Pointer):
            return True
        assert isinstance(v, Number)
        said = v.poly.terms[0][0] if len(v.poly.terms) == 1 else ()
        if len(said) == 1 and said[0] in self.truths:
            return self.truths[said[0]]
        constant = v.poly.constant()
        return negated(eq(v.poly, Poly(()))) if constant is None else constant != 0

    def comparison(self, state: State, node: c_ast.BinaryOp) -> Formula:
        a, b = self.value(state, node.left), self.value(state, node.right)
        if isinstance(a, Pointer) and isinstance(b, Pointer) and a.base == b.base:
            x, y = a.at, b.at
        elif isinstance(a, Number) and isinstance(b, Number):
            x, y = a.poly, b.poly
        else:
            return ("le", fresh("any"))
        found = {
            "==": eq(x, y), "!=": negated(eq(x, y)), "<": le(x.plus(1), y), "<=": le(x, y), ">": le(y.plus(1), x),
            ">=": le(y, x),
        }[node.op]  # fmt: skip
        constant = (x - y).constant()
        if constant is not None:
            return {"==": constant == 0, "!=": constant != 0, "<": constant < 0, "<=": constant <= 0,
                    ">": constant > 0, ">=": constant >= 0}[node.op]  # fmt: skip
        return found

    def _funccall(self, state: State, node: c_ast.FuncCall) -> Value:
        name = node.name.name
        args = [self.value(state, a) for a in (node.args.exprs if node.args else [])]
        if name in self.contracts:
            return self.contracts[name](self, state, args) or Number(Poly(()))
        ends = self.call(state, name, args)
        if len(ends) == 1:
            state.facts = ends[0].facts
            state.local |= written(ends[0])
            return ends[0].result or Number(Poly(()))
        if any(written(end) != written(state) for end in ends):
            raise Unproved(f"{self.where}: {name} writes to a structure in one of its ways")
        r, before = fresh(name), len(state.facts.formulas)
        ways = []
        for end in ends:
            assert isinstance(end.result, Number), name
            ways.append(both(eq(r, end.result.poly), *end.facts.formulas[before:]))
            state.facts.natural |= end.facts.natural
        state.facts.add(("or", tuple(ways)))
        assert isinstance(ends[0].result, Number)
        return Number(r, ends[0].result.type)

    def call(self, state: State, name: str, args: list[Value]) -> list[State]:
        """The ways through a function."""
        raise NotImplementedError

    def bind(self, s: State, name: str, value: Value, node: Any) -> None:
        kind, what = self.type_of(node)
        if kind == "number" and isinstance(value, Number) and value.type != what:
            value = self.fits(s, replace(value, type=what), name)  # else it fits since it was made
        if kind == "struct" and isinstance(value, Place):
            self.copies[name], value = value.path, Place(name)
        if kind == "pointer" and isinstance(value, Pointer):
            value = replace(value, element=what)
        s.local[name] = value

    def assign(self, s: State, target: c_ast.Node, value: Value) -> None:
        if isinstance(target, c_ast.ID):
            old = s.local.get(target.name)
            if isinstance(old, Number) and isinstance(value, Number) and value.type != old.type:
                value = self.fits(s, replace(value, type=old.type), target.name)
            s.local[target.name] = value
        elif isinstance(target, c_ast.UnaryOp) and target.op == "*":
            p = self.value(s, target.expr)
            if isinstance(p, Place) and isinstance(value, Place):
                self.copies[p.path] = value.path
            elif isinstance(p, Place):
                s.local[p.path] = value
            elif isinstance(p, Pointer) and p.base != "text":
                self.access(s, p, Poly.number(1), "a write")
        elif isinstance(target, c_ast.ArrayRef):
            p, i = self.value(s, target.name), self.number(s, target.subscript)
            assert isinstance(p, Pointer)
            self.access(s, replace(p, at=p.at + i.poly), Poly.number(1), "a write")
        elif isinstance(target, c_ast.StructRef):
            place, old = self.value(s, target.name), self.value(s, target)
            assert isinstance(place, Place)
            if isinstance(old, Number) and isinstance(value, Number) and value.type != old.type:
                value = self.fits(s, replace(value, type=old.type), text_of(target))
            s.local[f"{place.path}.{target.field.name}"] = value
        else:
            raise Unproved(f"{self.where}: an assignment to {type(target).__name__}")


def written(s: State) -> dict[str, Value]:
    """Return the fields of structures that were written."""
    return {path: v for path, v in s.local.items() if "." in path}
