"""Requantisation in the assembly of each core: the macros' text, run by assembly.py, does what SPEC says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import z3
from assembly import Line, Machine, expand, macros, outcomes
from requantisation import bounded_halves
from words import Tree, Word, first, int8_range, product_of_fast, refuted, rule

ISA = "usermod_c/kernels/isa/"
MULT = z3.BitVec("mult", 32)
ACC = z3.BitVec("acc", 32)
RETURN = Line("ret", ())


def constant(v: int) -> Word:
    return z3.BitVecVal(v, 32)


def some(shifts: range, tree: Tree) -> Sequence[int]:
    """All of these shifts, or with a part the first and the last: one can take Z3 half a second."""
    return shifts if tree.whole else (shifts[0], shifts[-1])


def high_words(product: Word, times: int = 1) -> Callable[[Word, Word], Word]:
    """Upper word of `times` * product, for ACC or ACC doubled, whichever an instruction has."""

    def high(a: Word, b: Word) -> Word:
        for n in (1, 2):
            if b.eq(MULT) and refuted([], a == n * ACC) is None:
                return z3.Extract(63, 32, n * times * product)
        return z3.FreshConst(z3.BitVecSort(32))  # of other numbers, of which nothing is known

    return high


def claims(
    name: str,
    lines: list[Line],
    shifts: Sequence[int],
    registers: Callable[[int, Word, Word, Word], dict[str, Word]],
    *,
    times: int = 1,
    doubled: bool = False,
    clamps: bool = False,
) -> Iterator[str | None]:
    """For each shift: every way stores what the rule says. clamps: to act_min and act_max, else to an int8.
    times: the sums are so many times as large, doubled: of the doubled upper word."""
    product, known = product_of_fast()
    (zero, low, high), ranges = int8_range()
    if not clamps:
        low, high = constant(-128), constant(127)
    for shift in shifts:
        given = registers(shift, zero, low, high)
        machine = Machine(given, high_words(product, 2 * times if doubled else times))
        ways = list(outcomes(machine, lines))
        assert ways
        wanted = rule(product, shift, zero, low, high)
        for condition, byte in ways:
            found = refuted([*known, *ranges, condition], byte == wanted)
            yield found and f"{name}, shift {shift}: {found}"
        yield refuted([*known, *ranges], z3.Or(*(condition for condition, _ in ways)))


# --- ARMv6-M ----------------------------------------------------------------------------------------------


def armv6m(tree: Tree) -> str | None:
    all_macros = macros(tree.read(ISA + "armv6m/hot.inc"))
    lines = expand(all_macros, "MICA_SCALE", "r0")
    words, known, whole = bounded_halves()
    al = z3.SignExt(16, z3.Extract(15, 0, ACC))
    ah, ml, mh = (ACC - al) >> 16, *z3.BitVecs("ml mh", 32)
    halves = {(0, 0): words[0], (0, 1): words[1], (1, 0): words[2], (1, 1): words[3]}

    def low(a: Word, b: Word) -> Word:
        for (i, j), word in halves.items():
            x, y = (al, ah)[i], (ml, mh)[j]
            if refuted([], z3.Or(z3.And(a == x, b == y), z3.And(a == y, b == x)), 5) is None:
                return word
        raise AssertionError(f"a product of {a} and {b}")

    machine = Machine({"r0": ACC, "r6": ml, "r7": mh}, low=low)
    machine.run(lines)
    scaled = machine.registers["r5"]
    found = refuted(known, scaled == z3.Extract(62, 31, whole))
    return found or first(armv6m_rest(all_macros, some(range(1, 23), tree)))


def armv6m_rest(all_macros: dict[str, tuple[list[str], list[str]]], shifts: Sequence[int]) -> Iterator[str | None]:
    """Prove the lines behind MICA_SCALE in MICA_REQUANT, with r5 = floor(acc * mult / 2^31)."""
    lines = expand(all_macros, "MICA_REQUANT", "r0", "x")
    lines = [*lines[len(expand(all_macros, "MICA_SCALE", "r0")) :], RETURN, *expand(all_macros, "MICA_SATURATE", "x")]
    product, _ = product_of_fast()
    scaled = z3.Extract(62, 31, product)

    def registers(shift: int, zero: Word, low: Word, high: Word) -> dict[str, Word]:
        add = constant(1 << (shift - 1)) + ((zero - low) << shift)
        return {"r5": scaled, "r8": low, "r9": add, "r10": high - low, "r11": constant(shift)}

    yield from claims("MICA_REQUANT", lines, shifts, registers, clamps=True)


# --- Armv7E-M and Armv8-M ---------------------------------------------------------------------------------


def armv7em(tree: Tree) -> str | None:
    return first(armv7em_ways(tree))


def armv7em_ways(tree: Tree) -> Iterator[str | None]:
    def registers(*names: str) -> Callable[[int, Word, Word, Word], dict[str, Word]]:
        acc, mult, add, by = names

        def given(shift: int, zero: Word, low: Word, high: Word) -> dict[str, Word]:
            adds = (2 * zero + 1) << (shift - 2)
            return {acc: ACC, "r9": ACC, mult: MULT, add: adds, by: constant(shift - 1)}

        return given

    # Sums are doubled where a shift is too small for SMMLA, or until it is that of `fixed`.
    product, _ = product_of_fast()
    values, ranges = int8_range()
    for s in range(1, 11):
        for more in {1, 11 - s}:
            fits = [product < 1 << (62 - more), product > -(1 << (62 - more))]
            yield refuted([*fits, *ranges], rule(product << more, s + more, *values) == rule(product, s, *values))
    gemm = macros(tree.read(ISA + "armv7em/gemm.S"))
    yield from claims(
        "CHANNEL",
        expand(gemm, "CHANNEL", "r5", "r9", "1"),
        some(range(2, 23), tree),
        registers("r5", "r2", "r3", "r12"),
    )
    yield from claims(
        "CHANNEL1", expand(gemm, "CHANNEL1", "r5", "1"), some(range(2, 23), tree), registers("r5", "r2", "r3", "r12")
    )
    depthwise = macros(tree.read(ISA + "armv7em/depthwise.S"))
    for mult, add in (("r3", "lr"), ("r2", "r3")):
        for fixed in "01":
            lines = expand(depthwise, "REQUANTISE", fixed, mult, add, "r4")
            lines = [Line(x.op, tuple(a.replace("#SHIFT", "#10") for a in x.args)) for x in lines]
            if fixed == "0":  # the shift is loaded over the multiplier, behind the product
                lines = [Line("mov", (mult, "by")) if x.op == "ldr" else x for x in lines]
            lines.append(Line("strb", ("r4",)))
            shifts = range(11, 12) if fixed == "1" else some(range(2, 23), tree)
            yield from claims(f"REQUANTISE {fixed}", lines, shifts, registers("r4", mult, add, "by"))


# --- RV32IM -----------------------------------------------------------------------------------------------


def rv32(tree: Tree) -> str | None:
    return first(rv32_ways(tree))


def rv32_ways(tree: Tree) -> Iterator[str | None]:
    """gemm.S and depthwise.S with the constants of mica_rv32_requant; winograd.S, whose sums are four times theirs."""
    shared = macros(tree.read(ISA + "rv32imc/registers.inc"))
    for name, store, saturate, regs, four in (
        ("gemm", ("s0", "a4", "1", "x"), ("s0", "x"), ("s0", "t0", "t1", "t2", "a2"), 1),
        ("depthwise", ("s0", "x"), ("s0", "x"), ("s0", "s9", "s10", "s11", "a7"), 1),
        ("winograd", ("s0", "a4", "x"), ("s0", "x"), ("s0", "t3", "t4", "t5", "a2"), 4),
    ):

        def registers(
            shift: int, zero: Word, low: Word, high: Word, r: tuple[str, ...] = regs, n: int = four
        ) -> dict[str, Word]:
            by = shift - 1 if n == 1 else shift + 1
            add = constant(1 << (by - 1)) + ((zero + 128) << by)
            return {r[0]: ACC, r[1]: MULT, r[2]: add, r[3]: constant(by), r[4]: constant(255)}

        found = shared | macros(tree.read(f"{ISA}rv32imc/{name}.S"))
        lines = [*expand(found, "STORE", *store), RETURN, *expand(found, "SATURATE", *saturate, regs[-1])]
        yield from claims(f"rv32 {name}", lines, some(range(2, 22), tree), registers, times=four)
    dense = shared | macros(tree.read(ISA + "rv32imc/dense.S"))
    lines = [*expand(dense, "STORE", "s0", "1"), RETURN, *expand(dense, "SATURATE", "s0", "1", "a5")]

    def of_dense(shift: int, zero: Word, low: Word, high: Word) -> dict[str, Word]:
        return {"s0": ACC, "t0": MULT, "t1": constant(shift), "a4": zero - low, "a5": high - low, "a6": low}

    yield from claims("rv32 dense", lines, some(range(1, 23), tree), of_dense, clamps=True)


# --- Armv8.1-M with MVE -----------------------------------------------------------------------------------


def mve_lines(text: str, v: str) -> list[Line]:
    """From the first VQDMULH of vector v to its VMIN."""
    lines = []
    for raw in text[text.index(f"vqdmulh.s32 {v}") :].splitlines():
        op, _, rest = raw.split("//")[0].strip().partition(" ")
        args = tuple(a.strip() for a in rest.split(","))
        if args[0] == v:
            lines.append(Line(op, args))
            if op == "vmin.s32":
                break
    return [*lines, Line("vstrb.32", (v,))]


def mve(tree: Tree) -> str | None:
    return first(mve_ways(tree))


def mve_ways(tree: Tree) -> Iterator[str | None]:
    for name, v in (("gemm", "q0"), ("gemm", "q1"), ("dense", "q0"), ("depthwise", "\\v")):
        lines = mve_lines(tree.read(f"{ISA}armv81m/{name}.S"), v)
        mult, by, zero_in, low_in, high_in = (x.args[2] for x in lines[:-1])

        def registers(
            shift: int, zero: Word, low: Word, high: Word, n: tuple[str, ...] = (v, mult, by, zero_in, low_in, high_in)
        ) -> dict[str, Word]:
            return dict(zip(n, (ACC, MULT, constant(-shift), zero, low, high), strict=True))

        yield from claims(f"mve {name}", lines, some(range(1, 23), tree), registers, doubled=True, clamps=True)


# --- two channels with one multiplication -----------------------------------------------------------------


def rv32_pairs(tree: Tree) -> str | None:
    """PIXEL of rv32imc/gemm.S: T - U * 2^16 and U grow by the sums of channels 0 and 1."""
    lines = expand(macros(tree.read(ISA + "rv32imc/gemm.S")), "PIXEL", "0", "0", "t01", "u01", "t23", "u23")
    known: list[Word] = []
    products: dict[tuple[str, str], tuple[Word, Word]] = {}

    def low(x: Word, w: Word) -> Word:
        """x * (w0 + w1 * 2^16), of any x in an int8 and w0, w1 of at least -127."""
        pair = str(x), str(w)
        if pair not in products:
            products[pair] = one, other = z3.BitVecs(f"{x}*{w}0 {x}*{w}1", 32)
            known.extend(z3.And(v >= -128 * 127, v <= 128 * 127) for v in (one, other))
        one, other = products[pair]
        return one + (other << 16)

    t, u = z3.BitVecs("t u", 32)
    given = {"t0": z3.BitVec("x", 32), "t1": z3.BitVec("y", 32), "a3": constant(0x8000)}
    given |= {a: z3.BitVec(a, 32) for a in ("a4", "a5", "a6", "a7")} | {"t01": t, "u01": u, "t23": t, "u23": u}
    loaded = dict(given)
    machine = Machine(given, low=low)
    machine.run(lines)

    def ways() -> Iterator[str | None]:
        for k, (w, v) in (("01", ("a4", "a6")), ("23", ("a5", "a7"))):
            if {(str(loaded["t0"]), w), (str(loaded["t1"]), v)} - set(products):
                yield f"channels {k}: other products than those of x and y"
                return
            sums = [a + b for a, b in zip(products["x", w], products["y", v], strict=True)]
            grown_t, grown_u = machine.registers[f"t{k}"] - t, machine.registers[f"u{k}"] - u
            yield refuted(known, z3.And(grown_u == sums[1], grown_t - (grown_u << 16) == sums[0]))

    return first(ways())
