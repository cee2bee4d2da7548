// mica: running. load.c has left nothing that could fail here.
#include <string.h>

#include "mica_select.h"
#include "op.h"

// Of a piece, which lies behind the steps, there is no strip.
static bool in_strip(const mica_model_t *m, uint32_t i) {
    return m->order != NULL && i < m->info.n_steps && mica_in_strip(m, i);
}

uint32_t mica_step_rows(const mica_model_t *m, uint32_t i) {
    if (in_strip(m, i)) {
        return mica_strip_rows(m, i);
    }
    const mica_step_t *s = &m->steps[i];
    return s->run(s, 0, 0, NULL, 0);
}

void mica_run_step(const mica_model_t *m, uint32_t i) {
    if (in_strip(m, i)) {
        mica_strip_run(m, i, 0, UINT32_MAX);
        return;
    }
    const mica_step_t *s = &m->steps[i];
    s->run(s, 0, UINT32_MAX, m->scratch, m->scratch_bytes);
}

void mica_run_steps(const mica_model_t *m, uint32_t begin, uint32_t end) {
    for (uint32_t i = begin; i < end; i++) {
        mica_run_step(m, i);
    }
}

void mica_set_scratch(mica_model_t *m, void *scratch, size_t bytes) {
    m->scratch = scratch;
    m->scratch_bytes = bytes;
}

// Scratch of each part, kept aligned.
static size_t part_bytes(const mica_model_t *m, uint32_t parts) {
    return m->scratch_bytes / parts & ~(size_t)(MICA_ALIGN - 1);
}

// A step whose rows can be cut further: into how many pieces each, and the step over those. 0: they cannot.
static uint32_t cut_rows(const mica_step_t *s, mica_step_t *to) {
    uint32_t pieces = 0;
#ifndef MICA_WITHOUT_CONV2D_S8
    pieces = mica_conv2d_by_pixels(s, to);
#endif
#ifndef MICA_WITHOUT_AVERAGE_POOL2D_S8
    pieces = pieces ? pieces : mica_average_pool2d_by_channels(s, to);
#endif
    (void)s, (void)to;
    return pieces;
}

bool mica_rows_have_parts(const mica_model_t *m, uint32_t i, uint32_t begin, uint32_t end, uint32_t parts) {
    if (in_strip(m, i) || part_bytes(m, parts) < m->info.scratch_min) {
        return false;
    }
#ifndef MICA_WITHOUT_FULLY_CONNECTED_S8
    if (mica_fully_connected_alone(&m->steps[i])) {
        return false;
    }
#endif
    mica_step_t cut;
    return end - begin >= parts || (uint64_t)(end - begin) * cut_rows(&m->steps[i], &cut) >= parts;
}

bool mica_step_has_parts(const mica_model_t *m, uint32_t i, uint32_t parts) {
    return mica_rows_have_parts(m, i, 0, mica_step_rows(m, i), parts);
}

void mica_run_rows(const mica_model_t *m, uint32_t i, uint32_t begin, uint32_t end) {
    if (in_strip(m, i)) {
        mica_strip_run(m, i, begin, end);
        return;
    }
    const mica_step_t *s = &m->steps[i];
    s->run(s, begin, end, m->scratch, m->scratch_bytes);
}

void mica_run_rows_part(const mica_model_t *m, uint32_t i, uint32_t begin, uint32_t end, uint32_t part,
    uint32_t parts) {
    const mica_step_t *s = &m->steps[i];
    const size_t bytes = part_bytes(m, parts);
    mica_step_t cut;
    const uint32_t pieces = cut_rows(s, &cut);
    if (pieces) {  // halves of 25 rows of 5 are 13 and 12 rows, but 63 and 62 pixels
        s = &cut;
        begin *= pieces;
        end *= pieces;
    }
    const uint64_t rows = end - begin;
    s->run(s, begin + (uint32_t)(rows * part / parts), begin + (uint32_t)(rows * (part + 1) / parts),
        (uint8_t *)m->scratch + part * bytes, bytes);
}

void mica_run_part(const mica_model_t *m, uint32_t i, uint32_t part, uint32_t parts) {
    mica_run_rows_part(m, i, 0, mica_step_rows(m, i), part, parts);
}

const char *mica_isa(void) {
    return MICA_ISA;
}

const char *mica_kernel_name(uint32_t id) {
    #define ID_OF(name, NAME, least, most, in_place, X, LAST, Y) MICA_KERNEL_##NAME,
    static const uint8_t ids[] = { MICA_KERNELS(ID_OF) };
    #undef ID_OF
    #define NAME_OF(name, NAME, least, most, in_place, X, LAST, Y) #name "\0"
    static const char names[] = MICA_KERNELS(NAME_OF);
    #undef NAME_OF
    const char *name = names;
    for (size_t i = 0; i < sizeof(ids); ++i, name += strlen(name) + 1) {
        if (ids[i] == id) {
            return name;
        }
    }
    return NULL;
}

bool mica_kernel_present(uint32_t id) {
    return mica_step_loader(id) != NULL;
}

void mica_reset_state(const mica_model_t *m) {
    for (uint32_t id = 0; id < m->info.n_tensors; ++id) {
        mica_tensor_t t;
        if (mica_tensor(m, id, &t) && t.space == MICA_SPACE_STATE) {
            uint8_t *bytes = t.data;
            uint32_t size = mica_element_bytes(t.dtype);
            if (size == 1) {
                memset(bytes, t.zero_point, t.bytes);  // a cache of 40 kB at a byte a time is 16 ms of a Pico
                continue;
            }
            for (uint32_t i = 0; i < t.bytes; ++i) {
                bytes[i] = (uint8_t)((uint32_t)t.zero_point >> 8 * (i % size));  // of float32 the zero point is 0
            }
        }
    }
}
