// Feeds files to the engine, for test_corrupt.py: loads each, and where that succeeds asks it everything and runs it.
// stdin: for each file its length (u32, little endian) and its bytes. stdout: for each "<status> <text>", where it ran
// with a checksum of all that came out, which is the same in every build. Built with sanitizers, and every block is
// exactly as long as the engine was told, so an access beyond one is reported.
//
// A file runs three times: whole steps, then ranges of rows and parts of these, then a half of each step for each of
// two cores. All leave the same bytes in arena and state, or the program ends. Its dice begin with the file, so one
// file always goes one way.
#define _POSIX_C_SOURCE 200112L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mica.h"

#define MOST_ARENA (1u << 20)  // a file may ask for 2 GB; such a one is not loaded, and counts as refused for its arena

static uint32_t checksum, dice;
static void (*before_exit)(void);  // of the fuzzer, which keeps the file

static void wrong(const char *how, uint32_t steps) {
    fprintf(stderr, "ERROR: %s give other bytes than whole steps; steps: %u\n", how, (unsigned)steps);
    if (before_exit != NULL) {
        before_exit();
    }
    exit(5);
}

// Below n; 0 for 0. xorshift32, of which the upper bits are the better ones.
static uint32_t roll(uint32_t n) {
    dice ^= dice << 13;
    dice ^= dice >> 17;
    dice ^= dice << 5;
    return (uint32_t)((uint64_t)dice * n >> 32);
}

// Exactly as many bytes as asked for, aligned to 16; null for none.
static void *block(size_t bytes) {
    void *p = NULL;
    if (bytes && posix_memalign(&p, 16, bytes) != 0) {
        exit(3);
    }
    return p;
}

// Of no bytes there may be no address.
static void copy_bytes(void *to, const void *from, size_t n) {
    if (n) {
        memcpy(to, from, n);
    }
}

static bool differ(const void *a, const void *b, size_t n) {
    return n && memcmp(a, b, n) != 0;
}

static void use(const void *p, size_t n) {
    for (size_t i = 0; i < n; ++i) {
        checksum = checksum * 31 + ((const uint8_t *)p)[i];
    }
}

static void ask(const mica_model_t *m) {
    const mica_info_t *info = mica_model_info(m);
    for (uint32_t i = 0; i < info->n_tensors + 2; ++i) {
        mica_tensor_t t;
        if (mica_tensor(m, i, &t)) {
            use(t.name, strlen(t.name));
            use(t.data, t.bytes);
        }
    }
    for (uint32_t i = 0; i < info->n_steps; ++i) {
        mica_step_info_t s;
        mica_step_info(m, i, &s);
        use(s.name, strlen(s.name));
        for (uint32_t k = 0; k < MICA_MAX_PARAMS; ++k) {
            checksum += (uint32_t)mica_step_param(m, i, k);
        }
        for (uint32_t k = 0; k < MICA_MAX_BLOBS; ++k) {
            uint32_t bytes;
            const void *constant = mica_step_constant(m, i, k, &bytes);
            use(constant, constant ? bytes : 0);
        }
    }
    for (uint32_t i = 0; i < 4; ++i) {
        mica_input_id(m, i);
        mica_output_id(m, i);
    }
    const char *name = mica_metadata(m, "name");
    if (name != NULL) {
        use(name, strlen(name));
    }
    mica_metadata(m, "no such key");
    mica_file_crc(m, 0, 0, UINT32_MAX);
    for (uint32_t i = 0; i <= mica_golden_count(m); ++i) {
        const uint8_t *vector = mica_golden(m, i);
        if (vector != NULL) {
            use(vector, 1);
        }
        const uint8_t *crcs = mica_golden_crcs(m, i);
        if (crcs != NULL) {
            use(crcs, 4 * info->n_steps);
        }
    }
}

