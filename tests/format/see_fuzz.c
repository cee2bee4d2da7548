// Calls kernels/picture.c with numbers as a hostile caller gives them, and frames, tables and pictures of exactly the
// bytes that they say, under sanitizers: `see_fuzz SEED INPUTS`. stdout: how many were taken, and how many refused.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "picture.h"

#define MOST_BYTES (1u << 20)

static uint64_t random_state;

static uint32_t random_below(uint32_t n) {
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return (uint32_t)((random_state * 2685821657736338717u) >> 32) % n;
}

static uint16_t side(uint32_t most) {
    static const uint16_t edges[] = { 0, 1, 2, 3, 127, 128, 129, 16383, 16384, 16385, 32767, 32768, 65535 };
    return random_below(12) == 0 ? edges[random_below(sizeof(edges) / sizeof(*edges))]
        : (uint16_t)(1 + random_below(most));
}

int main(int argc, char **argv) {
    random_state = argc > 2 ? strtoull(argv[1], NULL, 10) * 2 + 1 : 1;
    const uint32_t inputs = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
    uint32_t taken = 0, refused = 0;
    for (uint32_t i = 0; i < inputs; ++i) {
        const uint32_t most = random_below(4) == 0 ? 300 : 40;
        mica_picture_t p = { side(most), side(most), 0, 0, 0, 0, side(most), side(most), (uint16_t)random_below(8),
            (uint16_t)random_below(17) };
        p.w = random_below(4) ? (uint16_t)(p.width - random_below(4)) : side(most);
        p.h = random_below(4) ? (uint16_t)(p.height - random_below(4)) : side(most);
        p.x = random_below(4) ? (uint16_t)(p.width - p.w) : (uint16_t)random_below(5);
        p.y = random_below(4) ? (uint16_t)(p.height - p.h) : (uint16_t)random_below(5);
        const size_t bytes = mica_picture_bytes(&p);
        const uint32_t channels = p.flags & MICA_PICTURE_COLOUR ? 3 : 1;
        const size_t pixels = (size_t)p.out_w * p.out_h;
        if (!mica_picture_check(&p)) {
            refused++;
            continue;
        }
        if (bytes > MOST_BYTES || pixels * channels > MOST_BYTES) {
            continue;
        }
        taken++;
        uint32_t begin = 0, end = p.out_h;
        if (!(p.flags & MICA_PICTURE_PLANES) && random_below(2)) {
            end = random_below(p.out_h + 1u);
            begin = random_below(end + 1);
        }
        const size_t made = (size_t)(end - begin) * p.out_w * channels, at = random_below(4); // frames begin anywhere
        uint8_t *frame = malloc(bytes + at), *table = malloc(256 * channels);
        int8_t *out = malloc(made + 1);
        if (frame == NULL || table == NULL || out == NULL) {
            return 1;
        }
        for (size_t k = 0; k < bytes; ++k) {
            frame[at + k] = (uint8_t)(random_below(3) ? random_below(256) : 255);
        }
        memset(table, 7, 256 * channels);
        memset(out, 1, made + 1);
        mica_picture_rows(&p, frame + at, (const int8_t *)table, begin, end, out);
        for (size_t k = 0; k < made; ++k) {
            if (out[k] != 7) { // a byte that was left out, or an entry from elsewhere
                fprintf(stderr, "byte %u of picture %u\n", (unsigned)k, (unsigned)i);
                return 2;
            }
        }
        if (out[made] != 1) {
            return 3;
        }
        free(frame);
        free(table);
        free(out);
    }
    printf("%u %u\n", (unsigned)taken, (unsigned)refused);
    return 0;
}
