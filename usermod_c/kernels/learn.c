// mica: heads that learn; see learn.h. Sums wrap where a block holds numbers that no teaching makes.
#include "learn.h"
#ifndef MICA_WITHOUT_LEARN

#include <string.h>

#include "integer_math.h"

// Kernels are built for speed, which only the loops over weights need.
#define SMALL __attribute__((cold))
#define LOOP __attribute__((noinline)) static

// round(32768 * exp(-k)), and round(32768 * exp(-k / 16)).
static const uint16_t whole[] = { 32768, 12055, 4435, 1631, 600, 221, 81, 30, 11, 4 };
static const uint16_t sixteenths[] = {
    32768, 30783, 28918, 27166, 25520, 23974, 22521, 21157, 19875, 18671, 17539, 16477, 15479, 14541, 13660, 12832,
};

LOOP uint32_t at_most(uint64_t v, uint32_t most) {
    return v < most ? (uint32_t)v : most;
}

SMALL bool mica_learn_check(const mica_learn_t *p) {
    return (uint32_t)p->kind <= MICA_LEARN_ANOMALY && (uint32_t)p->width - 1 < MICA_LEARN_MAX_WIDTH
           && (uint32_t)p->keep - 1 < (p->kind == MICA_LEARN_PROTOTYPE ? MICA_LEARN_ALL : MICA_LEARN_MAX_KEPT)
           && p->setting >= 1 && p->setting >> (p->kind == MICA_LEARN_ANOMALY ? 24 : 16) == 0;
}

SMALL static int32_t row_words(const mica_learn_t *p) {
    return p->kind == MICA_LEARN_ANOMALY ? 0 : p->kind == MICA_LEARN_PROTOTYPE ? 2 * p->width : p->width;
}

SMALL size_t mica_learn_block_bytes(const mica_learn_t *p, uint32_t examples) {
    const int32_t kept = examples == 0 ? 1 : examples < (uint32_t)p->keep ? (int32_t)examples : p->keep;
    const int32_t bytes = p->kind == MICA_LEARN_PROTOTYPE ? 0 : kept * p->width;
    return (sizeof(mica_learn_class_t) + (size_t)(4 * row_words(p) + bytes) + 3) & ~(size_t)3;
}

SMALL static int8_t *example(const mica_learn_t *p, const mica_learn_class_t *c, uint32_t i) {
    return (int8_t *)(c->row + row_words(p)) + i * (uint32_t)p->width;
}

// Examples that a class stands for, at least 1: of a prototype all, else those that are kept.
SMALL static uint32_t kept(const mica_learn_t *p, const mica_learn_class_t *c) {
    const uint32_t most = p->kind == MICA_LEARN_PROTOTYPE ? MICA_LEARN_ALL : (uint32_t)p->keep;
    const uint32_t n = c->count < most ? c->count : most;
    return n ? n : 1;
}

// Few are divided, and MicroPython's native modules have no division of 64 bits. By 0 it gives any number.
SMALL static uint64_t divide(uint64_t a, uint32_t b) {
    uint32_t rest = 0;
    for (uint32_t i = 0; i < 64; ++i) {
        const uint32_t carry = rest >> 31;
        rest = rest << 1 | (uint32_t)(a >> 63);
        a <<= 1;
        if (carry != 0 || rest >= b) {
            rest -= b;
            ++a;
        }
    }
    return a;
}

// Marks one of 32 bits for an example, by a hash of it.
SMALL LOOP void mark(const mica_learn_t *p, mica_learn_class_t *c, const int8_t *x) {
    uint32_t hash = 0;
    for (int32_t i = 0; i < p->width; ++i) {
        const int32_t v = x[i];
        hash = (hash + (uint32_t)v) * 2654435761u;
    }
    c->bias |= 1u << (hash >> 27);
}

// Examples of a class without repeats, as far as bits tell it: more than 15, or than half of all, may well be all.
SMALL static uint32_t distinct(const mica_learn_t *p, const mica_learn_class_t *c) {
    const uint32_t n = kept(p, c);
    uint32_t marked = 0;
    for (uint32_t bits = c->bias; bits != 0; bits &= bits - 1) {
        ++marked;
    }
    return marked - 1 < 15 && 2 * marked <= n ? marked : n;
}