static void ask_changed(const mica_model_t *m) {
    ask(m);
    #ifdef RUN_CHANGED
    // Not under UndefinedBehaviorSanitizer: a shift or a sum out of range is a wrong number, which is allowed here.
    for (uint32_t i = 0; i < mica_model_info(m)->n_steps; ++i) {
        mica_run_step(m, i);
    }
    #endif
}

// Nothing that comes out depends on what lies in the scratch.
static void fill(uint8_t *arena, size_t bytes, size_t arena_bytes, uint8_t scratch) {
    for (size_t i = 0; i < bytes; ++i) {
        arena[i] = i < arena_bytes ? (uint8_t)(i * 97 + 13) : scratch;
    }
}

// Rows [begin, end) of a step: at once, or in parts with a share of the scratch each.
static void run_range(const mica_model_t *m, uint32_t i, uint32_t begin, uint32_t end) {
    const uint32_t parts = 1 + roll(4);
    if (parts == 1 || !mica_rows_have_parts(m, i, begin, end, parts)) {
        mica_run_rows(m, i, begin, end);
        return;
    }
    const uint32_t first = roll(parts);
    for (uint32_t k = 0; k < parts; ++k) {
        mica_run_rows_part(m, i, begin, end, (first + k) % parts, parts);
    }
}

// All rows of a step, in up to four ranges, beginning with any of them.
static void run_in_ranges(const mica_model_t *m, uint32_t i) {
    const uint32_t rows = mica_step_rows(m, i), first = mica_is_strip(m, i) ? 0 : roll(4);  // strips' rows are in order
    uint32_t cuts[5] = { 0, 0, 0, 0, rows };
    for (uint32_t k = 1; k < 4; ++k) {
        cuts[k] = cuts[k - 1] + roll(rows - cuts[k - 1] + 1);
    }
    for (uint32_t k = 0; k < 4; ++k) {
        const uint32_t begin = cuts[(first + k) % 4], end = cuts[(first + k) % 4 + 1];
        if (begin < end) {
            run_range(m, i, begin, end);
        }
    }
}

static void run_halves(const mica_model_t *m, uint32_t i, uint32_t begin, uint32_t end) {
    if (!mica_rows_have_parts(m, i, begin, end, 2)) {
        mica_run_rows(m, i, begin, end);
        return;
    }
    const uint32_t first = roll(2);  // either core may be the faster one
    mica_run_rows_part(m, i, begin, end, first, 2);
    mica_run_rows_part(m, i, begin, end, 1 - first, 2);
}

// A step as the module of MicroPython runs it on two cores; in a strip, each call.
static void run_on_two_cores(const mica_model_t *m, uint32_t i) {
    mica_call_t call;
    if (!mica_in_strip(m, i)) {
        run_halves(m, i, 0, mica_step_rows(m, i));
        return;
    }
    for (uint32_t at = 0; mica_strip_next(m, i, at, &call); at += call.rows) {
        run_halves(m, call.piece, 0, call.rows * call.scale);
        mica_strip_ran(m, call.rows);
    }
}

static void rewrite(const mica_model_t *m, uint8_t *file, size_t len, int32_t value) {
    for (size_t i = 0; i < len; ++i) {
        file[i] = value >= 0 ? (uint8_t)value : (uint8_t)roll(256);
    }
    ask_changed(m);
}

