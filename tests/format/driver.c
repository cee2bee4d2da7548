// Feeds files to the engine, for test_corrupt.py: loads each, and where that succeeds asks it everything and runs it.
// stdin: for each file its length (u32, little endian) and its bytes. stdout: for each "<status> <text>". Built with
// sanitizers, and every block is exactly as long as the engine was told, so an access beyond one is reported.
#define _POSIX_C_SOURCE 200112L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mica.h"

#define MOST_ARENA (1u << 20)  // a file may ask for 2 GB; such a one is not loaded, and counts as refused for its arena

static uint32_t checksum;

// Exactly as many bytes as asked for, aligned to 16; null for none.
static void *block(size_t bytes) {
    void *p = NULL;
    if (bytes && posix_memalign(&p, 16, bytes) != 0) {
        exit(3);
    }
    return p;
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

static void run(const mica_model_t *m, uint8_t *arena, uint8_t *file, size_t len) {
    const mica_info_t info = *mica_model_info(m);
    for (size_t i = 0; i < info.arena_bytes; ++i) {
        arena[i] = (uint8_t)(i * 97 + 13);
    }
    for (uint32_t i = 0; i < info.n_steps; ++i) {
        mica_run_step(m, i);
    }
    ask(m);
    mica_reset_state(m);
    use(arena, info.arena_bytes);
    // The file changes under the model: the answers may be anything, but no access leaves file, arena or state.
    for (size_t i = 0; i < len; ++i) {
        file[i] = (uint8_t)(file[i] * 5 + i);
    }
    ask_changed(m);
    memset(file, 0xff, len);
    ask_changed(m);
    memset(file, 0, len);
    ask_changed(m);
    mica_reset_state(m);
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
        size_t arena_bytes = info.arena_bytes + info.scratch_min;
        uint8_t *arena = block(arena_bytes), *state = block(info.state_bytes), *mem = block(info.model_bytes);
        mica_model_t *m = NULL;
        status = mica_load(mem, info.model_bytes, file, len, arena, arena_bytes, state, info.state_bytes, &m, &err);
        if (status == MICA_OK) {
            ask(m);
            run(m, arena, file, len);
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
        strcpy(text, "ok");
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
