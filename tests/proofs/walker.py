"""Follows functions in C with polynomials for integers: every access inside its buffer, no integer beyond its type.

The text of the function itself is read. A loop's variables have a closed form, and an iteration is checked to go from n
to n + 1; or they have an invariant that the kernel gives. Buffers hold any numbers: sums are another theorem's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from c_source import Invariant, Number, Place, Pointer, State, Unproved, Value, changed, parsed, poly_of
from expressions import Expressions, written
from polynomials import Formula, Poly, eq, fresh, le, negated, polys
from pycparser import c_ast


class Walker(Expressions):
    """Expressions, and the statements around them."""

    def call(self, state: State, name: str, args: list[Value]) -> list[State]:
        """Return the ways through a function of this source."""
        f = self.source.functions[name]
        inner = State(state.facts.copy(), written(state))
        before, self.where, outer = self.where, name, self.outer
        self.outer = {**outer, **state.local}
        try:
            for p, arg in zip(f.decl.type.args.params if f.decl.type.args else (), args, strict=False):
                self.bind(inner, p.name, arg, p.type)
            return self.run([inner], f.body)
        finally:
            self.where, self.outer = before, outer

    def ways(self, s: State, node: c_ast.Node) -> list[tuple[State, Value]]:
        """Return the value of a whole expression; of a call or a choice one for each way."""
        if isinstance(node, c_ast.FuncCall) and node.name.name not in self.contracts:
            args = [self.value(s, a) for a in (node.args.exprs if node.args else [])]
            ends = self.call(s, node.name.name, args)
            return [(State(e.facts, s.local | written(e)), e.result or Number(Poly(()))) for e in ends]
        if isinstance(node, c_ast.BinaryOp) and node.op == "+" and isinstance(node.right, c_ast.FuncCall):
            left = self.value(s, node.left)
            return [(way, self.plus(way, left, right)) for way, right in self.ways(s, node.right)]
        if isinstance(node, c_ast.TernaryOp):
            f, found = self.condition(s, node.cond), []
            for condition, part in ((f, node.iftrue), (negated(f), node.iffalse)):
                way = s.copy()
                way.facts.add(condition)
                if f is not (part is node.iffalse) and not way.facts.proves(False):
                    found += self.ways(way, part)
            return found
        return [(s, self.value(s, node))]

    # --- statements

    def run(self, states: list[State], node: c_ast.Node | None) -> list[State]:
        if node is None:
            return states
        done = [s for s in states if s.returned]
        for s in states:
            if not s.returned:
                done += self.statement(s, node)
        return done

    def statement(self, s: State, node: c_ast.Node) -> list[State]:
        if isinstance(node, c_ast.Compound):
            states = [s]
            for item in node.block_items or ():
                states = self.run(states, item)
            return states
        if isinstance(node, c_ast.DeclList):
            states = [s]
            for d in node.decls:
                states = self.run(states, d)
            return states
        if isinstance(node, c_ast.Decl):
            if node.init is None:
                s.local.pop(node.name, None)
                return [s]
            ways = self.ways(s, node.init)
            for way, value in ways:
                self.bind(way, node.name, value, node.type)
            return [way for way, _ in ways]
        if isinstance(node, c_ast.If):
            return self.branch(s, node)
        if isinstance(node, c_ast.For):
            states = self.run([s], node.init)
            assert len(states) == 1
            return [self.loop(states[0], node.cond, node.next, node.stmt)]
        if isinstance(node, c_ast.While):
            return [self.loop(s, node.cond, None, node.stmt)]
        if isinstance(node, c_ast.Return):
            ends = []
            for way, value in self.ways(s, node.expr) if node.expr is not None else [(s, None)]:
                ends.append(State(way.facts, way.local, value, True))
            return ends
        if isinstance(node, c_ast.Assignment):
            right = node.rvalue if node.op == "=" else c_ast.BinaryOp(node.op[:-1], node.lvalue, node.rvalue)
            ways = self.ways(s, right)
            for way, value in ways:
                self.assign(way, node.lvalue, value)
            return [way for way, _ in ways]
        if isinstance(node, c_ast.EmptyStatement):
            return [s]
        if isinstance(node, c_ast.ExprList):
            for e in node.exprs:
                self.statement(s, e)
            return [s]
        self.value(s, node)
        return [s]

    def branch(self, s: State, node: c_ast.If) -> list[State]:
        f = self.condition(s, node.cond)
        other = s.copy()
        s.facts.add(f)
        other.facts.add(negated(f))
        states = []
        for state, part in ((s, node.iftrue), (other, node.iffalse)):
            if f is not (state is other) and not state.facts.proves(False):
                states += self.run([state], part)
        return states

    # --- loops

    def loop(self, s: State, cond: c_ast.Node | None, after: c_ast.Node | None, body: c_ast.Node) -> State:
        names = sorted((changed(body) | changed(after)) & set(s.local))
        n = fresh("n")
        deltas, chosen = self._deltas(s, names, cond, after, body)
        ghost = fresh("ghost") if chosen else None

        def at(k: Poly) -> dict[str, Value]:
            found = dict(s.local)
            for name, delta in deltas.items():
                v = found[name]
                moved = delta * k
                found[name] = (
                    replace(v, at=v.at + moved) if isinstance(v, Pointer) else replace(v, poly=v.poly + moved)
                    if isinstance(v, Number) else v
                )  # fmt: skip
            return found

        state = State(s.facts.copy(), at(n))
        state.facts.natural |= n.names()
        state.facts.add(le(Poly(()), n))
        for name in names:
            if name not in deltas:
                old = s.local[name]
                state.local[name] = (
                    replace(old, at=fresh(name)) if isinstance(old, Pointer)
                    else self.unknown(state, fresh(name).terms[0][0][0], old.type, old.data)
                    if isinstance(old, Number) else old
                )  # fmt: skip
        if chosen and ghost is not None:
            self._invariant_begins(s, chosen)
            self._put_ghost(s, state, chosen, ghost)
        times = self._times(s, at, n, cond)
        inner = state.copy()
        if times is not None:
            inner.facts.add(le(n.plus(1), times))
        if cond is not None:
            inner.facts.add(self.condition(inner, cond))
        for first, end, says in self.spans:
            for name in names:
                v = inner.local[name]
                for k in [v.poly, v.poly + first] if isinstance(v, Number) and not v.data else ():
                    inner.facts.add(("or", (le(k.plus(1), first), le(end, k), says(k))))
        # A trial only wants the steps, which are found: to go on would follow a loop inside of n others 2^n times.
        ends = [] if self.quiet else self.run(self.run([inner], body), after)
        wanted = at(n.plus(1))
        for end in ends:
            if end.returned:
                raise Unproved(f"{self.where}: a loop that returns")
            for name in deltas:
                got, want = end.local[name], wanted[name]
                difference = poly_of(got) - poly_of(want)
                if difference.terms:
                    self.prove(end, eq(difference, Poly(())), f"{name} has another form")
            if chosen and ghost is not None:
                self._invariant_goes_on(s, end, chosen)
        if times is not None:
            last = at(times)
            return State(s.facts, {**state.local, **{name: last[name] for name in deltas}})
        leaving = state
        if cond is not None:
            leaving.facts.add(negated(self.condition(leaving, cond)))
        return leaving

    def _deltas(
        self, s: State, names: list[str], cond: Any, after: Any, body: Any
    ) -> tuple[dict[str, Poly], Invariant | None]:
        """Return the step of each variable that is the same in every iteration."""
        trial = s.copy()
        marks: dict[str, Poly] = {}
        for name in names:
            v = trial.local[name]
            marks[name] = mark = fresh(name)
            if isinstance(v, Pointer):
                trial.local[name] = replace(v, at=mark)
            elif isinstance(v, Number):
                trial.local[name] = replace(v, poly=mark)
        before = set(marks) | {n for m in marks.values() for n in m.names()}
        chosen = next(
            (i for i in self.invariants if i.of in names and i.variable in names and i.pointer in names), None
        )
        spans = list(self.spans)
        self.quiet += 1
        try:
            if cond is not None:
                trial.facts.add(self.condition(trial, cond))
            ends = self.run(self.run([trial], body), after)
        finally:
            self.quiet -= 1
            self.spans = spans
        known = {n for v in s.local.values() for n in poly_of(v).names()} | {
            n for f in s.facts.formulas for p in polys(f) for n in p.names()
        }
        found = {}
        for name in names:
            v = s.local[name]
            if isinstance(v, Place) or (isinstance(v, Number) and v.data):
                continue
            steps = {poly_of(end.local[name]) - marks[name] for end in ends}
            if len(steps) == 1:
                (step,) = steps
                new = {n for n in step.names() if n not in known and "#" in n}
                if not step.names() & before and not new:
                    found[name] = step
        return found, chosen

    def _times(self, s: State, at: Callable[[Poly], dict[str, Value]], n: Poly, cond: Any) -> Poly | None:
        """Return the number of iterations of a loop `i < end` or `i != end`, or None."""
        if not isinstance(cond, c_ast.BinaryOp) or cond.op not in ("<", "!="):
            return None
        trial = State(s.facts.copy(), at(n))
        self.quiet += 1
        try:
            left, right = self.value(trial, cond.left), self.value(trial, cond.right)
        except (KeyError, AssertionError):
            return None
        finally:
            self.quiet -= 1
        difference = poly_of(right) - poly_of(left)
        times = difference + n
        if times.names() & n.names():
            return None
        some = le(Poly(()), times)
        # A trial only guesses: its forms are proved afterwards.
        return times if self.quiet or s.facts.proves(some) or s.facts.proves(some, self.products(s)) else None

    # --- invariants

    def _holds(self, s: State, i: Invariant) -> Formula:
        """Return the invariant: numbers of any size, not of C."""
        self.quiet += 1
        try:
            return self.condition(s, parsed(i.holds))
        finally:
            self.quiet -= 1

    def _invariant_begins(self, s: State, i: Invariant) -> None:
        start = State(s.facts, {**s.local, i.ghost: Number(Poly(()))})
        self.prove(start, self._holds(start, i), f"the invariant of {i.of}, at first")

    def _put_ghost(self, s: State, state: State, i: Invariant, ghost: Poly) -> None:
        state.facts.natural |= ghost.names()
        state.facts.add(le(Poly(()), ghost))
        pointer = s.local[i.pointer]
        assert isinstance(pointer, Pointer)
        step = self.number(state, parsed(i.step)).poly
        state.local[i.ghost] = Number(ghost)
        state.local[i.pointer] = replace(pointer, at=pointer.at + ghost * step)
        state.facts.add(self._holds(state, i))

    def _invariant_goes_on(self, s: State, end: State, i: Invariant) -> None:
        pointer, first = end.local[i.pointer], s.local[i.pointer]
        assert isinstance(pointer, Pointer) and isinstance(first, Pointer)
        step = self.number(end, parsed(i.step)).poly
        moved = pointer.at - first.at
        ghost = moved.divided(step) if step.constant() != 1 else moved
        if ghost is None:
            raise Unproved(f"{self.where}: {i.pointer} does not move by whole {i.step}")
        last = State(end.facts, {**end.local, i.ghost: Number(ghost)})
        self.prove(last, self._holds(last, i), f"the invariant of {i.of}")
