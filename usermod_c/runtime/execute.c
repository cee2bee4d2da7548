// mica: running. load.c has left nothing that could fail here.
#include "mica_select.h"
#include "model.h"

void mica_run_step(const mica_model_t *m, uint32_t i) {
    const mica_step_t *s = &m->steps[i];
    s->run(s, m->scratch, m->scratch_bytes);
}

const char *mica_isa(void) {
    return MICA_ISA;
}

const char *mica_kernel_name(uint32_t id) {
    switch (id) {
        #define NAME_OF(name, NAME, least, most, in_place, X, Y) \
    case MICA_KERNEL_##NAME: \
        return #name;
        MICA_KERNELS(NAME_OF)
        #undef NAME_OF
        default:
            return NULL;
    }
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
            for (uint32_t i = 0; i < t.bytes; ++i) {
                bytes[i] = (uint8_t)((uint32_t)t.zero_point >> 8 * (i % size));  // of float32 the zero point is 0
            }
        }
    }
}
