"""Requantisation in C: models of the functions of kernels/requant.h and of the kernels for this computer, compared with
the compiled functions on 100,000 inputs and proved for all."""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import z3
from words import (
    Arrays,
    Operations,
    Terms,
    Tree,
    Word,
    clamp,
    corners,
    first,
    int8_range,
    product_of_fast,
    refuted,
    rule,
)

INPUTS = 100_000
FOLDER = tempfile.TemporaryDirectory(prefix="mica-proofs-")  # it goes when Python ends


# --- models -----------------------------------------------------------------------------------------------


def requant_s8(ops: Operations, product: Word, shift: int, zero: Word, low: Word, high: Word) -> Word:
    if shift >= 1:
        t = ops.low(product >> 31)
        r = ((t >> (shift - 1)) + 1) >> 1
    else:
        wide = (product + (1 << (30 + shift))) >> (31 + shift)
        r = ops.low(clamp(ops, wide, -(1 << 30), 1 << 30))
    return clamp(ops, zero + r, low, high)


def requant_fast(ops: Operations, product: Word, shift: int, zero: Word, low: Word, high: Word) -> Word:
    """product: of acc, not of 2 * acc."""
    t = ops.low(2 * product >> 32)
    return clamp(ops, zero + (((t >> (shift - 1)) + 1) >> 1), low, high)


def from_halves(ll: Word, lh: Word, hl: Word, hh: Word) -> Word:
    """floor(acc * mult / 2^31) of the products al * ml, al * mh, ah * ml, ah * mh: what ARMv6-M has."""
    return 2 * hh + ((lh + hl + (ll >> 16)) >> 15)


def packed(ops: Operations, product: Word, shift: int, zero: Word, low: Word, high: Word) -> Word:
    """AVX2 and AVX-512: as requant_s8, saturated to an int8 before the clamp."""
    r = zero + (((ops.low(product >> 31) >> (shift - 1)) + 1) >> 1)
    return clamp(ops, clamp(ops, r, -128, 127), low, high)


# --- the compiled functions -------------------------------------------------------------------------------

LOOPS = """
#include "requant.h"
typedef const int *in_t;
#define ARGS int n, in_t acc, in_t mult, in_t shift, in_t zero, in_t low, in_t high, int *y
#define LOOP(name, function) void name(ARGS) { \\
    for (int i = 0; i < n; ++i) y[i] = function(acc[i], mult[i], shift[i], zero[i], low[i], high[i]); }
LOOP(run_s8, mica_requant_s8)
LOOP(run_fast, mica_requant_fast)
"""
# `store` of one block with 16 equal channels.
BLOCKS = """
#include "%s.c"
typedef const int *in_t;
#define ARGS int n, in_t acc, in_t mult, in_t shift, in_t zero, in_t low, in_t high, int *y
MICA_%s void run(ARGS) {
    for (int i = 0; i < n; ++i) {
        int32_t mults[16], accs[16];
        int8_t shifts[16], out[16];
        for (int k = 0; k < 16; ++k) { mults[k] = mult[i]; shifts[k] = shift[i]; accs[k] = acc[i]; }
        mica_block_t b = { .mult = mults, .shift = shifts, .zero = zero[i], .low = low[i], .high = high[i] };
        b.channels = 16;
        scale_t scale = scale_of(&b);
        sums_t sums;
        __builtin_memcpy(&sums, accs, sizeof(sums));
        store(&scale, sums, 16, out);
        y[i] = out[i %% 16];
    }
}
"""


def samples(seed: int, shifts: tuple[int, int], acc_bits: int) -> list[np.ndarray]:
    """acc, mult, shift, zero, low, high"""
    rng = np.random.default_rng(seed)
    low, high = np.sort(rng.integers(-128, 128, (2, INPUTS)), axis=0)
    clamps = rng.random(INPUTS) < 0.5
    low, high = np.where(clamps, low, -128), np.where(clamps, high, 127)
    acc, mult = corners(rng, INPUTS, acc_bits), corners(rng, INPUTS, 31, signed=False)
    zero = rng.integers(-128, 128, INPUTS)
    return [a.astype(np.int32) for a in (acc, mult, rng.integers(*shifts, INPUTS), zero, low, high)]


def compiled(library: Path, name: str, arrays: list[np.ndarray]) -> np.ndarray:
    y = np.empty(INPUTS, np.int32)
    pointers = [a.ctypes.data_as(ctypes.c_void_p) for a in (*arrays, y)]
    getattr(ctypes.CDLL(str(library)), name)(INPUTS, *pointers)
    return y


def compare(library: Path, name: str, arrays: list[np.ndarray], model: Word) -> str | None:
    """Return the first place at which the compiled function and the model differ, or None."""
    acc, mult, shift, *rest = arrays
    found = compiled(library, name, arrays)
    product = acc.astype(np.int64) * mult
    for s in np.unique(shift):
        of = shift == s
        expected = model(Arrays, product[of], int(s), *(v[of] for v in rest))
        wrong = np.flatnonzero(found[of] != expected)
        if wrong.size:
            values = [int(a[of][wrong[0]]) for a in arrays]
            return f"{name}{tuple(values)} is {found[of][wrong[0]]}, the model says {expected[wrong[0]]}"
    return None


