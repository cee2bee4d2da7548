// Matrix product with constant weights and MVE, four outputs at a time (dense.S), fewer one by one; without scratch.
// Claims without FAST go to armv7em.
#include "kernels.h"
#ifndef MICA_WITHOUT_FULLY_CONNECTED_S8

#include "shape.h"

// Four outputs from o on, of weights as codes, which lie on words.
static void four_of_codes(const mica_channels_t *ch, uint32_t o, const int8_t *x, uint32_t k, uint32_t row, int8_t *y) {
    const int8_t *const table = ch->table, *w = ch->weights + (size_t)o * row;
    int32_t a = 0, b = 0, c = 0, d = 0;
    #define CODES(at) ((const uint16_t *)(const void *)(w + (at) * row))
    for (; k >= 16; k -= 16, x += 16, w += 8) {
        const int8x16_t v = vldrbq_s8(x);
        a = vmladavaq_s8(a, v, mica_mve_decode(vldrhq_u32(CODES(0)), table));
        b = vmladavaq_s8(b, v, mica_mve_decode(vldrhq_u32(CODES(1)), table));
        c = vmladavaq_s8(c, v, mica_mve_decode(vldrhq_u32(CODES(2)), table));
        d = vmladavaq_s8(d, v, mica_mve_decode(vldrhq_u32(CODES(3)), table));
    }
    if (k) {  // x beyond the last element is 0
        const int8x16_t v = vldrbq_z_s8(x, vctp8q(k));
        const mve_pred16_t some = vctp32q((k + 3) / 4);
        a = vmladavaq_s8(a, v, mica_mve_decode(vldrhq_z_u32(CODES(0), some), table));
        b = vmladavaq_s8(b, v, mica_mve_decode(vldrhq_z_u32(CODES(1), some), table));
        c = vmladavaq_s8(c, v, mica_mve_decode(vldrhq_z_u32(CODES(2), some), table));
        d = vmladavaq_s8(d, v, mica_mve_decode(vldrhq_z_u32(CODES(3), some), table));
    }
    #undef CODES
    int32x4_t sums = vdupq_n_s32(a);
    sums = vsetq_lane_s32(b, sums, 1);
    sums = vsetq_lane_s32(c, sums, 2);
    sums = vaddq_s32(vsetq_lane_s32(d, sums, 3), vldrwq_s32(ch->bias + o));
    sums = vrshlq_s32(vqdmulhq_s32(sums, vldrwq_s32(ch->mult + o)), vnegq_s32(vldrbq_s32(ch->shift + o)));
    sums = vmaxq_s32(vaddq_n_s32(sums, ch->y_zero), vdupq_n_s32(ch->act_min));
    vstrbq_s32(y, vminq_s32(sums, vdupq_n_s32(ch->act_max)));
}

// One sum. Weights are taken with `sign` changed.
static int32_t dot(const int8_t *x, const int8_t *w, uint32_t k, uint8x16_t sign) {
    register int32_t sum __asm__("r2") = 0;  // VMLADAVA takes an even one
    __asm__ volatile (
        "wlstp.8 lr, %[k], 2f\n1:\tvldrb.8 q0, [%[x]], #16\n\tvldrb.8 q1, [%[w]], #16\n\tveor q1, q1, %q[sign]\n\t"
        "vmladava.s8 %[sum], q0, q1\n\tletp lr, 1b\n2:"
        : [sum] "+r" (sum), [x] "+r" (x), [w] "+r" (w) : [k] "r" (k), [sign] "w" (sign) : "lr", "q0", "q1", "memory");
    return sum;
}

void mica_fully_connected_s8_armv81m(const mica_fully_connected_s8_t *p, MICA_KERNEL_ARGS) {
    const mica_channels_t *ch = &p->ch;
    const uint32_t n = p->out_n, row = mica_row_bytes(ch->layout, p->in_k);
    const bool coded = MICA_CODED(ch->layout);
    if (!ch->fast || (coded && (n < 4 || !mica_aligned4(ch->weights)))) {
        mica_fully_connected_s8_armv7em(p, row_begin, row_end, scratch, scratch_bytes);
        return;
    }
    mica_mve_dense_t args = {
        .x = p->x + (size_t)row_begin * p->in_k, .k = p->in_k, .row = row, .low = ch->act_min, .high = ch->act_max,
        .sign = ch->layout == MICA_LAYOUT_OFFSET_ROWS ? 0x80 : 0, .zero = ch->y_zero,
    };
    int8_t *y = p->y + (size_t)row_begin * n;
    for (uint32_t left = row_end - row_begin; left; --left, args.x += p->in_k, y += n) {
        for (uint32_t o = 0; n < 4 && o < n; ++o) {
            const int32_t sum = dot(args.x, ch->weights + (size_t)o * row, p->in_k, vdupq_n_u8((uint8_t)args.sign));
            y[o] = mica_requant_fast(sum + ch->bias[o], ch->mult[o], ch->shift[o], args.zero, args.low, args.high);
        }
        for (uint32_t o = 0; coded && o < n; o += 4) {
            o = o + 4 <= n ? o : n - 4;  // the last four may overlap those before
            four_of_codes(ch, o, args.x, p->in_k, row, y + o);
        }
        for (uint32_t o = 0; n >= 4 && !coded;) {
            args.w = ch->weights + (size_t)o * row;
            args.y = y + o;
            args.fours = o == 0 ? n / 4 : 1;
            args.bias = ch->bias + o;
            args.mult = ch->mult + o;
            args.shift = ch->shift + o;
            mica_mve_dense(&args);
            if (n % 4 == 0 || o) {
                break;
            }
            o = n - 4;
        }
    }
}

#endif
