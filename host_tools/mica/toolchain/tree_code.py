"""Decision trees as C code, which `mica natmod --for` compiles into the native module.

A .mica file holds forests and ranks as tables. Each becomes a function of branches that gives the same bytes.
A step that is loaded runs this function if its tables have the lengths and the CRC-32 of those that the code was made
from; every other step runs its kernel.
"""

import zlib
from collections.abc import Iterator, Sequence

import numpy as np

from mica.file.codec import ModelFile, StepRecord
from mica.kernels.base import ACT
from mica.kernels.tabular import FIELD, FIELD_SHIFT, LEAF_NODE, MORE_ENTRIES, SPARE

MOST_BRANCHES = 4096  # of all steps: some 16 bytes of a board's RAM each

_HEAD = """\
// Written by mica natmod: the decision trees of some models. Contracts in mica_kernels.h.
#include "op.h"
#include "requant.h"

// A float32 as an integer of the same order, by its bit pattern; a NaN is above all numbers.
static __attribute__((noinline)) int32_t key_below(int32_t bits) {
    const int32_t size = bits & 0x7fffffff;
    return size > 0x7f800000 ? size : -size;
}
static inline __attribute__((always_inline)) int32_t key(int32_t bits) {
    return bits < 0 ? key_below(bits) : bits;
}
"""

_ROWS = """
static uint32_t {name}(const mica_step_t *s, uint32_t begin, uint32_t end, void *scratch, size_t scratch_bytes) {{
    const mica_{op}_s8_t *p = &s->p.{op};
    (void)scratch;
    (void)scratch_bytes;
    for (uint32_t r = begin; r < end && r < p->rows; ++r) {{
        const {x} *x = p->x + (size_t)r * p->in_n;
        int8_t *y = p->y + (size_t)r * p->out_n;
{body}
    }}
    return p->rows;
}}
"""

_FOREST = """\
        int32_t *sum = scratch;
        for (uint32_t n = 0; n < {out_n}; ++n) {{
            sum[n] = p->bias[n];
        }}
{calls}
        for (uint32_t n = 0; n < {out_n}; ++n) {{
            y[n] = {requant}(sum[n], {mult}, {shift}, {y_zero}, {act_min}, {act_max});
        }}"""

# The tables of each kernel that has code: blob, and its bytes in C.
_TABLES = {
    "forest_s8": (
        *(("nodes", "4 * p->words"), ("roots", "4 * p->trees")),
        *(("leaves", "4 * p->units"), ("bias", "4 * p->out_n")),
    ),
    "ranks_s8": (
        *(("thresholds", "4 * p->n_thresholds"), ("first", "4 * (p->out_n + 1)")),
        *(("source", "2 * p->out_n"), ("missing", "p->out_n")),
    ),
}


def source(models: Sequence[ModelFile]) -> str:
    """The C file for the forests and ranks of these models; "" where there are none, or none that is small enough."""
    parts, chosen = [_HEAD], dict.fromkeys(_TABLES, "")
    left, done = MOST_BRANCHES, set[str]()  # conditions
    for model in models:
        for step in model.steps:
            if step.kernel not in _TABLES:
                continue
            same = _same(step, _numbers(model, step))
            if same in done or branches(step) > left:
                continue
            name = f"{step.kernel.removesuffix('_s8')}_{len(done)}"
            code = _ranks(step, name) if step.kernel == "ranks_s8" else _forest(step, name, _numbers(model, step))
            if code:
                done.add(same)
                left -= branches(step)
                parts.append(code)
                chosen[step.kernel] += f"    if ({same}) {{\n        s->run = {name};\n    }}\n"
    return "".join([*parts, *(_choice(kernel, ifs) for kernel, ifs in chosen.items())]) if done else ""


def branches(step: StepRecord) -> int:
    """The questions that the tables of a step hold."""
    if step.kernel == "ranks_s8":
        return step.params["count"]
    return int(((step.blobs["nodes"].astype(np.int64) & LEAF_NODE) == 0).sum())


def _numbers(model: ModelFile, step: StepRecord) -> dict[str, int]:
    """The fields of a step's parameters in C that the code has in it, but for the tables' lengths."""
    x, y = (model.tensors[i[0]] for i in (step.inputs, step.outputs))
    numbers = {"in_n": x.dims[-1], "out_n": y.dims[-1]}
    if step.kernel == "forest_s8":
        numbers |= {"y_zero": y.zero_point} | {n: step.params[n] for n in ("mult", "shift", *ACT)}
    return numbers