def library(tree: Tree, source: str, *flags: str) -> Path:
    return tree.library(source, Path(tempfile.mkdtemp(dir=FOLDER.name)) / "functions.so", *flags)


# --- theorems ---------------------------------------------------------------------------------------------


def all_shifts(model: Word, shifts: range, product: Word, known: list[Word]) -> Iterator[str | None]:
    (zero, low, high), ranges = int8_range()
    for s in shifts:
        got = model(Terms, product, s, zero, low, high)
        found = refuted([*known, *ranges], got == rule(product, s, zero, low, high))
        yield found and f"shift {s}: {found}"


def any_product() -> tuple[Word, list[Word]]:
    """acc * mult lies between -2^31 * (2^31 - 1) and (2^31 - 1)^2."""
    p = z3.BitVec("p", 64)
    return p, [p >= -(1 << 62) + (1 << 31), p <= (1 << 62) - (1 << 32) + 1]


def s8(tree: Tree) -> str | None:
    return compare(library(tree, LOOPS), "run_s8", samples(1, (1, 32), 31), requant_s8) or first(
        all_shifts(requant_s8, range(1, 32), *any_product())
    )


def s8_up(tree: Tree) -> str | None:
    return compare(library(tree, LOOPS), "run_s8", samples(2, (-30, 1), 31), requant_s8) or first(
        all_shifts(requant_s8, range(-30, 1, 1 if tree.whole else 3), *any_product())
    )


def fast(tree: Tree) -> str | None:
    return compare(library(tree, LOOPS), "run_fast", samples(3, (1, 32), 29), requant_fast) or first(
        all_shifts(requant_fast, range(1, 32), *product_of_fast())
    )


def requant_s16(ops: Operations, product: Word, shift: int, zero: Word, low: Word, high: Word) -> Word:
    v = (product + (1 << (30 + shift))) >> (31 + shift)
    return ops.low(ops.choose(v < ops.wide(low), ops.wide(low), ops.choose(v > ops.wide(high), ops.wide(high), v)))


LOOP_S16 = """
#include "wide.c"
typedef const int *in_t;
void run_s16(int n, in_t acc, in_t mult, in_t shift, in_t zero, in_t low, in_t high, int *y) {
    for (int i = 0; i < n; ++i) y[i] = mica_requant_s16((long long)acc[i], mult[i], shift[i], low[i], high[i]);
}
"""


def s16(tree: Tree) -> str | None:
    """The rule for each product below 2^62; and conv2d_s16's check refuses what is not."""
    found = compare(library(tree, LOOP_S16), "run_s16", samples(4, (-30, 32), 31), requant_s16)
    product, low, high = z3.BitVec("p", 64), *z3.BitVecs("low high", 32)
    known = [product > -(1 << 62), product < 1 << 62, low >= -(1 << 15), low <= high, high <= 1 << 16]
    for s in range(-30, 32) if not found else ():
        got, zero = requant_s16(Terms, product, s, z3.BitVecVal(0, 32), low, high), z3.BitVecVal(0, 32)
        wrong = refuted(known, got == rule(product, s, zero, low, high))
        found = found or (wrong and f"shift {s}: {wrong}")
    limits = "if (reach >> 47 || ((reach >> 16) + 1) * (uint32_t)p->mult[o] > (uint64_t)1 << 46) {"
    if limits not in tree.read("usermod_c/kernels/ref/conv2d_s16.c"):
        return found or "conv2d_s16 has another limit"
    reach, upper, mult = z3.Ints("reach upper mult")  # upper = (reach >> 16) + 1
    known = [reach >= 0, mult >= 0, mult < 1 << 31, upper * mult <= 1 << 46, reach < (1 << 16) * upper]
    return found or refuted(known, reach * mult < 1 << 62)


def halves_model(ops: Operations, product: Word, shift: int, zero: Word, low: Word, high: Word, t: Word = None) -> Word:
    return clamp(ops, zero + (((t >> (shift - 1)) + 1) >> 1), low, high)


def halves_of(acc: Word, mult: Word) -> tuple[Word, Word, Word, Word]:
    al = acc.astype(np.int16).astype(np.int32)
    return al, (acc - al) >> 16, mult & 0xFFFF, mult >> 16