SMALL void mica_learn_teach(const mica_learn_t *p, uint32_t k, const int8_t *x) {
    mica_learn_class_t *c = p->blocks[k];
    if (p->kind == MICA_LEARN_PROTOTYPE) {
        // Half of all is forgotten where 2 * keep examples are there: never a sum of squares below what the sum needs.
        const bool half = c->count >> 1 >= (uint32_t)p->keep;
        c->count -= half ? c->count >> 1 : 0;
        for (int32_t i = 0; i < p->width; ++i) {
            int32_t sum = c->row[i];
            uint32_t squares = (uint32_t)c->row[p->width + i];
            if (half) {
                sum = (sum + (sum < 0)) >> 1;
                squares -= squares >> 1;
            }
            c->row[i] = (int32_t)((uint32_t)sum + (uint32_t)x[i]);
            c->row[p->width + i] = (int32_t)(squares + (uint32_t)(x[i] * x[i]));
        }
        mark(p, c, x);
    } else {
        memcpy(example(p, c, c->count % (uint32_t)p->keep), x, (size_t)p->width);
    }
    c->count++;
}

// ---- Weights and limits

// Sum of element i over the examples of a class, and of its squares.
SMALL static int32_t sum_of(const mica_learn_t *p, const mica_learn_class_t *c, int32_t i, uint32_t *squares) {
    if (p->kind == MICA_LEARN_PROTOTYPE) {
        *squares = (uint32_t)c->row[p->width + i];
        return c->row[i];
    }
    int32_t sum = 0;
    *squares = 0;
    const int8_t *x = example(p, c, 0) + i;
    for (uint32_t n = kept(p, c); n != 0; --n, x += p->width) {
        sum += *x;
        *squares += (uint32_t)(*x * *x);
    }
    return sum;
}

// To the mean of a class, squared, in 16ths: the mean is rounded to quarters, and a weight of 16 is 1.
SMALL static uint32_t distance(const mica_learn_t *p, const mica_learn_class_t *c, const int8_t *x) {
    const uint8_t *weights = (const uint8_t *)p->work;
    const uint32_t n = kept(p, c);
    uint32_t squares;
    uint64_t d = 0;
    for (int32_t i = 0; i < p->width; ++i) {
        const uint32_t sum = (uint32_t)sum_of(p, c, i, &squares) + 128 * n;  // not negative
        const uint32_t apart = 4 * (uint32_t)x[i] - ((8 * sum + n) / (2 * n) - 512);
        d += apart * apart * weights[i];
    }
    return at_most(d >> 4, UINT32_MAX);
}

// How far the distinct examples of class k lie from their mean in element i, squared, summed up; in quarters.
SMALL static uint64_t scatter(const mica_learn_t *p, uint32_t k, int32_t i) {
    const uint32_t n = kept(p, p->blocks[k]);
    uint32_t squares;
    const int64_t sum = sum_of(p, p->blocks[k], i, &squares);
    return divide(((uint64_t)n * squares - (uint64_t)(sum * sum)) * (4 * distinct(p, p->blocks[k])), n * n);
}

// The same of all classes.
SMALL LOOP uint64_t within(const mica_learn_t *p, int32_t i) {
    uint64_t sum = 0;
    for (uint32_t k = 0; k < p->classes; ++k) {
        sum += scatter(p, k, i);
    }
    return sum;
}

// A weight for each element: the inverse of its variance within the classes (of an anomaly the root of that), shrunk to
// the mean variance as if three examples more had that. The mean is 16. Returns how many examples there are beyond one
// of each class.
SMALL static uint32_t weigh(const mica_learn_t *p) {
    uint32_t free = 0, sum = 0;
    for (uint32_t k = 0; k < p->classes; ++k) {
        mica_learn_class_t *c = p->blocks[k];
        if (p->kind != MICA_LEARN_PROTOTYPE) {
            c->bias = 0;
            for (uint32_t i = 0; i < kept(p, c); ++i) {
                mark(p, c, example(p, c, i));
            }
        }
        free += distinct(p, c) - 1;
    }
    uint64_t all = 0;
    for (int32_t i = 0; i < p->width; ++i) {
        all += within(p, i);
    }
    const uint64_t base = divide(divide(all, free), (uint32_t)p->width) + 1;
    uint16_t *inverse = (void *)p->work;  // where weights and an example lie
    for (int32_t i = 0; i < p->width; ++i) {
        const uint32_t variance = (uint32_t)divide((within(p, i) + 3 * base) << 8, free + 3);
        uint32_t r = free ? at_most(divide(base << 16, variance + 1), 16383) + 1 : 1;
        r = p->kind == MICA_LEARN_ANOMALY ? mica_root(r << 8) : r;
        sum += r;
        inverse[i] = (uint16_t)r;
    }
    for (int32_t i = 0; i < p->width; ++i) {
        const uint32_t weight = at_most((16 * (uint32_t)p->width * inverse[i] + sum / 2) / sum, 255);
        p->work[i] = (int8_t)(weight ? weight : 1);
    }
    return free;
}

