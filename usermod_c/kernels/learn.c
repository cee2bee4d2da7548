// mica: heads that learn; see learn.h. Sums wrap where a block holds numbers that no teaching makes.
#include "learn.h"
#ifndef MICA_WITHOUT_LEARN

#include <string.h>

#include "integer_math.h"

// round(4096 * exp(-j / 16)); 0 from 145 on.
static const uint16_t exponentials[146] = {
    4096, 3848, 3615, 3396, 3190, 2997, 2815, 2645, 2484, 2334, 2192, 2060, 1935, 1818, 1707, 1604, 1507, 1416, 1330, 1249,
    1174, 1102, 1036, 973, 914, 859, 807, 758, 712, 669, 628, 590, 554, 521, 489, 460, 432, 406, 381, 358,
    336, 316, 297, 279, 262, 246, 231, 217, 204, 192, 180, 169, 159, 149, 140, 132, 124, 116, 109, 103,
    96, 90, 85, 80, 75, 70, 66, 62, 58, 55, 52, 48, 46, 43, 40, 38, 35, 33, 31, 29,
    28, 26, 24, 23, 21, 20, 19, 18, 17, 16, 15, 14, 13, 12, 12, 11, 10, 10, 9, 8,
    8, 7, 7, 7, 6, 6, 5, 5, 5, 5, 4, 4, 4, 4, 3, 3, 3, 3, 3, 2,
    2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
    1, 1, 1, 1, 1, 0,
};

bool mica_learn_check(const mica_learn_t *p, size_t classes) {
    return p->kind >= 0 && p->kind <= MICA_LEARN_ANOMALY && p->width >= 1 && p->width <= MICA_LEARN_MAX_WIDTH && p->keep >= 1
           && p->keep <= MICA_LEARN_MAX_KEPT && p->setting >= 1
           && p->setting < (p->kind == MICA_LEARN_ANOMALY ? 1 << 24 : 1 << 16) && classes <= MICA_LEARN_MAX_CLASSES;
}

static uint32_t row_words(const mica_learn_t *p) {
    return p->kind == MICA_LEARN_ANOMALY ? 0 : (uint32_t)p->width;
}

size_t mica_learn_block_bytes(const mica_learn_t *p) {
    const size_t kept = p->kind == MICA_LEARN_PROTOTYPE ? 0 : (size_t)p->keep * (size_t)p->width;
    return (sizeof(mica_learn_class_t) + 4 * row_words(p) + kept + 3) & ~(size_t)3;
}

static int8_t *example(const mica_learn_t *p, const mica_learn_class_t *c, uint32_t i) {
    return (int8_t *)(c->row + row_words(p)) + i * (uint32_t)p->width;
}

// Examples that the class stands for, at least 1: of a prototype all, else those that are kept.
static uint32_t kept(const mica_learn_t *p, const mica_learn_class_t *c) {
    uint32_t most = p->kind == MICA_LEARN_PROTOTYPE ? 65535 : (uint32_t)p->keep;
    uint32_t n = c->count < most ? c->count : most;
    return n ? n : 1;
}

// Few are divided, and MicroPython's native modules have no division of 64 bits.
static uint64_t divide(uint64_t a, uint32_t b) {
    uint64_t q = 0, rest = 0;
    for (int i = 63; i >= 0; --i) {
        rest = rest << 1 | (a >> i & 1);
        q <<= 1;
        if (rest >= b) {
            rest -= b;
            q |= 1;
        }
    }
    return q;
}

static uint32_t at_most(uint64_t v, uint32_t most) {
    return v < most ? (uint32_t)v : most;
}

void mica_learn_teach(const mica_learn_t *p, mica_learn_class_t *c, const int8_t *x) {
    const uint32_t width = (uint32_t)p->width;
    if (p->kind == MICA_LEARN_PROTOTYPE) {
        uint32_t square = 0;
        for (uint32_t i = 0; i < width; ++i) {
            c->row[i] = (int32_t)((uint32_t)c->row[i] + (uint32_t)x[i]);
            square += (uint32_t)(x[i] * x[i]);
        }
        c->bias += square;
        c->shift += c->bias < square;
    } else {
        memcpy(example(p, c, c->count % (uint32_t)p->keep), x, width);
    }
    c->count++;
}

// ---- Prototypes

