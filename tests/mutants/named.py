"""Mistakes that were once put into the code to see whether a test fails: by name,
each with the tests that should see it."""

from __future__ import annotations

from dataclasses import dataclass

# Arguments for pytest, what is quick and likely to fail first: the smallest set of tests that fits a place.
SETS: dict[str, tuple[str, ...]] = {
    "load": (
        *("tests/format/test_limits.py", "tests/format/test_load_checks.py"),
        *("tests/format/test_engine.py", "tests/format/test_golden.py", "tests/format/test_names.py"),
        "tests/kernels/test_oracle.py",
    ),
    "kernels": (
        *("tests/format/test_limits.py", "tests/format/test_load_checks.py"),
        *("tests/kernels/test_requantise.py", "tests/kernels/test_oracle.py"),
        *("tests/format/test_engine.py", "tests/format/test_golden.py"),
    ),
    "requant": ("tests/kernels/test_requantise.py", "tests/kernels/test_oracle.py"),
    "changed file": ("tests/format/test_corrupt.py", "-k", "changes_under"),
    "c32": ("tests/bench/test_isa.py", "-k", "oracle and m3"),
    "binding": ("tests/usermod/test_usermod.py", "-k", "UNIX and not newest"),
    "board": ("tests/usermod/test_usermod.py", "-k", "UNIX and not newest"),
    "slots": ("tests/device/test_slots.py", "-k", "not power_cut"),
    "push": (
        *("tests/device/test_push.py", "tests/device/test_romfs.py", "tests/device/test_slots.py", "-k"),
        "test_files or broke_off or romfs and not lengths_at or slots and not power_cut",
    ),
    "pictures": ("tests/kernels/test_picture.py", "tests/format/test_picture_fuzz.py"),
    "tokens": ("tests/format/test_tokens.py",),
    "fleet": ("tests/fleet/test_hostile.py", "tests/fleet/test_fleet_push.py", "tests/fleet/test_fleet_rom.py"),
    "sound": ("tests/e2e/test_listen.py",),
    "microphone": ("tests/device/test_pico_microphone.py", "-k", "filled or soft_reset"),
    "motion": ("tests/e2e/test_watch.py",),
    "strips": ("tests/format/test_order.py", "-k", "square"),
    "steps": ("tests/format/test_changed_steps.py",),
    "faults": ("tests/faults/test_faults.py",),
    "fleet host": (
        "tests/fleet/test_store.py",
        "tests/fleet/test_sim.py",
        "tests/fleet/test_dispatch.py",
        "tests/fleet/test_timing.py",
    ),
    "pack": (
        *("tests/host/test_lowbits.py", "tests/host/test_front_end.py", "tests/host/test_stream.py", "-k"),
        "error_of or counts_in or 32768 or weighted",
    ),
    "trees": ("tests/format/test_tables_of_trees.py",),
    "journal": ("tests/fleet/test_journal.py",),
    "heads": ("tests/usermod/test_usermod.py", "-k", "UNIX and not newest and learner_widths"),
    "wire": ("tests/device/test_hostile_board.py", "-k", "damage_on_its_way"),
}


@dataclass(frozen=True)
class Named:
    """`before` occurs once in `file`; `after` is the mistake; SETS[tests] should find it."""

    name: str
    file: str
    before: str
    after: str
    tests: str


def _c(name: str, file: str, before: str, after: str, tests: str = "load") -> Named:
    return Named(name, f"usermod_c/{file}", before, after, tests)


