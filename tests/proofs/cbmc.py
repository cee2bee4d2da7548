"""CBMC on functions of the loader, through loader.c. Debian 13 has it: where it is not installed, its packages come
from the mirror that this machine uses, into the cache, and run with their own C library."""

from __future__ import annotations

import hashlib
import lzma
import platform
import re
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Callable
from pathlib import Path

from words import Tree

from mica.toolchain.sources import cache_dir, debian_mirror

SUITE = "trixie"
PACKAGES = ("cbmc", "libc6", "libgcc-s1", "libstdc++6", "minisat")
CHECKS = (
    "--bounds-check", "--pointer-check", "--signed-overflow-check", "--undefined-shift-check", "--div-by-zero-check",
    "--no-standard-checks", "--unwinding-assertions",
)  # fmt: skip
PARTS = ("include", "kernels", "kernels/isa/ref", "runtime")
SECONDS = 400
HERE = Path(__file__).parent


class NoCbmc(Exception):
    """There is none here, and none can be fetched."""


def _get(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=120) as answer:
        return bytes(answer.read())


def _fetch(folder: Path) -> None:
    mirror = debian_mirror()
    if mirror is None or platform.machine() != "x86_64":
        raise NoCbmc("CBMC is not installed, and this is no Debian with x86-64 that could fetch it")
    index = lzma.decompress(_get(f"{mirror}/dists/{SUITE}/main/binary-amd64/Packages.xz")).decode()
    with tempfile.TemporaryDirectory() as name:
        for package in PACKAGES:
            found = re.search(rf"^Package: {re.escape(package)}\n(.*?)(\n\n|\Z)", index, flags=re.S | re.M)
            assert found, package
            fields = dict(re.findall(r"^(Filename|SHA256): (.*)$", found[1], flags=re.M))
            deb = Path(name) / f"{package}.deb"
            deb.write_bytes(_get(f"{mirror}/{fields['Filename']}"))
            if hashlib.sha256(deb.read_bytes()).hexdigest() != fields["SHA256"]:
                raise NoCbmc(f"{package} is not what the mirror's index says")
            subprocess.run(["dpkg-deb", "-x", str(deb), name + "/root"], check=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(name + "/root", folder)


def command() -> list[str]:
    """Return the command that starts CBMC; fetch it once."""
    if shutil.which("cbmc"):
        return ["cbmc"]
    folder = cache_dir() / "cbmc"
    if not folder.exists():
        _fetch(folder)
    libraries = f"{folder}/usr/lib/x86_64-linux-gnu:{folder}/usr/lib"
    return [f"{folder}/usr/lib64/ld-linux-x86-64.so.2", "--library-path", libraries, f"{folder}/usr/bin/cbmc"]


# Loops that are cut, and functions by contract: a file of the runtime, a text, and what takes its place.
Edit = tuple[str, str, str]

# mica_scan reads any entry of the section table, then any record of IO.
SCAN: tuple[Edit, ...] = (
    ("check.c", "for (uint32_t i = 0; i < n; ++i, at += step) {",
     "CUT_BEGIN(scanned(file, end)); end = some_sections(file);\n"
     "for (uint32_t i = nondet_u32(); i < n; ++i, CUT_END(scanned(file, end))) { at = some_entry(file, step);"),
    ("check.c", "for (uint32_t i = 0; i < mica_count(file, MICA_KIND_IO); ++i) {",
     "for (uint32_t i = nondet_u32(); i < mica_count(file, MICA_KIND_IO); ++i, __CPROVER_assume(0)) {"),
    ("check.c", "mica_count(", "some_count("),
)  # fmt: skip

CHANNELS: tuple[Edit, ...] = (("record.c", " mica_load_blob(r, ", " some_blob(r, "),)
TENSOR: tuple[Edit, ...] = (("model.c", "bytes * n", "some_product(bytes, n)"),)

STOP = "__CPROVER_assume(0)"  # an iteration has been looked at
NAME: tuple[Edit, ...] = (
    ("load.c", "for (bool blank = true; s[n] && n <= MICA_MAX_NAME; ++n) {",
     "n = up_to(f->s[MICA_KIND_STRINGS].bytes - 1 - offset);\n"
     "for (bool blank = nondet_bool(); s[n] && n <= MICA_MAX_NAME;\n"
     "++n, CUT_END(n < f->s[MICA_KIND_STRINGS].bytes - offset)) {"),
)  # fmt: skip
OPERANDS: tuple[Edit, ...] = (("load.c", "mica_read_tensor(", "some_tensor("),)
IO: tuple[Edit, ...] = (
    *OPERANDS,
    ("load.c", "uint32_t n_io = mica_count(f, MICA_KIND_IO);", "const uint32_t n_io = nondet_u32();\n"
     "__CPROVER_assume(n_io >= 2 && n_io <= MICA_MAX_IO);  // mica_scan"),
    ("load.c", "for (uint32_t i = 0; i < n_io; ++i) {", "uint32_t i = up_to(n_io);\n"
     "sum = nondet_u32(), fed = nondet_u32();\n__CPROVER_assume(sum <= MICA_MAX_BYTES && (i == 0 || sum >= 1));\n"
     "for (; i < n_io; ++i, CUT_END(sum <= MICA_MAX_BYTES && sum >= 1)) {"),
    ("load.c", "uint32_t k = 0;\n    while (k < n &&", "uint32_t k = up_to(n);\n    while (k < n &&"),
    ("load.c", "        ++k;\n", f"        {STOP};\n"),
)  # fmt: skip
TABLES: tuple[Edit, ...] = (
    *OPERANDS,
    ("load.c", "check_io(m, &golden, err)", "some_io(m, &golden, err)"),
    *(("load.c", f"for (uint32_t i = 0; i < {n}; ++i) {{", f"for (uint32_t i = up_to({n}); i < {n}; ++i, {STOP}) {{")
      for n in ("strings->bytes", "m->info.n_tensors", "mica_count(f, MICA_KIND_METADATA)")),
    *(("load.c", f"if (check_name(f, mica_u32(r + MICA_{n}", f"if (some_name(f, mica_u32(r + MICA_{n}")
      for n in ("TENSOR_NAME", "METADATA_KEY")),
    ("load.c", "mica_count(f, MICA_KIND_METADATA)", "some_count(f, MICA_KIND_METADATA)"),
)  # fmt: skip
STEP: tuple[Edit, ...] = (
    ("load.c", "if (check_name(&m->file, mica_u32(record", "if (some_name(&m->file, mica_u32(record"),
    ("load.c", "if (read_operands(r, MICA_STEP_INPUTS, facts.least, facts.most, MICA_MAX_INPUTS, facts.x_type, "
     "facts.last_type,\n", "if (some_operands(r, facts.least, facts.most, MICA_MAX_INPUTS,\n"),
    ("load.c", "read_operands(r, MICA_STEP_OUTPUTS, 1, 1, MICA_MAX_OUTPUTS, facts.y_type, facts.y_type, &r->y,",
     "some_operands(r, 1, 1, MICA_MAX_OUTPUTS, &r->y,"),
    ("load.c", "if (!strip && mica_load_inputs(r, facts.in_place) != MICA_OK)", "if (!strip && some_status(err))"),
)  # fmt: skip
LOAD: tuple[Edit, ...] = (
    ("load.c", "if (check_tables(m, err) != MICA_OK", "if (some_status(err) != MICA_OK"),
    ("load.c", "for (uint32_t i = 0; i < m->info.n_steps; ++i) {",
     f"for (uint32_t i = up_to(m->info.n_steps); i < m->info.n_steps; ++i, {STOP}) {{"),
    ("load.c", "load_step(m, i, missing_kernels, NULL, &m->steps[i], err)", "some_step(m, i, &m->steps[i], err)"),
)  # fmt: skip
WHOLE: tuple[Edit, ...] = (
    ("load.c", "static bool overlap(", "static mica_status_t some_memory(const mica_info_t *info, range_t mem, "
     "range_t arena, range_t state,\n    mica_error_t *err);\nstatic bool overlap("),
    ("load.c", "if (mica_scan(base, len, !(options & MICA_LOAD_CHECKED), ", "if (scan_of(base, len, "),
    ("load.c", "if (check_memory(&info, mem_range, file_range, ", "if (some_memory(&info, mem_range, "),
    ("load.c", "if (load(m, (options & MICA_LOAD_MISSING_KERNELS) != 0, err)", "if (some_load(m, err)"),
)  # fmt: skip
SINGLE: tuple[Edit, ...] = (
    ("single.c", "bytes *= t->dims[i];", "bytes = some_product(bytes, t->dims[i]);"),
    ("single.c", "? mica_load_inputs(r, facts->in_place)", "? some_status(r->err)"),
)  # fmt: skip
MOVE: tuple[Edit, ...] = (("load.c", "load_step(m, i, true, blobs, &step, err)", "some_status(err)"),)
UNWIND = {"single": ("--unwindset", "mica_run_single.0:17")}  # MICA_MAX_PARAMS
# Operators' loaders: what the file says, as its theorems have it (asked.h), and arithmetic whose values do not matter.
ASKED: tuple[Edit, ...] = (
    ("record.c", "return mica_fail(r->err, status, what, mica_at(&r->m->file, r->record) + field, found, expected);",
     "return r->err->status = status;"),
    ("record.c", "(int32_t)mica_u32(r->record + field);", "some_number(i);"),
    ("record.c", "return mica_u32(r->record + MICA_STEP_BLOBS + 8 * i + 4);", "return some_length(i);"),
    ("record.c", "uint32_t offset = mica_u32(r->record + field)", "uint32_t offset = nondet_u32()"),
    ("record.c", "return r->blobs != NULL ? r->blobs[i] : r->m->file.base + data->offset + offset;",
     "return some_constant(i, bytes);"),
    ("record.c", "= mica_u32(r->record + MICA_STEP_SCRATCH_MIN);", "= some_scratch(least);"),
)  # fmt: skip
# Shapes that broadcast, in kernels/: products by contract, and the place of each dimension.
BROADCAST: tuple[Edit, ...] = (
    ("broadcast.c", "elements *= n;", "elements = some_elements(elements, n);"),
    ("broadcast.c", "p->n[p->rank - 1] *= n;", "p->n[p->rank - 1] = some_merged(p, i, n);"),
    ("broadcast.c", "p->n[p->rank++] = n;", "group[i] = p->rank;\np->n[p->rank++] = n;"),
    ("broadcast.c", "offset += at % p->n[i] * stride;", "offset = some_offset(offset, at % p->n[i], stride, p->n[i]);"),
    ("broadcast.c", "stride *= p->n[i];", "stride = next_stride;"),
)  # fmt: skip
DOT: tuple[Edit, ...] = (
    ("conv2d_s16.c", "while (n > 0) {",
     "const int32_t all = n;\nconst int16_t *const all_x = x;\nconst int8_t *const all_w = w;\n"
     "n = (int32_t)up_to((uint32_t)n);\nx += all - n;\nw += all - n;\nacc = some_sum(BIAS + all - n);\n"
     "while (n > 0) {"),
    ("conv2d_s16.c", "for (const int8_t *end = w + most; w != end;) {",
     "const int32_t k = (int32_t)up_to((uint32_t)most);\npart = (int32_t)some_sum(k);\nx += k;\nw += k;\n"
     "for (const int8_t *end = w - k + most; w != end;\n"
     "CUT_END(within(part, k + 1) && x == all_x + (all - n + k + 1) && w == all_w + (all - n + k + 1))) {"),
    ("conv2d_s16.c", "n -= most;", "n -= most;\nCUT_END(n >= 0 && x == all_x + (all - n) && w == all_w + (all - n)\n"
     "&& within(acc, BIAS + all - n));"),
)  # fmt: skip
OUTPUTS: tuple[Edit, ...] = (("op_dense.c", "!run_fetched(p, scratch, scratch_bytes)", "!some_fetched(p)"),)
FOLDERS = {"broadcast.c": "kernels", "conv2d_s16.c": "kernels/ref"}
ARITHMETIC = (
    (r"(\S+) \*= (.*);$", r"\1 = times(\1, \2);"),
    (r"\(size_t\)(p->\w+) \* (p->\w+)", r"(size_t)times(\1, \2)"),
    (r"\bn \* (mica_\w+_reduction\(p\))", r"(size_t)times((uint32_t)n, \1)"),
    (r"\(uint32_t\)w->in_h \* w->in_w", "times(w->in_h, w->in_w)"),
    (r"\(size_t\)first \* (mica_row_bytes\([^)]*\))", r"(size_t)times(first, \1)"),
    (r"x->dims\[axis\] \* inner", r"times(x->dims[axis], inner)"),
    (r"= ([\w>-]*(?:bytes|rows)(?: / 2)?) / (p->\w+|n);", r"= divided(\1, \2);"),
)
EDITS = {
    "scan": SCAN, "channels": CHANNELS, "tensor": TENSOR, "name": NAME, "operands": OPERANDS, "io": IO,
    "tables": TABLES, "step": STEP, "move": MOVE, "load": LOAD, "whole": WHOLE, "single": SINGLE,
    "outputs": OUTPUTS, "broadcast": BROADCAST, "offset": BROADCAST, "dot": DOT,
}  # fmt: skip


def proof(name: str, source: str = "loader.c") -> Callable[[Tree], str | None]:
    """A function of loader.c, tables.c or steps.c as a theorem's proof."""
    asked = source in ("operators.c", "operands.c", "signals.c", "cuts.c")
    changes = (*ASKED, *EDITS.get(name, ())) if asked else EDITS.get(name, ())

    def prove(tree: Tree) -> str | None:
        with tree.folder() as root, tempfile.TemporaryDirectory() as edited:
            c = root / "usermod_c"
            for file in {file for file, _, _ in changes}:
                text = tree.read(f"usermod_c/{FOLDERS.get(file, 'runtime')}/{file}")
                for _, old, new in (e for e in changes if e[0] == file):
                    assert old in text, f"{file} has no '{old}'"
                    text = text.replace(old, new)
                (Path(edited) / file).write_text(text, encoding="utf-8")
            if asked:
                for path in {p for p in (c / "runtime").glob("op_*.c") if not (Path(edited) / p.name).exists()}:
                    (Path(edited) / path.name).write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
                for path in Path(edited).iterdir():
                    text = path.read_text(encoding="utf-8")
                    for old, new in ARITHMETIC:
                        text = re.sub(old, new, text, flags=re.M)
                    path.write_text(text, encoding="utf-8")
            include = [f"-I{edited}", *(f"-I{c / part}" for part in PARTS)]
            call = [*command(), *include, *CHECKS, "--function", f"prove_{name}", "--unwind", "12",
                    *(("--unwindset", "same.0:21") if asked else UNWIND.get(name, ())), str(HERE / source)]  # fmt: skip
            try:
                result = subprocess.run(call, capture_output=True, text=True, timeout=SECONDS, check=False)
            except subprocess.TimeoutExpired:
                return f"no answer in {SECONDS} s"
        if result.returncode == 0:
            return None
        failures = [line for line in result.stdout.splitlines() if line.endswith("FAILURE")]
        return "; ".join(failures[:3]) or f"CBMC ends with {result.returncode}: {result.stderr[-300:]}"

    return prove