// Element i of the sum of a class.
static int32_t sum_of(const mica_learn_t *p, const mica_learn_class_t *c, uint32_t n, uint32_t i) {
    if (p->kind == MICA_LEARN_PROTOTYPE) {
        return c->row[i];
    }
    int32_t sum = 0;
    const int8_t *x = example(p, c, 0) + i;
    for (; n != 0; --n, x += p->width) {
        sum += *x;
    }
    return sum;
}

// To the mean of a class, squared, in 16ths: the mean is rounded to quarters.
static uint32_t distance(const mica_learn_t *p, const mica_learn_class_t *c, const int8_t *x) {
    const uint32_t n = kept(p, c);
    uint32_t d = 0;
    for (uint32_t i = 0; i < (uint32_t)p->width; ++i) {
        const uint32_t sum = (uint32_t)sum_of(p, c, n, i) + 128 * n;  // not negative
        const uint32_t apart = 4 * (uint32_t)x[i] - ((8 * sum + n) / (2 * n) - 512);
        d += apart * apart;
    }
    return d;
}

static uint64_t sum_of_squares(const mica_learn_t *p, const mica_learn_class_t *c, uint32_t n) {
    if (p->kind == MICA_LEARN_PROTOTYPE) {
        return (uint64_t)c->shift << 32 | c->bias;
    }
    uint64_t sum = 0;
    const int8_t *x = example(p, c, 0);
    for (uint32_t i = n * (uint32_t)p->width; i != 0; --i, ++x) {
        sum += (uint32_t)(*x * *x);
    }
    return sum;
}

// How far from a mean an example may lie: a multiple of what those that were taught lie from theirs.
static void spread_limits(const mica_learn_t *p, mica_learn_class_t *const *blocks, uint32_t classes) {
    uint64_t scatter = 0;
    uint32_t total = 0;
    for (uint32_t k = 0; k < classes; ++k) {
        const uint32_t n = kept(p, blocks[k]);
        uint64_t squared = 0;
        for (uint32_t i = 0; i < (uint32_t)p->width; ++i) {
            const int64_t s = sum_of(p, blocks[k], n, i);
            squared += (uint64_t)(s * s);
        }
        scatter += sum_of_squares(p, blocks[k], n) - divide(squared, n);
        total += n;
    }
    const uint32_t free = total - classes, mean = free ? at_most(divide(16 * scatter, free), UINT32_MAX) : 0;
    for (uint32_t k = 0; k < classes; ++k) {
        const uint32_t n = kept(p, blocks[k]);
        blocks[k]->limit = free ? at_most(divide((uint64_t)mean * (uint32_t)p->setting * (n + 1), 16 * n) + 1, UINT32_MAX) : 0;
    }
}

// ---- Softmax

// In 16ths; the largest is p->best.
static void logits(mica_learn_t *p, mica_learn_class_t *const *blocks, uint32_t classes, const int8_t *x, int32_t *out) {
    p->best = 0;
    for (uint32_t k = 0; k < classes; ++k) {
        const int32_t *w = blocks[k]->row, *end = w + p->width;
        const int8_t *each = x;
        uint32_t sum = 0;
        while (end - w >= 4) {
            sum += (uint32_t)(w[0] >> 8) * (uint32_t)each[0] + (uint32_t)(w[1] >> 8) * (uint32_t)each[1];
            sum += (uint32_t)(w[2] >> 8) * (uint32_t)each[2] + (uint32_t)(w[3] >> 8) * (uint32_t)each[3];
            w += 4;
            each += 4;
        }
        while (w != end) {
            sum += (uint32_t)(*w++ >> 8) * (uint32_t)*each++;
        }
        out[k] = ((int32_t)sum >> ((11 + blocks[k]->shift) & 31)) + ((int32_t)blocks[k]->bias >> 14);
        p->best = out[k] > out[p->best] ? (int32_t)k : p->best;
    }
}

// Turns logits into numerators of probabilities; returns their sum, at least 4096.
static uint32_t numerators(const mica_learn_t *p, int32_t *o, uint32_t classes) {
    const int32_t most = o[p->best];
    uint32_t sum = 0;
    for (uint32_t k = 0; k < classes; ++k) {
        const uint32_t j = (uint32_t)most - (uint32_t)o[k];
        o[k] = exponentials[j < 145 ? j : 145];
        sum += (uint32_t)o[k];
    }
    return sum;
}

