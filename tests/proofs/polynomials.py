"""Integers as polynomials over named numbers, formulas over them, and their proofs in linear arithmetic: a product of
names is a number of its own, and Z3 knows the consequences of its factors (see Facts.proves).
Fractions are allowed: their proofs hold for integers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from typing import Any

import z3

Monomial = tuple[str, ...]
Formula = Any  # True, False, ("le" | "eq", Poly) compared with 0, ("and" | "or", formulas), ("not", formula)


@dataclass(frozen=True)
class Poly:
    terms: tuple[tuple[Monomial, int], ...]

    @staticmethod
    def of(terms: dict[Monomial, int]) -> Poly:
        return Poly(tuple(sorted((m, c) for m, c in terms.items() if c)))

    @staticmethod
    def number(n: int) -> Poly:
        return Poly.of({(): n})

    @staticmethod
    def name(n: str) -> Poly:
        return Poly((((n,), 1),))

    def __add__(self, other: Poly) -> Poly:
        found = dict(self.terms)
        for m, c in other.terms:
            found[m] = found.get(m, 0) + c
        return Poly.of(found)

    def __mul__(self, other: Poly) -> Poly:
        found: dict[Monomial, int] = {}
        for m, c in self.terms:
            for n, d in other.terms:
                key = tuple(sorted(m + n))
                found[key] = found.get(key, 0) + c * d
        return Poly.of(found)

    def __neg__(self) -> Poly:
        return self * Poly.number(-1)

    def __sub__(self, other: Poly) -> Poly:
        return self + -other

    def plus(self, n: int) -> Poly:
        return self + Poly.number(n)

    def names(self) -> set[str]:
        return {n for m, _ in self.terms for n in m}

    def constant(self) -> int | None:
        return 0 if not self.terms else self.terms[0][1] if self.terms[0][0] == () and len(self.terms) == 1 else None

    def put(self, values: dict[str, Poly]) -> Poly:
        """Return the polynomial with others in the place of names."""
        if not values.keys() & self.names():
            return self
        found = Poly(())
        for m, c in self.terms:
            term = Poly.number(c)
            for n in m:
                term = term * values.get(n, Poly.name(n))
            found = found + term
        return found

    def divided(self, by: Poly) -> Poly | None:
        """Return the quotient by one term, where it divides all."""
        if len(by.terms) != 1:
            return None
        m, c = by.terms[0]
        found = {}
        for n, d in self.terms:
            left = list(n)
            for name in m:
                if name not in left:
                    return None
                left.remove(name)
            if d % c:
                return None
            found[tuple(left)] = d // c
        return Poly.of(found)


def le(a: Poly, b: Poly) -> Formula:
    return ("le", a - b)


def eq(a: Poly, b: Poly) -> Formula:
    return ("eq", a - b)


def both(*parts: Formula) -> Formula:
    return ("and", parts)


def negated(f: Formula) -> Formula:
    return ("not", f)


def polys(f: Formula) -> Iterable[Poly]:
    if isinstance(f, bool):
        return
    if f[0] in ("le", "eq"):
        yield f[1]
    else:
        for part in f[1] if f[0] in ("and", "or") else (f[1],):
            yield from polys(part)


def known(f: Formula) -> Iterable[Formula]:
    """Return the parts of a true formula that have no alternatives."""
    if isinstance(f, bool):
        return
    if f[0] == "and":
        for part in f[1]:
            yield from known(part)
    elif f[0] == "not" and not isinstance(f[1], bool) and f[1][0] == "or":
        for part in f[1][1]:
            yield from known(("not", part))
    elif f[0] == "not" and not isinstance(f[1], bool) and f[1][0] == "not":
        yield from known(f[1][1])
    else:
        yield f


# Z3's terms are made once: to make them takes longer than most proofs.
@cache
def symbol(m: Monomial) -> Any:
    return z3.Real("*".join(m))


@cache
def term(p: Poly) -> Any:
    return z3.Sum([c * symbol(m) if m else z3.RealVal(c) for m, c in p.terms] or [z3.RealVal(0)])


def formula(f: Formula, values: dict[str, Poly], true: bool = True) -> Any:
    """Translate for Z3, with no negation but of true and false: an integer that is not 0 at most is 1 at least."""
    if isinstance(f, bool):
        return z3.BoolVal(f is true)
    if f[0] == "not":
        return formula(f[1], values, not true)
    if f[0] in ("and", "or"):
        parts = [formula(part, values, true) for part in f[1]]
        return z3.And(*parts) if (f[0] == "and") is true else z3.Or(*parts)
    return compared(f[0], f[1].put(values), true)


@cache
def compared(op: str, p: Poly, true: bool) -> Any:
    if op == "le":
        return term(p) <= 0 if true else term(p) >= 1
    return term(p) == 0 if true else z3.Or(term(p) <= -1, term(p) >= 1)


@cache
def at_least(m: Monomial, least: Monomial | int) -> Any:
    return symbol(m) >= (least if isinstance(least, int) else symbol(least))


@cache
def at_most(m: Monomial, times: int, most: Monomial) -> Any:
    return symbol(m) <= times * symbol(most)


FRESH = count()


def fresh(name: str) -> Poly:
    return Poly.name(f"{name}#{next(FRESH)}")


@dataclass
class Types:
    """Hold the limits of names by their types alone. most: limits of those that are 0 at least."""

    formulas: list[Formula] = field(default_factory=list)
    most: dict[str, int] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)


@dataclass
class Facts:
    """Hold the facts at one place of a proof. positive: names that are 1 at least, natural: 0 at least."""

    formulas: list[Formula] = field(default_factory=list)
    natural: set[str] = field(default_factory=set)
    positive: set[str] = field(default_factory=set)
    types: Types = field(default_factory=Types)
    seconds: int = 20
    session: Session | None = None

    def copy(self) -> Facts:
        return Facts(list(self.formulas), set(self.natural), set(self.positive), self.types, self.seconds)

    def add(self, f: Formula) -> None:
        if f is not True:
            self.formulas.append(f)
        for part in known(f):
            if part[0] == "not" and not isinstance(part[1], bool) and part[1][0] == "eq":
                p = part[1][1]
                if len(p.terms) == 1 and len(p.terms[0][0]) == 1 and self.at_least_0(p.terms[0][0][0]):
                    self.positive.add(p.terms[0][0][0])

    def at_least_0(self, name: str) -> bool:
        return name in self.natural or name in self.positive or name in self.types.most

    def values(self) -> dict[str, Poly]:
        """Return names that are known to be a number, or another name."""
        found = {}
        for f in self.formulas:
            for part in known(f):
                if part[0] == "eq" and len(part[1].terms) <= 2:
                    rest = dict(part[1].terms)
                    constant = rest.pop((), 0)
                    if len(rest) == 1:
                        ((m, c),) = rest.items()
                        if len(m) == 1 and abs(c) == 1:
                            found[m[0]] = Poly.number(-constant * c)
                    elif len(rest) == 2 and not constant and all(len(m) == 1 for m in rest) and sum(rest.values()) == 0:
                        (a,), (b,) = sorted(rest)
                        if abs(rest[a,]) == 1:
                            found[b] = Poly.name(a)
        return {name: p.put(found) for name, p in found.items()}

    def proves(self, claim: Formula, products: Iterable[tuple[Poly, Poly]] = (), more: Iterable[Formula] = ()) -> bool:
        """Return True if the claim follows, in linear arithmetic, with products of pairs that are 0 at least."""
        return self.current().proves(claim, [*(("le", -(a * b)) for a, b in products), *more])

    def current(self) -> Session:
        """Return the solver that has these facts."""
        state = len(self.formulas), len(self.natural), len(self.positive), len(self.types.known)
        if self.session is None or self.session.state != state:
            self.session = Session(self, state)
        return self.session


class Session:
    """A solver that has the facts. products, richer: what was found of hints, by what they say here."""

    def __init__(self, facts: Facts, state: tuple[int, ...]) -> None:
        self.facts, self.state, self.values = facts, state, facts.values()
        self.solver = z3.SolverFor("QF_LRA")
        self.solver.set("timeout", 1000 * facts.seconds)
        self.seen: set[Monomial] = set()
        self.products: dict[Any, list[tuple[Poly, Poly]]] = {}
        self.richer: dict[Any, Facts] = {}
        self.add([*facts.types.formulas, *facts.formulas], self.seen)

    def proves(self, claim: Formula, more: list[Formula]) -> bool:
        self.solver.push()
        self.add([*more, ("not", claim)], set(self.seen))
        found = self.solver.check() == z3.unsat
        self.solver.pop()
        return bool(found)

    def have(self, f: Any) -> None:
        """Add without the conversions of Solver.add, which take half the time of all."""
        z3.Z3_solver_assert(self.solver.ctx.ref(), self.solver.solver, f.as_ast())

    def add(self, formulas: Iterable[Formula], seen: set[Monomial]) -> None:
        """Add formulas, and the limits of the products in them."""
        waiting = []
        for f in formulas:
            self.have(formula(f, self.values))
            waiting += [m for p in polys(f) for m, _ in p.put(self.values).terms]
        while waiting:
            m = waiting.pop()
            if m and m not in seen:
                seen.add(m)
                if all(self.facts.at_least_0(n) for n in m):
                    waiting += self.factors(m)

    def factors(self, m: Monomial) -> Iterable[Monomial]:
        facts = self.facts
        self.have(at_least(m, 1 if all(n in facts.positive for n in m) else 0))
        for n in set(m) if len(m) > 1 else ():
            left = list(m)
            left.remove(n)
            yield tuple(left)
            if n in facts.positive:
                self.have(at_least(m, tuple(left)))
            if n in facts.types.most:
                self.have(at_most(m, facts.types.most[n], tuple(left)))