FLEET = "host_tools/mica_fleet"
NAMED = (
    _c("constant-bounds", "runtime/record.c", "offset > data->bytes || found > data->bytes - offset", "false"),
    _c("overlap", "runtime/load.c", "x < y + r->y.bytes && y < x + r->x[k].bytes && !(", "false && !("),
    _c("split-at-rank-6", "runtime/record.c", "i < r->x[0].rank; ++i) {\n        uint32_t *part",
       "i <= r->x[0].rank; ++i) {\n        uint32_t *part"),
    _c("tensor-alignment", "runtime/model.c", "if (offset % MICA_BLOB_ALIGN) {", "if (false) {"),
    _c("scratch-min", "runtime/load.c", "scratch < least || want < scratch", "want < scratch"),
    _c("fast-128", "kernels/shape.c", "least < -MICA_WEIGHT_LARGEST ||", "least < -128 ||", "kernels"),
    _c("reflect-n", "kernels/ref/pad.c", "MICA_PAD_REFLECT ? n - 1 : n", "MICA_PAD_REFLECT ? n : n"),
    _c("pool-outside", "kernels/ref/average_pool2d.c", "return pad < kernel &&", "return pad <= kernel &&"),
    _c("recurrent-factor", "kernels/ref/recurrent.c", "term[2 * n] >> 30", "term[2 * n] >> 31"),
    _c("softmax-sum-0", "kernels/ref/softmax.c", "sum += sum == 0;", ";", "changed file"),
    _c("gather-clamp", "kernels/ref/gather.c", "i = i < p->x_n ? i : 0;", ";", "changed file"),
    _c("requant-halves", "kernels/requant.h", "r = ((t >> (shift - 1)) + 1) >> 1;", "r = t >> shift;", "requant"),
    _c("c32-fast-rounding", "kernels/requant.h", "zero + (((t >> (shift - 1)) + 1)", "zero + (((t >> (shift - 1)) + 0)",
       "c32"),
    _c("window-cut", "runtime/window.c", "w->stride_w < (uint32_t)w->in_w", "w->stride_w <= (uint32_t)w->in_w",
       "kernels"),
    _c("arena-busy", "binding/arena.c", "CONTROL_MAGIC || c->busy == 0;", "CONTROL_MAGIC || true;", "binding"),
    _c("arena-moved", "binding/model_views.c", "span->data != self->arena_data || span->bytes", "span->bytes",
       "binding"),
    _c("guard-word", "binding/arena.c", "damage |= behind[i] ^ GUARD;", "damage |= i ? behind[i] ^ GUARD : 0;",
       "binding"),
    _c("out-overlap", "runtime/single.c", "mica_load_require(r, apart, ", "mica_load_require(r, apart || true, ",
       "binding"),
    _c("half-away", "binding/values.c", "rest > half || (rest == half && (q & 1))", "rest >= half", "binding"),
    _c("view-head", "binding/model_views.c", "        p = head;\n", "        offset = 0;\n", "binding"),
    Named("supervisor-state", "firmware/mica/supervisor.py", "self._m.put_state(self._kept_state)", "pass", "board"),
    Named("stop-keeps", "firmware/mica/model.py", "self._m.end()  # first", "pass  # first", "board"),
    Named("selftest-state", "firmware/mica/selftest.py", "m.put_state(kept)", "pass", "board"),
    Named("trial-cut-short", "firmware/mica/slots.py", "    if half.begun:\n", "    if False:\n", "slots"),
    Named("half-crc", "firmware/mica/slots.py", "self.start + length]) != crc:",
          "self.start + length]) != crc and False:", "slots"),
    Named("sequence", "host_tools/mica/link/push.py", "sequence = 1 + max(", "sequence = 0 + max(", "push"),
    Named("image-crc", "host_tools/mica/link/push.py", "if found != crc:", "if False:", "push"),
    Named("file-sha", "firmware/mica/remote_push.py", 'if str(hexlify(digest.digest()), "ascii") != sha:', "if False:",
          "push"),
    _c("pads-of-pixels", "runtime/op_conv.c", "w->pad_top || w->pad_left || ", "", "steps"),
    _c("piece-of-none", "runtime/tokens.c", "uint32_t *bytes) {\n    *bytes = 0;\n    if (token",
       "uint32_t *bytes) {\n    if (token", "tokens"),
    _c("weight-of-nothing", "runtime/sample.c", "> 16) {\n        return 0;", "> 16) {\n        return 1;", "tokens"),
    _c("stride-of-a-row", "runtime/order.c", "s->stride = (uint16_t)v[2]", "s->stride = (uint16_t)v[3]", "strips"),
    _c("reach-of-a-row", "runtime/order.c", "(uint32_t)v[4] + 1", "(uint32_t)v[5] + 1", "strips"),
    _c("kernel-of-a-row", "runtime/order.c", "(uint32_t)(v[0] - 1)", "(uint32_t)(v[1] - 1)", "strips"),
    _c("end-of-no-strip", "runtime/strip.c", "uint32_t head = 0, behind = 0;", "uint32_t head = 0, behind = 1;",
       "strips"),
    Named("text-put-back", "firmware/mica/text.py", "m.put_state(self._kept)", "pass", "faults"),
    Named("verdict-put-back", "firmware/mica_fleet/push.py", 'self.have["verdict"] = "fetching"  # first',
          'pass  # first', "faults"),
    Named("trial-ended", "firmware/mica/slots.py", '    except _BROKEN_OFF as e:\n        half.mark("ended")\n',
          "    except _BROKEN_OFF as e:\n", "faults"),
    Named("samples-counted", "firmware/mica/audio.py", "        if self._got is None:\n", "        if True:\n",
          "faults"),
    Named("generation", "host_tools/mica_fleet/store.py", "max(self._generation + 1,", "max(self._generation + 2,",
          "fleet host"),
    Named("life-of-a-board", "tests/fleet/fleet_sim.py", "        b.boot += 1\n", "        pass\n", "fleet host"),
    Named("given-up", "host_tools/mica_fleet/dispatch.py", "if w.outputs is None and not w.given_up)",
          "if w.outputs is None)", "fleet host"),
    Named("number-of-a-part", "host_tools/mica_fleet/timing.py", "part=stage + 1", "part=stage - 1", "fleet host"),
    Named("unit-of-sound", "host_tools/mica/sound/front_ends.py", '"unit": size(1 / 32768)', '"unit": size(1 / 32769)',
          "pack"),
    Named("rows-alike", "host_tools/mica/quantise/stream.py",
          "rows:\n            return self._each if node.op in _EACH and",
          "rows:\n            return self._each if node.op in _EACH or", "pack"),
    Named("error-of-outputs", "host_tools/mica/quantise/lowbits.py", "self.covariance) * b) - 2 *",
          "self.covariance) * b) + 2 *", "pack"),
    Named("damped-weight", "host_tools/mica/quantise/lowbits.py", "axis2=2) + damping *", "axis2=2) - damping *",
          "pack"),
    Named("wire-crc", "host_tools/mica/link/serial_board.py", 'if answer.strip() != b"%d" % binascii.crc32(data):',
          "if False:", "wire"),
    _c("entry-in-a-record", "kernels/ref/trees.c", " || (at + 2 < p->words && !begins(p, at + 2))", "", "trees"),
    _c("longest-word", "runtime/words.c", "> MICA_LONGEST_WORD", ">= MICA_LONGEST_WORD", "tokens"),
    Named("deadly-alone", f"{FLEET}/pool.py", ">= self.settings.deaths - 1", ">= self.settings.deaths", "fleet host"),
    Named("head-padding", "firmware/mica/heads.py", "yield bytes(-width % 4)", "yield bytes(width % 4)", "heads"),
    Named("journal-sync", f"{FLEET}/journal.py", "if now - self._synced > _SYNC_SECONDS:", "if False:", "journal"),
    Named("journal-end", f"{FLEET}/journal.py", "os.fsync(self._file.fileno())\n            self", "self", "journal"),
)  # fmt: skip
