"""The list of theorems: what SPEC.md says, how it is proved, and a fault that the proof must find."""

from __future__ import annotations

from dataclasses import dataclass

import accumulators
import cbmc
import core_requant as cores
import dsp_winograd
import exhaustion
import pieces
import plans
import power
import requantisation
import rows
import sums
import walks
from operators import OPERATORS
from words import Proof

K = "usermod_c/kernels/"
I = K + "isa/"  # noqa: E741
RULE = "rounded once to the nearest integer, halves up"
FAST = "every weight >= -127, 1 <= shift <= 22"
Z3, RUN, STATES, CBMC = "Z3", "runs", "states", "CBMC"
R = "usermod_c/runtime/"
FILE = "any file"
SOUND = ""
ASKED = "asks for what it needs"
SPEC = "host_tools/mica/format/SPEC.md"
MODEL_H = R + "model.h"
LOAD_C = R + "load.c"
KERNELS_H = "usermod_c/include/mica_kernels.h"
ONCE = "read once, validated"


@dataclass(frozen=True)
class Theorem:
    """sentence: of `page`. fault: (path, text, what takes its place) for `prove` to find. seconds: of a core. slow: a
    part runs in scripts/test, the whole in scripts/prove."""

    name: str
    sentence: str
    tool: str
    assumes: str
    seconds: float
    prove: Proof
    fault: tuple[str, str, str]
    slow: bool = False
    nightly: bool = False  # what it needs may have to be fetched
    page: str = SPEC
    covers: str = ""  # the loader's functions that it is about, or runs through