// One step of gradient descent; returns whether all weights are small enough for another.
static bool update(mica_learn_t *p, mica_learn_class_t *const *blocks, uint32_t classes, const int8_t *x, uint32_t label) {
    int32_t o[MICA_LEARN_MAX_CLASSES];
    uint32_t bits = 25, beyond = 0, bias_beyond = 0;
    while (p->width > 1 << (31 - bits)) {
        --bits;
    }
    logits(p, blocks, classes, x, o);
    const uint32_t sum = numerators(p, o, classes), most = 1u << bits;
    for (uint32_t k = 0; k < classes; ++k) {
        const uint32_t g = ((uint32_t)o[k] * 256 + sum / 2) / sum - (k == label ? 256 : 0);
        blocks[k]->bias -= g * 64;
        bias_beyond |= blocks[k]->bias + (1u << 25);
        if (g == 0) {
            continue;
        }
        int32_t *w = blocks[k]->row, *end = w + p->width;
        const int8_t *each = x;
        while (w != end) {
            const uint32_t now = (uint32_t)*w - g * (uint32_t)*each++;
            beyond |= now + most;
            *w++ = (int32_t)now;
        }
    }
    return beyond >> (bits + 1) == 0 && bias_beyond >> 26 == 0;
}

static void centred(const mica_learn_t *p, const int8_t *x, int8_t *work) {
    for (int32_t i = 0; i < p->width; ++i) {
        const int32_t v = x[i] - work[i];
        work[p->width + i] = (int8_t)(v < -128 ? -128 : v > 127 ? 127 : v);
    }
}

// The centre of all examples, weights of 0, and how much the sums are shifted so that a step is neither too large nor too small.
static void begin(const mica_learn_t *p, mica_learn_class_t *const *blocks, uint32_t classes, int8_t *work) {
    const uint32_t width = (uint32_t)p->width;
    uint32_t total = 0;
    for (uint32_t k = 0; k < classes; ++k) {
        total += kept(p, blocks[k]);
    }
    for (uint32_t i = 0; i < width; ++i) {
        uint32_t sum = 128 * total;
        for (uint32_t k = 0; k < classes; ++k) {
            sum += (uint32_t)sum_of(p, blocks[k], kept(p, blocks[k]), i);
        }
        work[i] = (int8_t)((2 * sum + total) / (2 * total) - 128);
    }
    uint64_t power = 0;
    for (uint32_t k = 0; k < classes; ++k) {
        for (uint32_t j = 0; j < kept(p, blocks[k]); ++j) {
            centred(p, example(p, blocks[k], j), work);
            for (uint32_t i = 0; i < width; ++i) {
                power += (uint32_t)(work[width + i] * work[width + i]);
            }
        }
    }
    int32_t shift = -15;  // a step moves a logit by the squares of an example in 2^-(15 + shift)
    for (uint32_t mean = at_most(divide(power, total), UINT32_MAX); mean > 1; mean >>= 1) {
        ++shift;
    }
    for (uint32_t k = 0; k < classes; ++k) {
        memset(blocks[k]->row, 0, 4 * width);
        blocks[k]->bias = 0;
        blocks[k]->shift = (uint32_t)(shift < -11 ? -11 : shift);
    }
}

static bool epoch(mica_learn_t *p, mica_learn_class_t *const *blocks, uint32_t classes, int8_t *work, uint32_t step) {
    uint32_t total = 0, most = 0;
    for (uint32_t k = 0; k < classes; ++k) {
        const uint32_t n = kept(p, blocks[k]);
        total += n;
        most = n > most ? n : most;
    }
    for (uint32_t j = 0; j < most; ++j) {
        for (uint32_t k = 0; k < classes; ++k) {
            if (j >= kept(p, blocks[k])) {
                continue;
            }
            centred(p, example(p, blocks[k], j), work);
            if (!update(p, blocks, classes, work + p->width, k)) {
                return false;
            }
        }
    }
    const uint32_t epochs = 1500 / total;
    return step < (epochs < 15 ? 15 : epochs > 60 ? 60 : epochs);
}

// ---- Anomaly

