// The loop over pixels and words of a block. Whoever includes it says: TARGET, PIXELS at a time, sums_t (of a pixel's 16 channels),
// dot(sums, word, weights) and store(block, sums, y).

// A word at any address.
typedef int32_t __attribute__((may_alias, aligned(1))) loose_t;

static inline TARGET __attribute__((always_inline)) void pixels(const mica_block_t *b, const sums_t bias, const uint32_t most) {
    const mica_windows_t f = *b->x;
    const uint8_t *at = f.x, *x[PIXELS];
    int8_t *y = b->y;
    uint32_t column = 0;
    for (uint32_t left = b->pixels, n; left; left -= n) {
        n = left < most ? left : most;
        sums_t sums[PIXELS];
        MICA_UNROLLED
        for (uint32_t i = 0; i < most; ++i) {
            sums[i] = bias;
            x[i] = i < n ? at : x[0];  // the first one stands for those that are missing
            if (i < n) {
                const bool last = ++column == f.width;
                at += last ? (ptrdiff_t)f.row_step - (ptrdiff_t)((f.width - 1) * f.pixel_step) : (ptrdiff_t)f.pixel_step;
                column = last ? 0 : column;
            }
        }
        const uint32_t *w = b->w;
        for (size_t row = 0, first = 0; row < f.rows; ++row, first += f.piece_row) {
            size_t piece = first;
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
                store(b, sums[i], y);
                y += b->pitch;
            }
        }
    }
}
