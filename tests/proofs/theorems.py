"""The list of theorems: what SPEC.md says, how it is proved, and a fault that the proof must find."""

from __future__ import annotations

from dataclasses import dataclass

import accumulators
import cbmc
import core_requant as cores
import exhaustion
import plans
import power
import requantisation
import sums
import walks
from words import Proof

K = "usermod_c/kernels/"
I = K + "isa/"  # noqa: E741
RULE = "rounded once to the nearest integer, halves up"
FAST = "every weight >= -127, 1 <= shift <= 22"
Z3, RUN, STATES, CBMC = "Z3", "runs", "states", "CBMC"
R = "usermod_c/runtime/"
FILE = "any file"


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
    page: str = "host_tools/mica/format/SPEC.md"


MODEL = "C model"
MACRO = "constants"
WALK = "taps, sums; any buffers"
THEOREMS = [
    Theorem("requant_s8", RULE, Z3, f"1 <= shift; {MODEL}", 0.5, requantisation.s8,
            (K + "requant.h", "t >> (shift - 1)) + 1) >> 1;\n    } else", "t >> (shift - 1)) + 0) >> 1;\n    } else")),
    Theorem("requant_s8_up", "the clamp to int8 that follows is on the exact value", Z3, f"shift < 1; {MODEL}", 2,
            requantisation.s8_up, (K + "requant.h", "1 << (30 + shift))) >> (31", "1 << (29 + shift))) >> (31")),
    Theorem("requant_fast", RULE, Z3, f"FAST; {MODEL}", 0.5, requantisation.fast,
            (K + "requant.h", "(2 * acc) * mult >> 32", "acc * mult >> 31 | 1")),
    Theorem("requant_halves", RULE, Z3, f"FAST; ARMv6-M in C; {MODEL}", 0.3, requantisation.halves,
            (K + "requant.h", ">> 16)) >> 15", ">> 15)) >> 15")),
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
    Theorem("root", "rounded to the nearest 16-bit integer (at most 65535)", RUN, "", 30,
            exhaustion.root, (K + "integer_math.h", "v > root &&", "v + 1 > root &&"), slow=True),
    Theorem("log2", "at most 2^-16 + 2^-27 below the true logarithm", RUN, "long double: 64 bits", 75,
            exhaustion.log2, (K + "integer_math.h", "square >> 63", "square >> 62 & 1"), slow=True),
    Theorem("layer_norm_inverse", "normal is within 2^-15 of its own size", RUN, "that of r and R; no shift", 27,
            exhaustion.inverse_root, (K + "layer_norm.h", "root / 2) / root", "root / 2) / (root + 2)"), slow=True),
    Theorem("norm_newton", "below 2^16 and within 2 of 2^8 * sqrt(63 * 2^24 / m)", RUN, "no shift; overflows trap", 0.2,
            exhaustion.newton, (K + "ref/norm.c", "i < 3; ++i", "i < 2; ++i")),
    Theorem("attend_inverse", "R is the reciprocal of W to 2^-30", RUN, "two digits; overflows trap", 13,
            exhaustion.quotient, (I + "c32/attend.h", "left / high,", "left / (high + 1),"), slow=True),
    Theorem("attend_inverse_bits", "R is the reciprocal of W to 2^-30", RUN, "ARMv6-M's loop, compiled here",
            70, exhaustion.quotient_bits, (I + "c32/attend.h", "left >> 31 || less < n", "less < n"), slow=True),
    Theorem("spectrum_bits", "b = the place of v's highest bit", RUN, "no CLZ", 8, exhaustion.bits,
            (K + "bins.c", "n += 4;", "n += 3;"), slow=True),
    Theorem("spectrum_tables", "the nearest integer to sqrt((32 + h) * 2^41)", RUN, "both tables", 0.1,
            exhaustion.tables, (K + "bins.c", "8646779", "8646778")),
    Theorem("sums", "**Accumulators** are int32 and never overflow for any input", Z3,
            "dense, convolutions, matmul, mean", 0.4, accumulators.sums,
            (K + "shape.c", "2 * limit - 2", "2 * limit - 1")),
    Theorem("winograd_rv32", "is four times the sum", RUN, "C model; order of sums",
            0.2, sums.winograd, (I + "rv32imc/winograd.S", "slli \\to, \\to, 1", "slli \\to, \\to, 2"),
            page=I + "rv32imc/conv2d_winograd.c"),
    Theorem("picture_means", "`S = sum(c) * (2^24 / count) >> 19`", RUN, "fits a word; its byte is at most 255", 0.1,
            sums.pictures, (K + "picture_pixels.h", "s.b * 8290", "s.b * 8320")),
    Theorem("push_power_cut", "what counts is only a page that reads as it should", STATES,
            "five kinds of torn page; three pushes", 4, power.halves,
            ("firmware/mica/slots.py", "found.sort(key=lambda h: -h.sequence)", "found.sort(key=lambda h: h.sequence)"),
            page="firmware/mica/slots.py"),
    Theorem("learner_power_cut", "whenever power fails, the other one is whole", STATES,
            "a cut file begins as the new one", 0.1, power.learner,
            ("firmware/mica/learn.py", "{1 - k if k >= 0 else 0}", "{k if k >= 0 else 0}"),
            page="firmware/mica/learn.py"),
    Theorem("fleet_power_cut", "If power fails before, the old files stay.", STATES,
            "the same; one model", 4, power.fleet,
            ("firmware/mica_fleet/rom.py", "= 1 + max(", "= max("), page="firmware/mica_fleet/rom.py"),
    Theorem("plan", "may only write over bytes whose owner nobody reads any more", RUN,
            "3 models, 32 bytes, 6 places", 1, plans.plans,
            ("host_tools/mica/plan/verify.py", "readers[node.inputs[k]] == 1", "readers[node.inputs[k]] >= 1"),
            page="host_tools/mica/plan/verify.py"),
    Theorem("taps", "Taps [*first, *end) of a window that begins at `start` lie inside [0, size)", Z3,
            "sizes to 65535, windows to 2^30", 2, walks.taps,
            (K + "shape.h", "(dilation - 1 - start) / dilation", "(dilation - start) / dilation"), page=K + "shape.h"),
    *(
        Theorem(f"walk_{name}", "the kernel reads and writes inside its buffers and overflows nowhere", Z3, WALK,
                seconds, walks.walked(name), (K + f"ref/{file}.c", *fault), slow=True, nightly=True,
                page="usermod_c/include/mica_kernels.h")
        for name, file, seconds, fault in (
            ("max_pool2d_s8", "max_pool2d", 12, ("win->in_w + ix + kx", "win->in_w + ix + 1 + kx")),
            ("fully_connected_s8", "fully_connected", 1, ("++row, x += k", "++row, x += k + 1")),
        )
    ),
    Theorem("record", "`bytes` is `record_bytes * count`", Z3, "its text", 0.1, walks.record,
            (R + "model.h", "(size_t)i * f", "(size_t)(i + 1) * f")),
    Theorem("check_header", "No size passes 2^31 - 1.", CBMC,
            f"{FILE}; without the checksum's loop", 0.5, cbmc.proof("header"),
            (R + "check.c", "if (file_bytes > len)", "if (file_bytes > len + 1)"), nightly=True),
    Theorem("load_blob", "Weights begin on a multiple of 16 of DATA, other constants on 4.", CBMC,
            f"{FILE}, sound sections", 1,
            cbmc.proof("blob"), (R + "record.c", "found > data->bytes - offset", "found > data->bytes"), nightly=True),
    Theorem("load_param", "-128 <= act_min <= act_max <= 127", CBMC, f"{FILE}; any limits", 0.5, cbmc.proof("param"),
            (R + "record.c", "(v < low || v > high)", "(v > high)"), nightly=True),
    Theorem("read_string", "every string that begins in it also ends in it", CBMC, f"{FILE}, sound sections", 0.5,
            cbmc.proof("string"), (R + "model.c", "offset < s->bytes &&", "offset <= s->bytes &&"), nightly=True),
    Theorem("load_window", "Shapes of the first input and the output, [1, H, W, C] each", CBMC,
            f"{FILE}; shapes without 0", 3,
            cbmc.proof("window"), (R + "record.c", "i < 6 ? 1 : 0", "i < 5 ? 1 : 0"), nightly=True,
            page=R + "model.h"),
    Theorem("step_constant", "names and addresses stay inside whatever it holds", CBMC,
            f"{FILE}, sound sections; record", 3,
            cbmc.proof("constant"), (R + "model.c", "*bytes <= data->bytes - offset", "*bytes <= data->bytes"),
            nightly=True,
            page=R + "model.c"),
]  # fmt: skip