// The least distance from the mean of a class to that of another.
SMALL static uint32_t gap(const mica_learn_t *p) {
    uint32_t least = UINT32_MAX, squares;
    int8_t *mean = p->work + p->width;
    for (uint32_t k = 0; k < p->classes; ++k) {
        const uint32_t n = kept(p, p->blocks[k]);
        for (int32_t i = 0; i < p->width; ++i) {
            mean[i] = (int8_t)((2 * (uint32_t)sum_of(p, p->blocks[k], i, &squares) + 257 * n) / (2 * n) - 128);
        }
        for (uint32_t j = 0; j < k; ++j) {
            least = at_most(distance(p, p->blocks[j], mean), least);
        }
    }
    return least;
}

// How far from a mean an example may lie, in 16ths: a multiple of what those of this class lie from it, shrunk to what
// all do as if four more did that; and 5/32 of the gap count as one more. Without a second example or class there is no
// limit.
SMALL static void spread_limits(const mica_learn_t *p) {
    uint64_t scatters[MICA_LEARN_MAX_CLASSES], pooled = 0;
    uint32_t free = weigh(p);
    for (uint32_t k = 0; k < p->classes; ++k) {
        uint64_t sum = 0;
        for (int32_t i = 0; i < p->width; ++i) {
            sum += scatter(p, k, i) * (uint8_t)p->work[i];
        }
        scatters[k] = sum;
        pooled += sum;
    }
    if (p->classes > 1) {
        pooled += gap(p) / 8 * 5;
        ++free;
    }
    pooled = divide(pooled, free);  // in quarters, as scatters are
    for (uint32_t k = 0; k < p->classes; ++k) {
        const uint32_t n = distinct(p, p->blocks[k]);
        const uint64_t spread = divide((scatters[k] >> 2) + pooled, n + 3);
        const uint32_t loose = free ? at_most((spread * (uint32_t)p->setting >> 4) + 1, INT32_MAX) : 0;
        p->blocks[k]->limit = loose + loose / n;
    }
}

// ---- Softmax

// Element i - 1, and i one less. Cortex-M0+ has no signed load at a known offset, so it is hidden.
#define BEFORE(x, i) (--(i), HIDDEN(i), (uint32_t)(x)[i])
#define HIDDEN(i) ({ __asm__("" : "+r" (i)); })

LOOP uint32_t dot(const int32_t *w, const int8_t *x, size_t n) {
    uint32_t sum = 0;
    for (w += n; n >= 4;) {
        w -= 4;
        sum += (uint32_t)(w[3] >> 8) * BEFORE(x, n);
        sum += (uint32_t)(w[2] >> 8) * BEFORE(x, n);
        sum += (uint32_t)(w[1] >> 8) * BEFORE(x, n);
        sum += (uint32_t)(w[0] >> 8) * BEFORE(x, n);
    }
    while (n != 0) {
        sum += (uint32_t)(*--w >> 8) * BEFORE(x, n);
    }
    return sum;
}

#define DESCEND(weight) do { const uint32_t v = BEFORE(x, n); (weight) -= g * v; } while (0)
LOOP void descend(uint32_t *w, const int8_t *x, size_t n, uint32_t g) {
    for (w += n; n >= 4;) {
        w -= 4;
        DESCEND(w[3]);
        DESCEND(w[2]);
        DESCEND(w[1]);
        DESCEND(w[0]);
    }
    while (n != 0) {
        DESCEND(*--w);
    }
}

LOOP void centred(const mica_learn_t *p, const int8_t *x) {
    const int8_t *centre = p->work + 2 * p->width;
    int8_t *to = p->work + p->width;
    for (size_t i = (size_t)p->width; i-- != 0;) {
        int32_t v = x[i] - centre[i];
        v = v < -128 ? -128 : v;
        to[i] = (int8_t)(v > 127 ? 127 : v);
    }
}

