// Runs models and prints the CRC-32 of every step's output, for tests/esp32/check.py to compare with the host's.
// Standard input: for each model its length and bytes, the number of samples, and each sample's inputs. All lengths are
// u32, little endian; a length of 0 ends it.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "mica.h"

int sys_read(void *buf, unsigned int len);
int sys_write(const void *buf, unsigned int len);

void *memcpy(void *restrict to, const void *restrict from, size_t n) {
    for (size_t i = 0; i < n; i++) {
        ((volatile uint8_t *)to)[i] = ((const uint8_t *)from)[i];
    }
    return to;
}

int memcmp(const void *a, const void *b, size_t n) {
    const unsigned char *x = a, *y = b;
    size_t i = 0;
    while (i < n && x[i] == y[i]) {
        i++;
    }
    return i < n ? (int)x[i] - (int)y[i] : 0;
}

size_t strlen(const char *s) {
    size_t n = 0;
    while (s[n]) {
        n++;
    }
    return n;
}

void *memset(void *to, int c, size_t n) {
    for (size_t i = 0; i < n; i++) {
        ((volatile uint8_t *)to)[i] = (uint8_t)c;
    }
    return to;
}

void *memmove(void *to, const void *from, size_t n) {
    if ((uintptr_t)to <= (uintptr_t)from) {
        return memcpy(to, from, n);
    }
    while (n-- > 0) {
        ((volatile uint8_t *)to)[n] = ((const uint8_t *)from)[n];
    }
    return to;
}

int strcmp(const char *a, const char *b) {
    while (*a != 0 && *a == *b) {
        a++;
        b++;
    }
    return (uint8_t)*a - (uint8_t)*b;
}

static uint8_t file[1 << 18] __attribute__((aligned(16)));
static uint8_t arena[1 << 18] __attribute__((aligned(16)));
static uint8_t state[1 << 16] __attribute__((aligned(16)));
static uint8_t memory[1 << 16] __attribute__((aligned(16)));

static int get(void *to, uint32_t n) {
    uint8_t *p = to;
    while (n > 0) {
        int got = sys_read(p, n);
        if (got <= 0) {
            return 0;
        }
        p += got;
        n -= (uint32_t)got;
    }
    return 1;
}

static void say(const char *text) {
    unsigned int n = 0;
    while (text[n] != 0) {
        n++;
    }
    sys_write(text, n);
}

static void say_hex(uint32_t v) {
    char text[10];
    for (int i = 0; i < 8; i++) {
        text[i] = "0123456789abcdef"[v >> (28 - 4 * i) & 15];
    }
    text[8] = '\n';
    text[9] = 0;
    say(text);
}

static uint32_t crc32(const uint8_t *p, uint32_t n) {
    uint32_t crc = 0xffffffffu;
    while (n-- > 0) {
        crc ^= *p++;
        for (int i = 0; i < 8; i++) {
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
        }
    }
    return ~crc;
}

static int run(const mica_model_t *model) {
    const mica_info_t *info = mica_model_info(model);
    mica_tensor_t t;
    for (uint32_t i = 0; i < info->n_inputs; i++) {
        if (!mica_tensor(model, mica_input_id(model, i), &t) || !get(t.data, t.bytes)) {
            return 0;
        }
    }
    for (uint32_t i = 0; i < info->n_steps; i++) {
        mica_step_info_t step;
        mica_run_step(model, i);
        mica_step_info(model, i, &step);
        if (!mica_tensor(model, step.outputs[0], &t)) {
            return 0;
        }
        say_hex(crc32(t.data, t.bytes));
    }
    return 1;
}

int main(void) {
    uint32_t len, samples;
    while (get(&len, 4) && len != 0) {
        mica_error_t err;
        mica_model_t *model;
        if (len > sizeof(file) || !get(file, len) || !get(&samples, 4)) {
            return 2;
        }
        mica_status_t status = mica_load(memory, sizeof(memory), file, len, arena, sizeof(arena), state, sizeof(state),
            &model, &err);
        if (status != MICA_OK) {
            char text[400];
            say(mica_error_text(&err, file, len, text, sizeof(text)));
            return 3;
        }
        while (samples-- > 0) {
            if (!run(model)) {
                return 4;
            }
        }
    }
    return 42;
}