# Each with what was tried, or what looks at it instead.
NOT_PROVED = (
    "mica_scan, mica_load and op_*.c as wholes: no answer on 96 bytes in 400 s of CBMC. Their loops need contracts.",
    "mica_load_channels, check_inputs: no answer in 20 s of a core. mica_read_tensor: none in 35 s. "
    "mica_broadcast_shapes: none in 24 s. add_s8's sums: none in 100 s.",
    "Sums and accesses of kernels without a row. Tests and sanitizers look at them; fast kernels equal the reference "
    "by test. Walks assume that mica_sum and mica_dot read just what they are given. mica_check_memory: no answer.",
    "The checksum's loop, TOKENS, ORDER (strips), the signature.",
    "armv6m: QUICK, crossed pairs, all assembly but requantisation. armv7m: the pairs of dense.S. armv7em, x86: sums "
    "of pairs; Winograd's transforms.",
    "RV32 beyond its rows. Xtensa and WebAssembly run the C of requant_s8 as their compilers made it.",
    "mica_dsp_requantised (SMMUL in C), mul_s8 of c32, requant_s16.",
    "Linear interpolation; softmax, sigmoid and tanh against real functions: tests compare them.",
    "Plans of more tensors, of strips, of states. The board also takes plans that give wrong answers: it looks at one "
    "step at a time.",
    "The power cut of a plain image below the halves, of files on a filesystem, of an agent's own file; a fourth push.",
    "That compilers, processors, Z3, CBMC and these models of instructions are right.",
)