// Of example x, the numerators of probabilities in `e`; the largest, 4096, is that of p->best. Returns their sum.
SMALL static uint32_t numerators(mica_learn_t *p, const int8_t *x, uint32_t *e) {
    const size_t width = (size_t)p->width;
    centred(p, x);
    uint32_t best = 0, sum = 0;
    for (uint32_t k = 0; k < p->classes; ++k) {
        const mica_learn_class_t *c = p->blocks[k];
        const int32_t product = (int32_t)dot(c->row, p->work + width, width);
        e[k] = (uint32_t)((product >> ((11 + c->shift) & 31)) + ((int32_t)c->bias >> 14));  // a logit, in 16ths
        best = (int32_t)e[k] > (int32_t)e[best] ? k : best;
    }
    const uint32_t most = e[best], counts = (uint8_t)(p->blocks[0]->shift >> 8);
    for (uint32_t k = 0; k < p->classes; ++k) {
        const uint32_t j = at_most(most - e[k], 65535) * counts >> 4;
        e[k] = j < 160 ? ((uint32_t)whole[j >> 4] * sixteenths[j & 15] + (1 << 17)) >> 18 : 0;  // 4096 * exp(-j / 16)
        sum += e[k];
    }
    p->best = (int32_t)best;
    return sum;
}

// One step of gradient descent.
SMALL static void update(mica_learn_t *p, const int8_t *x, uint32_t label) {
    uint32_t e[MICA_LEARN_MAX_CLASSES];
    const uint32_t sum = numerators(p, x, e);
    for (uint32_t k = 0; k < p->classes; ++k) {
        const uint32_t g = (e[k] * 256 + sum / 2) / sum - (k == label ? 256 : 0);
        if (g != 0) {
            p->blocks[k]->bias -= g * 64;
            descend((uint32_t *)p->blocks[k]->row, p->work + p->width, (size_t)p->width, g);
        }
    }
}

// A step moves a weight by less than 2^15. Weights below 2^25 have sums of 64 products that fit 32 bits, those below
// 2^24 of 128. How large they are is looked at each time as many steps as may have moved one by half of that have been
// done.
SMALL static bool small(const mica_learn_t *p, uint32_t bits) {
    uint32_t beyond = 0;
    for (uint32_t k = 0; k < p->classes; ++k) {
        for (int32_t i = 0; i < p->width; ++i) {
            beyond |= (uint32_t)p->blocks[k]->row[i] + (1u << bits);
        }
    }
    return beyond >> (bits + 1) == 0;
}

// The centre of all examples, weights of 0, and how much sums are shifted: a step moves a logit by the squares of an
// example in 2^-(15 + shift), neither too much nor too little.
SMALL static void begin(const mica_learn_t *p) {
    uint64_t power = 0;
    uint32_t squares, total = 0;
    for (uint32_t k = 0; k < p->classes; ++k) {
        total += kept(p, p->blocks[k]);
    }
    for (int32_t i = 0; i < p->width; ++i) {
        uint32_t sum = 0;
        for (uint32_t k = 0; k < p->classes; ++k) {
            sum += (uint32_t)sum_of(p, p->blocks[k], i, &squares);
            power += squares;
        }
        const uint32_t mean = (2 * sum + 257 * total) / (2 * total) - 128;
        power -= mean * (2 * sum - total * mean);
        p->work[2 * p->width + i] = (int8_t)mean;
    }
    int32_t shift = -15;
    for (uint32_t mean = (uint32_t)divide(power, total); mean > 1; mean >>= 1) {
        ++shift;
    }
    for (uint32_t k = 0; k < p->classes; ++k) {
        mica_learn_class_t *c = p->blocks[k];
        memset(c->row, 0, 4 * (size_t)p->width);
        c->bias = 0;
        c->shift = ((uint32_t)(shift < -11 ? -11 : shift) & 31) | 16 << 8;
    }
}

// An example of each class in turn: a class that has fewer repeats its own. Returns whether there is another epoch.
SMALL static bool epoch(mica_learn_t *p, uint32_t step) {
    uint32_t bits = 25, done = 0, turns = 0;
    while (p->width > 1 << (31 - bits)) {
        --bits;
    }
    for (uint32_t k = 0; k < p->classes; ++k) {
        turns = kept(p, p->blocks[k]) > turns ? kept(p, p->blocks[k]) : turns;
    }
    for (uint32_t j = 0; j < turns; ++j) {
        for (uint32_t k = 0; k < p->classes; ++k) {
            update(p, example(p, p->blocks[k], j % kept(p, p->blocks[k])), k);
            if ((++done & ((1u << (bits - 16)) - 1)) == 0 && !small(p, bits)) {
                return false;
            }
        }
    }
    const uint32_t epochs = 1500 / done;
    return step < (epochs < 15 ? 15 : at_most(epochs, 60)) && small(p, bits);
}