static void run(const mica_model_t *m, uint8_t *arena, size_t bytes, uint8_t *state, uint8_t *file, size_t len) {
    const mica_info_t info = *mica_model_info(m);
    uint8_t *arena_then = block(info.arena_bytes), *state_then = block(info.state_bytes);
    static void (*const ways[])(const mica_model_t *, uint32_t) = { mica_run_step, run_in_ranges, run_on_two_cores };
    static const char *const names[] = { "whole steps", "ranges of rows", "two cores" };
    for (size_t way = 0; way < sizeof(ways) / sizeof(*ways); ++way) {
        mica_reset_state(m);
        fill(arena, bytes, info.arena_bytes, way ? 0xa5 : 0x5a);
        for (uint32_t i = 0; i < info.n_steps; ++i) {
            ways[way](m, i);
        }
        if (way == 0) {
            copy_bytes(arena_then, arena, info.arena_bytes);
            copy_bytes(state_then, state, info.state_bytes);
        } else if (differ(arena_then, arena, info.arena_bytes) || differ(state_then, state, info.state_bytes)) {
            wrong(names[way], info.n_steps);
        }
    }
    free(arena_then);
    free(state_then);
    use(arena, info.arena_bytes);
    use(state, info.state_bytes);
    ask(m);
    mica_reset_state(m);
    // The file changes under the model: the answers may be anything, but no access leaves file, arena or state.
    for (size_t i = 0; i < len; ++i) {
        file[i] = (uint8_t)(file[i] * 5 + i);
    }
    ask_changed(m);
    static const int32_t values[] = { 0xff, 0, 0x80, 0x7f, -1, -1 };
    for (size_t i = 0; i < sizeof(values) / sizeof(*values); ++i) {
        rewrite(m, file, len, values[i]);
    }
    mica_reset_state(m);
}

// Scratch beyond the least: none, some, all that is worth having, more than that.
static size_t more_scratch(const mica_info_t *info) {
    const uint32_t most = MOST_ARENA / 4;
    const uint32_t want = info->scratch_want < info->scratch_min ? 0 : info->scratch_want - info->scratch_min;
    const uint32_t useful = want < most ? want : most;
    switch (roll(4)) {
        case 0:
            return 0;
        case 1:
            return roll(useful + 1);
        case 2:
            return useful;
        default:
            return useful + roll(300);
    }
}

static mica_status_t try_file(uint8_t *file, size_t len, char *text, size_t text_bytes) {
    mica_info_t info;
    mica_error_t err;
    mica_status_t status = mica_check(file, len, &info, &err);
    if (status == MICA_OK && (uint64_t)info.arena_bytes + info.scratch_min + info.state_bytes > MOST_ARENA) {
        mica_load(NULL, 0, file, len, NULL, 0, NULL, 0, NULL, &err);
        strcpy(text, "asks for too much memory");
        return MICA_ERR_ARENA;
    }
    if (status == MICA_OK) {
        dice = info.crc32 | 1;
        checksum = 0;
        size_t arena_bytes = info.arena_bytes + info.scratch_min + more_scratch(&info);
        uint8_t *arena = block(arena_bytes), *state = block(info.state_bytes), *mem = block(info.model_bytes);
        mica_model_t *m = NULL;
        status = mica_load(mem, info.model_bytes, file, len, arena, arena_bytes, state, info.state_bytes, &m, &err);
        if (status == MICA_OK) {
            ask(m);
            run(m, arena, arena_bytes, state, file, len);
        }
        free(arena);
        free(state);
        free(mem);
    }
    if (status != MICA_OK) {
        // The text must fit whatever buffer there is.
        char tiny[7];
        mica_error_text(&err, file, len, tiny, sizeof(tiny));
        mica_error_text(&err, NULL, 0, text, text_bytes);
        mica_error_text(&err, file, len, text, text_bytes);
    } else {
        snprintf(text, text_bytes, "ok %08x", (unsigned)checksum);
    }
    return status;
}

int main(void) {
    uint8_t head[4];
    while (fread(head, 1, 4, stdin) == 4) {
        size_t len = head[0] | (size_t)head[1] << 8 | (size_t)head[2] << 16 | (size_t)head[3] << 24;
        uint8_t *file = block(len);
        char text[400];
        if (len && fread(file, 1, len, stdin) != len) {
            return 2;
        }
        mica_status_t status = try_file(file, len, text, sizeof(text));
        for (char *c = text; *c; ++c) {
            *c = *c == '\n' ? ' ' : *c;
        }
        printf("%d %s\n", (int)status, text);
        free(file);
    }
    return 0;
}
