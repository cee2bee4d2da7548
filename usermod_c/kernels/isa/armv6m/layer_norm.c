// Normalisation of rows on a Cortex-M0+, whose products have 32 bits.
//
// (normal * gamma) >> 20 wants 64. One product of 32 bits of what both begin with, n = normal / 2^a rounded and g = gamma >> 12, is off by
// a bound E that is known before the row, and nearly always that leaves one result. norm.S writes those, and lists the rest, some of a
// hundred, which are done as the reference does them. Products have `places` bits behind the point of an output step, so a = 8 +
// shift - places.
#include "kernels.h"
#if !defined(MICA_WITHOUT_LAYER_NORM_S8) && !defined(MICA_WITHOUT_NORM_LOOPS)

#include "layer_norm.h"

#define GAMMA_PLACES 12u // norm.S has it, too
#define PLACES 11u       // behind the point of n, as norm.S has it
#define PART 64u         // elements at once

typedef struct {
    mica_armv6m_norm_t *run;
    uint32_t a;
    mica_norm_part_t part; // but for what a row decides
} plan_t;

static bool plan(const mica_layer_norm_s8_t *p, plan_t *plan) {
    static mica_armv6m_norm_t *const loops[2][2] = {
        { mica_armv6m_norm_21, mica_armv6m_norm_21_beta },
        { mica_armv6m_norm_19, mica_armv6m_norm_19_beta },
    };
    const bool deviation = p->mode == MICA_NORM_DEVIATION;
    const uint32_t shift = p->shift, gamma = p->gamma_most, beta = p->beta_most;
    if (p->inner != 1 || p->channels < p->n || p->n % 8 != 0 || (uintptr_t)p->x % 4 != 0 || p->mode == MICA_NORM_ABSOLUTE || shift == 0 || gamma == 0
        || p->act_min != INT8_MIN || p->act_max != INT8_MAX) {
        return false;
    }
    // |normal| is at most reach * 2^20, or where that is 1, 2^-14 of itself more: the steps below have room for that.
    const uint32_t reach = deviation ? mica_root(p->n) + 2 : 1;
    // Output steps that a result can have, its offset to 0 among them.
    const uint32_t high = gamma * reach + beta, steps = (shift < 16 ? high << (16 - shift) : high >> (shift - 16)) + 264;
    for (uint32_t i = 0; i < 2; ++i) {
        const uint32_t places = 21 - 2 * i, a = 20 + shift - places - GAMMA_PLACES;
        if (steps >= 1u << (31 - places) || a < 4 || a > 12 || reach >> a != 0 || (beta != 0 && shift < places)) {
            continue;
        }
        // In steps of 2^-shift: of n half of 2^a, 65/2^PLACES of it where the factor is cut, and 1; of g 2^12.
        uint32_t error = ((((35u << a) >> 6) + 2) * gamma >> 4) + (reach << GAMMA_PLACES) + 16;
        error = shift < places ? error << (places - shift) : (error >> (shift - places)) + 2;
        if (error >> (places - 3) != 0) {
            return false;
        }
        plan->run = loops[i][beta != 0];
        plan->a = a;
        plan->part.offset = (1u << (places - 1)) - error + ((uint32_t)(p->y_zero + 128) << places);
        plan->part.limit = 0u - (2 * error << (32 - places));
        plan->part.beta_shift = beta != 0 ? shift - places : 0;
        return true;
    }
    return false;
}

static void row(const mica_layer_norm_s8_t *p, plan_t *plan, const mica_norm_t *a, const int8_t *x, int8_t *y, const int32_t *gamma,
    const int32_t *beta) {
    const uint32_t n = p->n;
    int32_t sum = 0;
    const uint32_t squares = p->mode == MICA_NORM_DEVIATION ? mica_armv6m_norm_sums(x, x + n, &sum) : mica_armv6m_norm_squares(x, x + n, p->x_zero);
    const mica_norm_row_t r = mica_norm_row(p, sum, squares, 0);
    const int32_t up = r.shift - (int32_t)(20 - PLACES + plan->a); // n = (factor * x - centre) * 2^(up - PLACES)
    const bool narrow = a->factor <= MICA_NORM_NARROW;
    if (r.scale == 0 || up < -16 || up > 15) {
        mica_norm_wide(a, &r, gamma, beta, 1, x, y, n);
        return;
    }
    mica_norm_part_t *part = &plan->part;
    const int32_t half = up < 0 ? 1 << (-up - 1) : 0;
    if (narrow) {
        const int32_t factor = a->factor * r.scale, centre = r.centre * r.scale; // at most 2^23 and 2^30
        part->factor = up < 0 ? (uint32_t)((factor + half) >> -up) : (uint32_t)factor << up;
        part->centre = up < 0 ? (uint32_t)((centre + half) >> -up) : (uint32_t)centre << up;
    } else {
        const int64_t factor = (int64_t)a->factor * r.scale, centre = (int64_t)r.centre * r.scale;
        part->factor = (uint32_t)(up < 0 ? (factor + half) >> -up : factor << up);
        part->centre = (uint32_t)(up < 0 ? (centre + half) >> -up : (int64_t)((uint64_t)centre << up));
    }
    part->centre = (1u << (PLACES - 1)) - part->centre;
    for (uint32_t done = 0; done < n;) {
        const uint32_t many = n - done < PART ? n - done : PART;
        int8_t left[PART];
        done += many;
        part->left = left;
        part->x_end = x + done;
        part->y_end = y + done;
        part->index = -(int32_t)many;
        part->gamma = gamma + (done - many);
        part->beta = beta + (done - many);
        const int8_t *end = plan->run(part);
        for (const int8_t *at = left; narrow && at != end; ++at) {
            const int32_t i = (int32_t)done + *at;
            mica_norm_narrow(a, &r, gamma + i, beta + i, 1, x + i, y + i, 1);
        }
        for (const int8_t *at = left; !narrow && at != end; ++at) {
            const int32_t i = (int32_t)done + *at;
            mica_norm_wide(a, &r, gamma + i, beta + i, 1, x + i, y + i, 1);
        }
    }
}

void mica_layer_norm_s8_armv6m(const mica_layer_norm_s8_t *p, MICA_KERNEL_ARGS) {
    plan_t planned;
    if (!plan(p, &planned)) {
        mica_layer_norm_s8_ref(p, row_begin, row_end, scratch, scratch_bytes);
        return;
    }
    const mica_norm_t a = mica_norm(p);
    const uint32_t n = p->n;
    uint32_t c = row_begin == 0 ? 0 : (uint32_t)((uint64_t)row_begin * n % p->channels);
    for (uint32_t r = row_begin; r < row_end; ++r) {
        row(p, &planned, &a, p->x + (size_t)r * n, p->y + (size_t)r * n, p->gamma + c, p->beta + c);
        c = c + n < p->channels ? c + n : 0;
    }
}

#endif
