// Matrix product with constant weights. One row or few of x: four channels at a time, no scratch. More: in blocks of channels (gemm.c).
// Bytes of scratch for it: the words of 16 rows of weights and four rows of x or more. For codes of 4 bits c32's kernel runs.
#include "host.h"
#if defined(MICA_HOST_X86) && !defined(MICA_WITHOUT_FULLY_CONNECTED_S8)

#include "requant.h"
#include "shape.h"

#define FEW 4
#define SPARE 4 // bytes behind the values that a word may reach

// One row of x.
static void row_of(mica_host_t choice, const mica_gemm_t *g, const int8_t *x, uint32_t k, bool down, int8_t *y) {
    const mica_channels_t *ch = g->ch;
    for (uint32_t o = 0, n; o < g->out_c; o += n) {
        n = g->out_c - o < 8 ? g->out_c - o : 8;
        int32_t acc[8];
        for (uint32_t i = 0; i < n; i += 4) {
            const int8_t *w = ch->weights + (size_t)(o + i) * g->row;
            int32_t sum[4];
            if (n - i >= 4) {
                (choice == MICA_HOST_VNNI ? mica_dots_vnni : mica_dots_avx2)(acc + i, x, w, g->row, k, g->flip);
                continue;
            }
            for (uint32_t j = i; j < n; ++j, w += g->row) {  // four times the same row
                (choice == MICA_HOST_VNNI ? mica_dots_vnni : mica_dots_avx2)(sum, x, w, 0, k, g->flip);
                acc[j] = sum[0];
            }
        }
        for (uint32_t i = 0; i < n; ++i) {
            acc[i] += ch->bias[o + i];
        }
        if (down && n == 8) {
            mica_out_avx2(ch, o, acc, y + o);
            continue;
        }
        for (uint32_t i = 0; i < n; ++i) {
            y[o + i] = mica_requant_s8(acc[i], ch->mult[o + i], ch->shift[o + i], ch->y_zero, ch->act_min, ch->act_max);
        }
    }
}

void mica_fully_connected_s8_host(const mica_fully_connected_s8_t *p, MICA_KERNEL_ARGS) {
    const mica_host_t choice = mica_host_choice();
    const mica_channels_t *ch = &p->ch;
    if (choice == MICA_HOST_VECTOR || MICA_CODED(ch->layout)) {
        mica_fully_connected_s8_c32(p, row_begin, row_end, scratch, scratch_bytes);
        return;
    }
    const uint32_t k = p->in_k, n = p->out_n;
    const size_t one = (size_t)mica_value_bytes(choice) * k;
    mica_windows_t windows = {
        .width = p->rows, .pixel_step = one, .rows = 1, .columns = 1, .values = k, .steps = mica_steps(choice, k),
    };
    const size_t packed = mica_packed_bytes(&windows);
    const mica_gemm_t g = {
        .ch = ch, .out_c = n, .row = mica_row_bytes(ch->layout, k), .packed = scratch,
        .flip = ch->layout == MICA_LAYOUT_OFFSET_ROWS ? 0x80 : 0,
    };
    const bool down = mica_shifts_down(ch, n);
    const bool blocks = down && row_end - row_begin >= FEW && scratch_bytes >= packed + FEW * one + SPARE;
    const uint32_t most = blocks ? (uint32_t)((scratch_bytes - packed - SPARE) / one) : 1;
    const int8_t *x = p->x + (size_t)row_begin * k;
    int8_t *y = p->y + (size_t)row_begin * n;
    for (uint32_t left = row_end - row_begin, rows; left; left -= rows, x += (size_t)rows * k, y += (size_t)rows * n) {
        rows = left < most ? left : most;
        if (blocks) {
            windows.x = (uint8_t *)scratch + packed;
            mica_ready(choice, (uint8_t *)scratch + packed, x, (size_t)rows * k);
            mica_gemm(choice, &g, &windows, rows, y);
        } else {
            row_of(choice, &g, x, k, down, y);
        }
    }
}

#endif