static uint32_t apart(const int8_t *a, const int8_t *b, int32_t width) {
    uint32_t sum = 0;
    for (int32_t i = 0; i < width; ++i) {
        const int32_t d = a[i] - b[i];
        sum += (uint32_t)(d < 0 ? -d : d);
    }
    return sum;
}

// From x to the nearest example of a class, example `but` aside.
static uint32_t nearest(const mica_learn_t *p, const mica_learn_class_t *c, const int8_t *x, uint32_t but) {
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; i < kept(p, c); ++i) {
        const uint32_t d = i == but ? UINT32_MAX : apart(example(p, c, i), x, p->width);
        best = d < best ? d : best;
    }
    return best;
}

// The distance that one in `setting` normal recordings passes. Those between the ones that were learnt are taken to fall off beyond
// their mean as an exponential does. Two passes need no memory.
static uint32_t alarm_limit(const mica_learn_t *p, const mica_learn_class_t *c) {
    const uint32_t n = kept(p, c);
    if (n < 2) {
        return 0;
    }
    uint64_t sum = 0, beyond = 0;
    uint32_t above = 0;
    for (uint32_t i = 0; i < n; ++i) {
        sum += nearest(p, c, example(p, c, i), i);
    }
    const uint32_t mean = (uint32_t)divide(sum, n);
    for (uint32_t i = 0; i < n; ++i) {
        const uint32_t d = nearest(p, c, example(p, c, i), i);
        above += d > mean;
        beyond += d > mean ? d - mean : 0;
    }
    if (above == 0) {
        return mean + 1;
    }
    const int32_t turns = (int32_t)(mica_log2((uint32_t)p->setting) + mica_log2(above) - mica_log2(n));
    const uint64_t natural = (uint64_t)(turns < 0 ? 0 : turns) * 45426 >> 16;  // times ln 2
    return at_most(mean + 1 + (divide(beyond, above) * natural >> 16), UINT32_MAX);
}

// ---- All kinds

bool mica_learn_fit(mica_learn_t *p, mica_learn_class_t *const *blocks, uint32_t classes, int8_t *work, uint32_t step) {
    if (step != 0) {
        return p->kind == MICA_LEARN_SOFTMAX && classes != 0 && epoch(p, blocks, classes, work, step);
    }
    if (p->kind == MICA_LEARN_ANOMALY) {
        for (uint32_t k = 0; k < classes; ++k) {
            blocks[k]->limit = alarm_limit(p, blocks[k]);
        }
    } else {
        spread_limits(p, blocks, classes);
    }
    if (p->kind != MICA_LEARN_SOFTMAX || classes == 0) {
        return false;
    }
    begin(p, blocks, classes, work);
    return true;
}

void mica_learn_judge(mica_learn_t *p, mica_learn_class_t *const *blocks, uint32_t classes, int8_t *work, const int8_t *x) {
    uint32_t far = UINT32_MAX, next = UINT32_MAX, score = 0;  // next: of the other classes
    const bool softmax = p->kind == MICA_LEARN_SOFTMAX, anomaly = p->kind == MICA_LEARN_ANOMALY;
    p->best = -1;
    if (softmax) {
        int32_t o[MICA_LEARN_MAX_CLASSES];
        centred(p, x, work);
        logits(p, blocks, classes, work + p->width, o);
        const uint32_t sum = numerators(p, o, classes);
        score = (4096 * 256 + sum / 2) / sum;
        far = distance(p, blocks[p->best], x);
    }
    const int32_t found = p->best;
    for (uint32_t k = 0; k < classes; ++k) {
        const uint32_t d = anomaly ? nearest(p, blocks[k], x, UINT32_MAX) : distance(p, blocks[k], x);
        if (!softmax && (d < far || k == 0)) {
            next = far;
            far = d;
            p->best = (int32_t)k;
        } else if ((int32_t)k != found) {
            next = d < next ? d : next;
        }
    }
    const uint32_t limit = blocks[p->best]->limit;
    p->margin = 0;
    if (limit != 0) {
        // Beside the distance itself it counts how much nearer this class is than the next.
        const uint64_t ratio = anomaly || classes == 1 ? 0 : divide((uint64_t)far * 192, next ? next : 1);
        p->margin = 256 - (int32_t)at_most(divide((uint64_t)far * 256, limit) + ratio, 65535);
    }
    p->score = softmax ? (int32_t)score : p->margin;
}

#endif
