// A plugin of QEMU: cycles of executed instructions by a core's published table, beside the instructions.
//
//     -plugin libcycles.so,table=cortex_m4,mark=0x1234,out=FILE[,code=0x10000000,data=0x80000000,cold=on]
//
// With `code` and `data`, where a megabyte of code and 16 of data begin that are read from flash, the third total is
// what a Pico 2 would wait for it: a cache of 16 kB, two ways of lines of 8 bytes, of which the one used longest ago
// goes; 56 cycles a line, 32 where it follows the last one within 64 cycles.
//
// Each time the instruction at `mark` is about to run, FILE gets a line of the three totals of count_t so far.
//
// The few names of QEMU's interface that are needed; its own header is no part of a distribution's package. QEMU up to
// 8 takes plugins of version 1 alone, and from 9 on those of version 2: cycle_tables.py says which.
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cycles.h"

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_info {
    const char *target;
    struct {
        int min, cur;
    } version;
};
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, void (*cb)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, void (*cb)(unsigned int, void *), int flags,
    void *userdata);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, void (*cb)(qemu_plugin_id_t, void *), void *userdata);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn,
    void (*cb)(unsigned int, uint32_t, uint64_t, void *), int flags, int rw, void *userdata);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t i);
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *to, size_t bytes);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);

#define EXPORT __attribute__((visibility("default")))

EXPORT int qemu_plugin_version = PLUGIN_VERSION;

// Before version 3 the function of this name returned the address of the instruction's bytes.
static const union {
    size_t (*copy)(const struct qemu_plugin_insn *insn, void *to, size_t bytes);
    const void *(*address)(const struct qemu_plugin_insn *insn);
} insn_data = { .copy = qemu_plugin_insn_data };
static bool before_3;

static decode_t *decode;
static uint64_t mark;
static FILE *out;

static count_t count;

enum { SETS = 1024, MISS = 56, FOLLOWS = 32, COOL_DOWN = 64 };
static bool cold; // the cache is empty after each line of FILE
static uint64_t code = UINT64_MAX, data = UINT64_MAX, waited, free_at;
static uint32_t lines[SETS][2], last_line; // of a set the line used last comes first; each plus 1

// Where an address lies in the flash of a board: a megabyte of code, then data. UINT64_MAX: elsewhere.
static uint64_t flash_offset(uint64_t address) {
    if (code != UINT64_MAX && address - code < 0x100000) {
        return address - code;
    }
    return data != UINT64_MAX && address - data < 0x1000000 ? 0x100000 + address - data : UINT64_MAX;
}

static void touch(uint64_t address) {
    const uint64_t offset = flash_offset(address);
    if (offset == UINT64_MAX) {
        return;
    }
    const uint32_t line = (uint32_t)(offset / 8) + 1;
    uint32_t *set = lines[line % SETS];
    if (set[0] == line) {
        return;
    }
    if (set[1] != line) {
        const uint64_t now = count.cycles + waited;
        waited += line == last_line + 1 && now - free_at <= COOL_DOWN ? FOLLOWS : MISS;
        free_at = count.cycles + waited;
        last_line = line;
    }
    set[1] = set[0];
    set[0] = line;
}

static void accessed(unsigned int cpu, uint32_t info, uint64_t address, void *nothing) {
    (void)cpu, (void)info, (void)nothing;
    touch(address);
}

static void executed(unsigned int cpu, void *what) {
    (void)cpu;
    const instruction_t *i = what;
    if (i->address == mark) {
        fprintf(out, "%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", count.instructions, count.cycles,
            code == UINT64_MAX ? count.late_addresses : waited);
        if (cold) {
            memset(lines, 0, sizeof(lines));
        }
    }
    touch(i->address);
    touch(i->address + i->bytes - 1);
    cycles_count(&count, i);
}

// An instruction is kept as long as QEMU runs: translated blocks may hold it.
static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb) {
    (void)id;
    for (size_t k = 0; k < qemu_plugin_tb_n_insns(tb); k++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, k);
        instruction_t *i = calloc(1, sizeof(*i));
        if (i == NULL) {
            abort();
        }
        i->address = qemu_plugin_insn_vaddr(insn);
        i->bytes = (uint8_t)qemu_plugin_insn_size(insn);
        uint8_t bytes[4] = { 0 };
        const size_t n = i->bytes < 4 ? i->bytes : 4;
        if (before_3) {
            memcpy(bytes, insn_data.address(insn), n);
        } else {
            insn_data.copy(insn, bytes, n);
        }
        decode(bytes, i);
        qemu_plugin_register_vcpu_insn_exec_cb(insn, executed, 0, i);
        if (code != UINT64_MAX) {
            qemu_plugin_register_vcpu_mem_cb(insn, accessed, 0, 3, NULL); // QEMU 7.2 takes loads alone for stores
        }
    }
}

static void ended(qemu_plugin_id_t id, void *nothing) {
    (void)id;
    (void)nothing;
    fclose(out);
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc, char **argv) {
    before_3 = info->version.cur < 3;
    for (int k = 0; k < argc; k++) {
        const char *value = strchr(argv[k], '=');
        if (value == NULL) {
            return -1;
        } else if (strcmp(argv[k], "table=cortex_m4") == 0) {
            decode = decode_cortex_m4;
        } else if (strcmp(argv[k], "table=hazard3") == 0) {
            decode = decode_hazard3;
        } else if (strncmp(argv[k], "mark=", 5) == 0) {
            mark = strtoull(value + 1, NULL, 0);
        } else if (strncmp(argv[k], "code=", 5) == 0) {
            code = strtoull(value + 1, NULL, 0);
        } else if (strncmp(argv[k], "data=", 5) == 0) {
            data = strtoull(value + 1, NULL, 0);
        } else if (strcmp(argv[k], "cold=on") == 0) {
            cold = true;
        } else if (strncmp(argv[k], "out=", 4) == 0) {
            out = fopen(value + 1, "w");
        }
    }
    if (decode == NULL || mark == 0 || out == NULL) {
        fprintf(stderr, "cycles: table=, mark= and out= are expected\n");
        return -1;
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, ended, NULL);
    return 0;
}