def _same(step: StepRecord, numbers: dict[str, int]) -> str:
    """The condition in C that a step has the tables and numbers of this one."""
    crc, equal = 0, [f"p->{name} == {value}" for name, value in numbers.items()]
    for blob, size in _TABLES[step.kernel]:
        data = step.blobs[blob].tobytes()
        crc = zlib.crc32(data, crc)
        equal.append(f"{size} == {len(data)}")
    return " && ".join([*equal, f"crc == {crc:#x}"])


def _choice(kernel: str, ifs: str) -> str:
    op = kernel.removesuffix("_s8")
    sums = "".join(f"    crc = mica_crc32(crc, p->{blob}, {size});\n" for blob, size in _TABLES[kernel])
    head = f"    const mica_{kernel}_t *p = &s->p.{op};\n    uint32_t crc = 0;\n"
    body = head + sums + ifs if ifs else "    (void)s;\n"
    return f"\nvoid mica_{op}_code(mica_step_t *s) {{\n{body}}}\n"


def _forest(step: StepRecord, name: str, numbers: dict[str, int]) -> str:
    """A function for each tree, and one that calls them all; "" where trees share words."""
    nodes, roots = step.blobs["nodes"].astype(np.int64), step.blobs["roots"].tolist()
    leaves = step.blobs["leaves"].astype(np.int64).tolist()
    ends = [*roots[1:], len(nodes) - SPARE]
    code = []
    for t, (root, end) in enumerate(zip(roots, ends, strict=True)):
        words = nodes[root:end].tolist()
        to = {i: i + 1 + (w >> FIELD_SHIFT & FIELD) for i, w in enumerate(words) if not w & LEAF_NODE}
        if not words or not words[-1] & LEAF_NODE or max(to.values(), default=0) >= len(words):
            return ""
        targets = set(to.values())
        lines = [line for i, w in enumerate(words) for line in _node(i, w, to.get(i, 0), i in targets, leaves)]
        head = f"\nstatic __attribute__((noinline)) void {name}_{t}(const int8_t *x, int32_t *sum) {{\n    (void)x;\n"
        code.append(head + "\n".join(lines) + "\n}\n")
    calls = "\n".join(f"        {name}_{t}(x, sum);" for t in range(len(roots)))
    small = int(np.abs(step.blobs["bias"].astype(np.int64)).max()) + (len(roots) << 15) < 1 << 29
    requant = "mica_requant_fast" if small and numbers["shift"] >= 1 else "mica_requant_s8"
    body = _FOREST.format(calls=calls, requant=requant, **numbers)
    return "".join(code) + _ROWS.format(name=name, op="forest", x="int8_t", body=body)


def _node(i: int, word: int, to: int, target: bool, leaves: Sequence[int]) -> Iterator[str]:
    """The lines of the word i of a tree, which falls through to its first child, or goes on to another."""
    if target:
        yield f"n{i}:"
    if to:
        yield f"    if (x[{word & 255}] > {word >> 24}) {{ goto n{to}; }}"
        return
    at = word >> FIELD_SHIFT & FIELD
    while True:
        entry = leaves[at]
        if entry >> 16:
            yield f"    sum[{entry & (MORE_ENTRIES - 1)}] += {entry >> 16};"
        if not entry & MORE_ENTRIES:
            break
        at += 1
    yield "    return;"


def _ranks(step: StepRecord, name: str) -> str:
    thresholds, first = step.blobs["thresholds"].tolist(), step.blobs["first"].tolist()
    lines = ["        int32_t k;"]
    for c, feature in enumerate(step.blobs["source"].tolist()):
        own, missing = thresholds[first[c] : first[c + 1]], int(step.blobs["missing"][c])
        rank = _rank(own, 0, len(own))
        if missing != len(own) - 128 or max(own, default=0) > 0x7F800000:  # else a NaN finds its rank as all others
            rank = f"k > 0x7f800000 ? {missing & 255} : {rank}"
        lines.append(f"        k = key(x[{feature}]);\n        y[{c}] = (int8_t)({rank});")
    return _ROWS.format(name=name, op="ranks", x="int32_t", body="\n".join(lines))


def _rank(thresholds: Sequence[int], low: int, n: int) -> str:
    """An expression for the rank of k, by halving as the kernel does it; 0 to 255 stands for int8."""
    if not n:
        return str(low - 128 & 255)
    half = n // 2
    above = _rank(thresholds, low + half + 1, n - half - 1)
    return f"(k > {thresholds[low + half]} ? {above} : {_rank(thresholds, low, half)})"