def bounded_halves() -> tuple[tuple[Word, ...], list[Word], Word]:
    """Products of halves as words of 32 bits, their bounds, and the whole product: |acc| < 2^29, 0 <= mult < 2^31."""
    ll, lh, hl, hh = words = z3.BitVecs("ll lh hl hh", 32)
    # al in [-2^15, 2^15), ah in [-2^13, 2^13], ml in [0, 2^16), mh in [0, 2^15)
    bounds = [(ll, 32768 * 65535), (lh, 32768 * 32767), (hl, 8192 * 65535), (hh, 8192 * 32767)]
    known = [z3.And(v >= -most, v <= most) for v, most in bounds]
    whole = (Terms.wide(hh) << 32) + ((Terms.wide(lh) + Terms.wide(hl)) << 16) + Terms.wide(ll)
    return tuple(words), [*known, whole > -(1 << 60), whole < 1 << 60], whole


def halves(tree: Tree) -> str | None:
    arrays = samples(4, (1, 32), 29)
    al, ah, ml, mh = halves_of(*arrays[:2])
    t = from_halves(al * ml, al * mh, ah * ml, ah * mh)
    shift, zero, low, high = arrays[2:]
    found = compiled(library(tree, LOOPS, "-D__ARM_ARCH_6M__"), "run_fast", arrays)
    wrong = np.flatnonzero(found != clamp(Arrays, zero + (((t >> (shift - 1)) + 1) >> 1), low, high))
    if wrong.size:
        return f"mica_requant_fast{tuple(int(a[wrong[0]]) for a in arrays)} is {found[wrong[0]]}"
    words, known, whole = bounded_halves()
    ll, lh, hl, _ = (Terms.wide(w) for w in words)
    middle = lh + hl + (ll >> 16)
    return refuted(known, from_halves(*words) == Terms.low(whole >> 31)) or refuted(
        known, z3.And(middle < 1 << 31, middle >= -(1 << 31))
    )


FEATURES = {"avx2": ["avx2"], "vnni": ["avx2", "avx512f", "avx512bw", "avx512vl", "avx512vnni"]}


def has(isa: str) -> bool:
    """Return True if this processor runs the kernels of x86/ISA.c."""
    cpu = Path("/proc/cpuinfo")
    words = cpu.read_text(encoding="utf-8").replace("avx512_", "avx512").split() if cpu.exists() else []
    return set(words).issuperset(FEATURES[isa])


def _packed(tree: Tree, isa: str) -> str | None:
    found = None
    if has(isa):  # elsewhere nothing says that the model is the C
        flags = [f"-m{feature}" for feature in FEATURES[isa]]
        source = library(tree, BLOCKS % (isa, isa.upper()), "-Wl,--unresolved-symbols=ignore-all", *flags)
        found = compare(source, "run", samples(5, (1, 32), 31), packed)
    return found or first(all_shifts(packed, range(1, 32), *any_product()))


def avx2(tree: Tree) -> str | None:
    return _packed(tree, "avx2")


def vnni(tree: Tree) -> str | None:
    return _packed(tree, "vnni")


# --- layer_norm_s8's product ------------------------------------------------------------------------------

PRODUCT = """
#include "integer_math.h"
void run_20(int n, const int *a, const int *b, int *y) {
    for (int i = 0; i < n; ++i) y[i] = mica_product_20(a[i], b[i]);
}
"""


def from_four(ll: Word, lh: Word, hl: Word, hh: Word) -> tuple[Word, Word, Word]:
    """one, two and the result, in 64 bits, of the products of halves: a_low * b_low, a_low * b_high and so on."""
    one = hl + (ll >> 16)
    two = lh + (one & 0xFFFF)
    return one, two, ((hh + (one >> 16) + (two >> 16)) << 12) | ((two & 0xFFFF) >> 4)


def product_20(tree: Tree) -> str | None:
    rng = np.random.default_rng(6)
    a, b = (corners(rng, INPUTS, 31).astype(np.int32) for _ in range(2))
    found = compiled(library(tree, PRODUCT, "-DMICA_TEST_HALVES"), "run_20", [a, b])
    halves = [(v & 0xFFFF, v >> 16) for v in (a.astype(np.int64), b.astype(np.int64))]
    products = [halves[0][i] * halves[1][k] for i in (0, 1) for k in (0, 1)]
    wrong = np.flatnonzero(found != from_four(*products)[2].astype(np.int32))
    if wrong.size:
        return f"mica_product_20({a[wrong[0]]}, {b[wrong[0]]}) is {found[wrong[0]]}"
    words = ll, lh, hl, hh = z3.BitVecs("ll lh hl hh", 64)
    low, mixed, high = 65535 * 65535, (-32768 * 65535, 32767 * 65535), 32768 * 32768
    known = [ll >= 0, ll <= low, hh >= -high, hh <= high, *(z3.And(v >= mixed[0], v <= mixed[1]) for v in (lh, hl))]
    one, two, result = from_four(*words)
    fits = z3.And(*(z3.And(v >= -(1 << 31), v < 1 << 31) for v in (one, two)))
    whole = (hh << 32) + ((lh + hl) << 16) + ll
    return refuted(known, z3.And(fits, Terms.low(result) == Terms.low(whole >> 20)))