// ---- Anomaly

// From x to the nearest example of a class: a sum of absolute differences, weighed, in 16ths. If x is one of them those
// that are equal do not count.
SMALL static uint32_t nearest(const mica_learn_t *p, const mica_learn_class_t *c, const int8_t *x, bool one) {
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; i < kept(p, c); ++i) {
        const int8_t *y = example(p, c, i);
        uint32_t sum = 0;
        for (int32_t k = 0; k < p->width; ++k) {
            const int32_t d = x[k] - y[k];
            sum += (uint32_t)(d < 0 ? -d : d) * (uint8_t)p->work[k];
        }
        best = one && sum == 0 ? best : at_most(sum, best);
    }
    return best;
}

// By how much distances between examples pass `limit`, in all; and how many do.
SMALL static uint64_t beyond(const mica_learn_t *p, const mica_learn_class_t *c, uint32_t limit, uint32_t *above) {
    uint64_t sum = 0;
    *above = 0;
    for (uint32_t i = 0; i < kept(p, c); ++i) {
        const uint32_t d = nearest(p, c, example(p, c, i), true);
        if (d > limit) {
            sum += d - limit;
            ++*above;
        }
    }
    return sum;
}

// The distance that one in `setting` normal recordings passes. Those between the ones that were learnt are taken to
// fall off beyond their mean as an exponential does. Two passes need no memory.
SMALL static uint32_t alarm_limit(const mica_learn_t *p, const mica_learn_class_t *c) {
    const uint32_t n = kept(p, c);
    uint32_t above;
    const uint32_t mean = (uint32_t)divide(beyond(p, c, 0, &above), n);
    const uint64_t sum = beyond(p, c, mean, &above);
    const uint32_t one_in = (uint32_t)divide((uint64_t)(uint32_t)p->setting * above << 8, n);  // of the tail, in 256ths
    const uint32_t turns = mica_log2(one_in < 256 ? 256 : one_in) - (8 << 16);
    return at_most(mean + 1 + (divide(sum, above) * (turns * 45426ull >> 16) >> 16), UINT32_MAX);  // times ln 2
}

// ---- All kinds

SMALL bool mica_learn_fit(mica_learn_t *p, uint32_t step) {
    const bool softmax = p->kind == MICA_LEARN_SOFTMAX && p->classes != 0;
    if (step != 0) {
        return softmax && epoch(p, step);
    }
    spread_limits(p);
    for (uint32_t k = 0; p->kind == MICA_LEARN_ANOMALY && k < p->classes; ++k) {
        p->blocks[k]->limit = alarm_limit(p, p->blocks[k]);
    }
    if (softmax) {
        begin(p);
    }
    return softmax;
}

// A distance in 256ths of `of`.
SMALL static uint32_t parts(uint32_t distance, uint32_t of) {
    for (; distance >> 23 != 0; distance >>= 1) {
        of >>= 1;
    }
    return 256 * distance / (of ? of : 1);
}

SMALL void mica_learn_judge(mica_learn_t *p, const int8_t *x) {
    uint32_t d[MICA_LEARN_MAX_CLASSES], e[MICA_LEARN_MAX_CLASSES];
    const bool anomaly = p->kind == MICA_LEARN_ANOMALY;
    uint32_t best = 0;
    for (uint32_t k = 0; k < p->classes; ++k) {
        d[k] = anomaly ? nearest(p, p->blocks[k], x, false) : distance(p, p->blocks[k], x);
        best = d[k] < d[best] ? k : best;
    }
    p->best = (int32_t)best;
    uint32_t sum = 0;
    if (p->kind == MICA_LEARN_SOFTMAX) {
        sum = numerators(p, x, e);  // may write over x
    }
    uint32_t far = 0, next = UINT32_MAX;  // in 256ths of a limit: of the best class, the least of another
    for (uint32_t k = 0; k < p->classes; ++k) {
        const uint32_t part = parts(d[k], p->blocks[k]->limit);
        if (k == (uint32_t)p->best) {
            far = part;
        } else {
            next = at_most(part, next);
        }
    }
    // Beside the distance itself it counts how much nearer this class is than the next.
    far += anomaly ? 0 : parts(far, next) / 2;
    p->margin = p->blocks[p->best]->limit ? 256 - (int32_t)at_most(far, 65535) : 0;
    p->score = sum ? (int32_t)((4096 * 256 + sum / 2) / sum) : p->margin;
}

#endif