MODEL = "model"
MACRO = "constants"
WALK = "taps, sums"
ROWS = "taps, rows, sums"
# name, function of loader.c, seconds, page, sentence, what it assumes, functions, fault
LOADER = (
    ("check_header", "header", 0.5, SPEC, "No size passes 2^31 - 1.", FILE,
     "check_header", ("check.c", "if (file_bytes > len)", "if (file_bytes > len + 1)")),
    ("load_blob", "blob", 1, SPEC, "Weights begin on a multiple of 16", SOUND,
     "mica_load_blob mica_load_blob_bytes mica_record_fail",
     ("record.c", "found > data->bytes - offset", "found > data->bytes")),
    ("load_param", "param", 0.5, SPEC, "-128 <= act_min <= act_max <= 127", SOUND,
     "mica_load_param", ("record.c", "(v < low || v > high)", "(v > high)")),
    ("load_ranges", "ranges", 5, MODEL_H, ASKED, SOUND,
     "mica_load_requant mica_load_act mica_load_wide", ("record.c", "i + 1, *act_min,", "i + 1, INT16_MIN,")),
    ("load_layout", "layout", 1, MODEL_H, ASKED, SOUND, "mica_load_layout",
     ("record.c", "found >= 32 || !(layouts", "found > 32 || !(layouts")),
    ("load_scratch", "scratch", 1, MODEL_H, ASKED, SOUND,
     "mica_load_scratch", ("record.c", "scratch < least)", "scratch + 1 < least)")),
    ("load_shapes", "shapes", 1, MODEL_H, ASKED, SOUND,
     "mica_load_rows mica_load_same_shape mica_load_same_scale mica_load_require",
     ("record.c", "alike && i + 1 < y->rank", "alike && i + 2 < y->rank")),
    ("load_sound", "sound", 1, MODEL_H, ASKED, SOUND,
     "mica_load_sound mica_load_frames", ("record.c", "rows > 4 &&", "rows > 3 &&")),
    ("load_split", "split", 1, MODEL_H, ASKED, SOUND,
     "mica_load_split", ("record.c", "i < axis + axes ?", "i <= axis + axes ?")),
    ("read_string", "string", 0.5, SPEC, "also ends in it", SOUND, "",
     ("model.c", "offset < s->bytes &&", "offset <= s->bytes &&")),
    ("load_window", "window", 3, MODEL_H, "Shapes of the first input",
     SOUND, "mica_load_window", ("record.c", "i < 6 ? 1 : 0", "i < 5 ? 1 : 0")),
    ("step_constant", "constant", 3, R + "model.c", "addresses stay inside whatever it holds",
     SOUND, "", ("model.c", "*bytes <= data->bytes - offset", "*bytes <= data->bytes")),
    ("check_sections", "scan tables.c", 9, MODEL_H, "found their bounds sound", FILE,
     "known_record_bytes file_crc mica_scan mica_check",
     ("check.c", "if (end > file->file_bytes) {\n            return", "if (end > len) {\n            return")),
    ("file_crc", "crc tables.c", 0.5, R + "check.c", "Of bytes [begin, end)", FILE, "mica_file_crc",
     ("check.c", "? end : m->file.file_bytes;", "? end : end;")),
    ("read_tensor", "tensor tables.c", 19, MODEL_H, "agrees with itself and with its space", SOUND, "",
     ("model.c", "t->bytes > space_bytes - offset", "t->bytes > space_bytes")),
    ("load_channels", "channels tables.c", 3, MODEL_H, ASKED, SOUND, "mica_load_channels",
     ("record.c", "2, (size_t)n * 4, MICA", "2, (size_t)n * 3, MICA")),
    ("check_memory", "memory steps.c", 20, LOAD_C, "the model's memory share bytes", "", "overlap check_memory",
     ("load.c", "y - x < a.bytes", "y - x + 1 < a.bytes")),
    ("load_inputs", "inputs steps.c", 1.5, MODEL_H, "shares bytes with the output", "one arena", "mica_load_inputs",
     ("load.c", "x < y + r->y.bytes &&", "x + 1 < y + r->y.bytes &&")),
    ("read_operands", "operands steps.c", 5, LOAD_C, "Reads the tensors of a step", SOUND,
     "read_operands", ("load.c", "i >= least && i < *used", "i < *used")),
    ("check_name", "name steps.c", 21, LOAD_C, "one line of text", SOUND, "check_name is_space",
     ("load.c", "s[n + 1] == 0", "s[n + 2] == 0")),
    ("load_step", "step models.c", 5, LOAD_C, ONCE, SOUND,
     "load_step mica_kernel_facts run_nothing mica_step_has_kernel",
     ("load.c", "if (r->y.space == MICA_SPACE_DATA)", "if (r->y.space == MICA_SPACE_ROWS)")),
    ("move_constants", "move models.c", 1, LOAD_C, ONCE, SOUND, "mica_move_constants",
     ("load.c", "m->steps[i] = step;", "m->steps[i + 1] = step;")),
    ("load_steps", "load models.c", 1, LOAD_C, ONCE, SOUND, "load",
     ("load.c", "kernels[kernel / 32 & 3]", "kernels[kernel / 32 & 7]")),
    ("load_model", "whole models.c", 1.5, LOAD_C, ONCE, FILE, "mica_load_with mica_load",
     ("load.c", "arena_bytes - info.arena_bytes,", "arena_bytes,")),
    ("run_single", "single models.c", 8, "usermod_c/include/mica.h", "Everything is checked", "buffers as said",
     "put_u32 check_length check_buffers mica_run_single",
     ("single.c", "(blob >= y + c->y.bytes ||", "(blob >= y ||")),
    *((f"op_{name}", f"{name} {source}", seconds, KERNELS_H, "once check has passed", SOUND,
       "mica_load_checked mica_load_broadcast", (f"op_{file}.c", *fault))
      for source, rows in OPERATORS.items()
      for name, file, seconds, *fault in rows),
    ("check_io", "io steps.c", 1, LOAD_C, "bytes of one vector", SOUND, "check_io is_listed",
     ("load.c", "sum += (t.bytes + 3)", "sum += (t.bytes + 2)")),
    ("check_tables", "tables steps.c", 3, LOAD_C, "GOLDEN and LAYER_CRCS", SOUND, "check_tables is_control",
     ("load.c", "strings->offset + i)) {", "strings->offset + i + 1)) {")),
)  # fmt: skip
THEOREMS = [
    Theorem("requant_s8", RULE, Z3, f"1 <= shift; {MODEL}", 0.5, requantisation.s8,
            (K + "requant.h", "t >> (shift - 1)) + 1) >> 1;\n    } else", "t >> (shift - 1)) + 0) >> 1;\n    } else")),
    Theorem("requant_s8_up", "is on the exact value", Z3, f"shift < 1; {MODEL}", 2,
            requantisation.s8_up, (K + "requant.h", "1 << (30 + shift))) >> (31", "1 << (29 + shift))) >> (31"),
            slow=True),
    Theorem("requant_fast", RULE, Z3, f"FAST; {MODEL}", 0.5, requantisation.fast,
            (K + "requant.h", "(2 * acc) * mult >> 32", "(2 * acc) * mult >> 31")),
    Theorem("requant_halves", RULE, Z3, f"FAST; ARMv6-M in C; {MODEL}", 0.3, requantisation.halves,
            (K + "requant.h", ">> 16)) >> 15", ">> 15)) >> 15")),
    Theorem("requant_s16", RULE, Z3, f"conv2d_s16; {MODEL}", 0.8, requantisation.s16,
            (K + "wide.c", "(int64_t)1 << (30 + shift))", "(int64_t)1 << (29 + shift))")),
    Theorem("requant_avx2", RULE, Z3, f"1 <= shift; {MODEL}", 0.7, requantisation.avx2,
            (I + "x86/avx2.c", "_mm256_srli_epi64(even, 31)", "_mm256_srli_epi64(even, 30)")),
    Theorem("requant_vnni", RULE, Z3, f"1 <= shift; {MODEL}", 0.7, requantisation.vnni,
            (I + "x86/vnni.c", "_mm512_srli_epi64(even, 31)", "_mm512_srli_epi64(even, 30)")),
    Theorem("requant_armv6m", RULE, Z3, f"FAST; {MACRO}", 18, cores.armv6m,
            (I + "armv6m/hot.inc", "    asrs r5, r5, #15", "    asrs r5, r5, #14"), slow=True),
    Theorem("requant_armv7em", RULE, Z3, f"FAST; {MACRO}", 2, cores.armv7em,
            (I + "armv7em/gemm.S", "ssat \\b, #8, \\b", "mov \\b, \\b")),
    Theorem("requant_rv32", RULE, Z3, f"FAST; {MACRO}", 13, cores.rv32,
            (I + "rv32imc/winograd.S", "addi \\acc, \\acc, -128", "addi \\acc, \\acc, -127"), slow=True),
    Theorem("requant_mve", RULE, Z3, f"FAST; {MACRO}", 3, cores.mve,
            (I + "armv81m/dense.S", "vmin.s32 q0, q0, q6", "vmin.s32 q0, q0, q5")),
    Theorem("pairs_rv32", FAST, Z3, "two elements, four channels", 0.1, cores.rv32_pairs,
            (I + "rv32imc/gemm.S", "srai t0, t0, 16", "srai t0, t0, 15")),
    Theorem("product_20", "normal = floor(d * R * 2^(h - 20))", Z3, f"ARMv6-M in C; {MODEL}", 0.3,
            requantisation.product_20, (K + "integer_math.h", "0xffff) >> 4)", "0xffff) >> 5)")),
    Theorem("root", "rounded to the nearest 16-bit integer", RUN, "", 30,
            exhaustion.root, (K + "integer_math.h", "v > root &&", "v + 1 > root &&"), slow=True),
    Theorem("log2", "at most 2^-16 + 2^-27 below the true logarithm", RUN, "long double", 75,
            exhaustion.log2, (K + "integer_math.h", "square >> 63", "square >> 62 & 1"), slow=True),
    Theorem("layer_norm_inverse", "normal is within 2^-15 of its own size", RUN, "no shift", 27,
            exhaustion.inverse_root, (K + "layer_norm.h", "root / 2) / root", "root / 2) / (root + 2)"), slow=True),
    Theorem("norm_newton", "below 2^16 and within 2 of 2^8 * sqrt(63 * 2^24 / m)", RUN, "no shift; overflows trap", 0.2,
            exhaustion.newton, (K + "ref/norm.c", "i < 3; ++i", "i < 2; ++i")),
    Theorem("attend_inverse", "R is the reciprocal of W to 2^-30", RUN, "two digits; overflows trap", 13,
            exhaustion.quotient, (I + "c32/attend.h", "left / high,", "left / (high + 1),"), slow=True),
    Theorem("attend_inverse_bits", "R is the reciprocal of W to 2^-30", RUN, "ARMv6-M's loop",
            70, exhaustion.quotient_bits, (I + "c32/attend.h", "left >> 31 || less < n", "less < n"), slow=True),
    Theorem("spectrum_bits", "b = the place of v's highest bit", RUN, "no CLZ", 8, exhaustion.bits,
            (K + "bins.c", "n += 4;", "n += 3;"), slow=True),
    Theorem("spectrum_tables", "the nearest integer to sqrt((32 + h) * 2^41)", RUN, "both tables", 0.1,
            exhaustion.tables, (K + "bins.c", "8646779", "8646778")),
    Theorem("sums", "never overflow for any input", Z3,
            "dense, convolutions, matmul, mean", 0.4, accumulators.sums,
            (K + "shape.c", "2 * limit - 2", "2 * limit - 1")),
    Theorem("sum_add", "on the exact value of the sum", Z3, "mica_add_s8_check", 0.3, accumulators.added,
            (K + "ref/add.c", "if (128 * ((a < 0", "if (127 * ((a < 0")),
    Theorem("winograd_armv7em", "is four times the sum", RUN, "its text; order of sums", 0.1, dsp_winograd.winograd,
            (I + "armv7em/winograd.S", "rsb \\to, lr, \\to, lsl #1", "rsb \\to, lr, \\to, lsl #2"),
            page=I + "armv7em/conv2d_winograd.c"),
    Theorem("winograd_rv32", "is four times the sum", RUN, "C model; order of sums",
            0.2, sums.winograd, (I + "rv32imc/winograd.S", "slli \\to, \\to, 1", "slli \\to, \\to, 2"),
            page=I + "rv32imc/conv2d_winograd.c"),
    Theorem("picture_means", "`S = sum(c) * (2^24 / count) >> 19`", RUN, "a byte", 0.1,
            sums.pictures, (K + "picture_pixels.h", "s.b * 8290", "s.b * 8320")),
    Theorem("push_power_cut", "only a page that reads as it should", STATES,
            "five torn pages; three pushes", 4, power.halves,
            ("firmware/mica/slots.py", "found.sort(key=lambda h: -h.sequence)", "found.sort(key=lambda h: h.sequence)"),
            slow=True, page="firmware/mica/slots.py"),
    Theorem("learner_power_cut", "the other one is whole", STATES,
            "a cut file begins as the new one", 0.1, power.learner,
            ("firmware/mica/learn.py", "{1 - k if k >= 0 else 0}", "{k if k >= 0 else 0}"),
            page="firmware/mica/learn.py"),
    Theorem("fleet_power_cut", "If power fails before, the old files stay.", STATES,
            "one model", 4, power.fleet,
            ("firmware/mica_fleet/rom.py", "= 1 + max(", "= max("), slow=True, page="firmware/mica_fleet/rom.py"),
    Theorem("plan", "bytes whose owner nobody reads any more", RUN,
            "3 models, 32 bytes, 6 places", 1, plans.plans,
            ("host_tools/mica/plan/verify.py", "readers[node.inputs[k]] == 1", "readers[node.inputs[k]] >= 1"),
            page="host_tools/mica/plan/verify.py"),
    Theorem("taps", "lie inside [0, size)", Z3,
            "sizes to 65535, windows to 2^30", 2, walks.taps,
            (K + "shape.h", "(dilation - 1 - start) / dilation", "(dilation - start) / dilation"), page=K + "shape.h"),
    *(
        Theorem(f"walk_{name}", "inside its buffers and overflows nowhere", Z3, assumes,
                seconds, walks.walked(name.removesuffix("_codes"), coded), (K + f"ref/{file}.c", *fault), slow=True,
                nightly=True, page=KERNELS_H)
        for name, file, assumes, seconds, coded, fault in (
            ("max_pool2d_s8", "max_pool2d", WALK, 1, None, ("win->in_w + ix + kx", "win->in_w + ix + 1 + kx")),
            ("average_pool2d_s8", "average_pool2d", WALK, 3, None,
             ("- 1) * stride < size + pad", "- 1) * stride <= size + pad")),
            ("conv2d_s16", "conv2d_s16", WALK, 2, None, ("o * reduction", "(o + 1) * reduction")),
            ("pool_s16", "pool_s16", WALK, 3, None, ("* channels + c]", "* channels + c + 1]")),
            ("depthwise_conv2d_s8", "depthwise_conv2d", WALK, 45, False, ("kx < kx1 - kx0;", "kx <= kx1 - kx0;")),
            ("conv2d_s8", "conv2d", ROWS, 44, False,
             ("(kx1 - kx0) * group_in, after", "(kx1 + 1 - kx0) * group_in, after")),
            ("conv2d_s8_codes", "conv2d", ROWS, 3, True, ("iy >= 0 && iy < win->in_h", "iy >= 0 && iy <= win->in_h")),
            ("fully_connected_s8", "fully_connected", "rows, sums", 1, None, ("++row, x += k", "++row, x += k + 1")),
        )
    ),
    *(
        Theorem(f"columns_{op}", "columns [begin, end) alone", Z3, "", seconds,
                pieces.cut(op, f"op_{file}.c"), (R + fault[0], *fault[1:]), nightly=True, page=R + "op.h")
        for op, file, seconds, fault in (
            ("conv2d", "conv", 5, ("window.c", "(w->in_w - skip)", "(w->in_w - skip + 1)")),
            ("depthwise_conv2d", "conv", 4, ("window.c", "(size_t)skip", "(size_t)start")),
            ("max_pool2d", "pool", 4, ("window.c", "w->in_w + w->pad_left;", "w->in_w + w->pad_left + 1;")),
            ("average_pool2d", "pool", 5, ("window.c", "(uint16_t)(end - begin)", "(uint16_t)(end - begin + 1)")),
        )
    ),
    Theorem("pixels_conv2d", "over an image one row high", Z3, "", 1, pieces.pixels,
            (R + "op_conv.c", "* w->in_w > UINT16_MAX", "* w->in_w > UINT16_MAX + 1"), nightly=True, page=R + "op.h"),
    Theorem("lengths", "sum of x[i] * w[i]", Z3, "", 0.1, walks.lengths,
            (K + "shape.h", "w != end; ++w)", "w != end + 1; ++w)"), page=K + "shape.h"),
    Theorem("rows", "a row of k weights", Z3, "its text", 0.2, rows.rows,
            (K + "shape.h", "i / 4 * 2 + i % 2", "i / 4 * 2 + i % 4"), page=K + "shape.h"),
    Theorem("record", "`bytes` is `record_bytes * count`", Z3, "its text", 0.1, walks.record,
            (R + "model.h", "(size_t)i * f", "(size_t)(i + 1) * f")),
    Theorem("dot_conv2d_s16", "sums have 64 bits", CBMC, SOUND, 3, cbmc.proof("dot", "wide.c"),
            (K + "ref/conv2d_s16.c", "MOST_PRODUCTS 256", "MOST_PRODUCTS 512"), nightly=True,
            page="usermod_c/include/families/wide.h"),
    *(
        Theorem(name, sentence, CBMC, SOUND, seconds, cbmc.proof(proof, "cuts.c"), (R + file, *fault), nightly=True,
                page=R + page)
        for name, proof, sentence, page, seconds, file, fault in (
            ("outputs_fully_connected", "outputs", "Outputs [first, last)", "op_dense.c", 1,
             "op_dense.c", ("piece.ch.mult += first;", "piece.ch.mult += first + 1;")),
            ("channels_average_pool2d", "channels_of_mean", "every four channels", "op.h", 4, "op_pool.c",
             ("p.y += (size_t)p.win.in_c * begin;", "p.y += (size_t)p.win.out_w * begin;")),
        )
    ),
    Theorem("broadcast_shapes", "numpy broadcasting of two inputs", CBMC, SOUND, 2,
            cbmc.proof("broadcast", "shapes.c"), (K + "broadcast.c", "(moves & 1) << p->rank", "(moves & 1) << i"),
            nightly=True, page="usermod_c/include/families/elements.h"),
    Theorem("broadcast_offset", "where the inputs stand", CBMC, "broadcast_shapes", 1,
            cbmc.proof("offset", "shapes.c"), (K + "broadcast.c", "offset = 0, stride", "offset = 1, stride"),
            nightly=True, page=K + "broadcast.h"),
    *(
        Theorem(name, sentence, CBMC, assumes, seconds, cbmc.proof(*proof.split()), (R + fault[0], *fault[1:]),
                nightly=True, page=page, covers=covers)
        for name, proof, seconds, page, sentence, assumes, covers, fault in LOADER
    ),
]  # fmt: skip

# Each with what was tried, or what looks at it instead.
NOT_PROVED = (
    "Kernels without a row. Fast kernels equal the reference by test.",
    "Blocks of weights (run_fetched).",
    "Arrays inside of structures: CBMC looks at whole objects.",
    "mica_crc32, TOKENS, ORDER (strips), the signature.",
    "armv6m: QUICK, crossed pairs, all assembly but requantisation. armv7m: the pairs of dense.S. armv7em, x86: sums "
    "of pairs. RV32 beyond its rows. Xtensa and WebAssembly: what compilers made. mica_dsp_requantised, mul_s8 of c32.",
    "Linear interpolation; softmax, sigmoid and tanh against real functions: tests compare them.",
    "Plans of more tensors, of strips, of states. The board also takes plans that give wrong answers.",
    "The power cut of a plain image below the halves, of files on a filesystem, of an agent's file.",
    "That compilers, processors, Z3, CBMC and these models are right.",
)
