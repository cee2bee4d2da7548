// The loop over pixels and words of a block. Whoever includes it says: TARGET, PIXELS at a time and FEWER at their end,
// sums_t (of a pixel's 16 channels), dot(sums, word, weights), pair(sums, one tap, another, weights), scale_t with
// scale_of(block), and store(scale, sums, channels, y).

// A word at any address.
typedef int32_t __attribute__((may_alias, aligned(1))) loose_t;

static inline TARGET __attribute__((always_inline)) void pixels(const mica_block_t *b, const sums_t bias,
    uint32_t first, uint32_t left, const uint32_t most) {
    const mica_windows_t f = *b->x;
    const scale_t scale = scale_of(b);  // here, since y could be any memory to the compiler
    const uint32_t channels = b->channels, taps = b->taps, *const tap = b->tap;
    uint32_t column = first % f.width;
    const uint8_t *at = f.x + first / f.width * f.row_step + column * f.pixel_step, *x[PIXELS];
    int8_t *y = b->y + (size_t)first * b->pitch;
    for (uint32_t n; left; left -= n) {
        n = left < most ? left : most;
        sums_t sums[PIXELS];
        MICA_UNROLLED
        for (uint32_t i = 0; i < most; ++i) {
            sums[i] = bias;
            x[i] = i < n ? at : x[0];  // the first one stands for those that are missing
            if (i < n) {
                const bool last = ++column == f.width;
                at += last ? (ptrdiff_t)f.row_step - (ptrdiff_t)((f.width - 1) * f.pixel_step)
                    : (ptrdiff_t)f.pixel_step;
                column = last ? 0 : column;
            }
        }
        const uint32_t *w = b->w;
        for (uint32_t t = 0; t != taps; t += 2, w += MICA_BLOCK) {
            MICA_UNROLLED
            for (uint32_t i = 0; i < most; ++i) {
                sums[i] = pair(sums[i], x[i] + tap[t], x[i] + tap[t + 1], w);
            }
        }
        for (size_t row = 0, begin = 0; !taps && row < f.rows; ++row, begin += f.piece_row) {
            size_t piece = begin;
            for (uint32_t k = f.columns; k; --k, piece += f.piece_column) {
                for (size_t s = piece; s != piece + 4 * (size_t)f.steps; s += 4, w += MICA_BLOCK) {
                    MICA_UNROLLED
                    for (uint32_t i = 0; i < most; ++i) {
                        sums[i] = dot(sums[i], *(const loose_t *)(x[i] + s), w);
                    }
                }
            }
        }
        MICA_UNROLLED
        for (uint32_t i = 0; i < most; ++i) {
            if (i < n) {
                store(&scale, sums[i], channels, y);
                y += b->pitch;
            }
        }
    }
}

static inline TARGET void block(const mica_block_t *b, const sums_t bias) {
    const uint32_t most = b->pixels - b->pixels % PIXELS;
    pixels(b, bias, 0, most, PIXELS);
    pixels(b, bias, most, b->pixels - most, FEWER);
}
