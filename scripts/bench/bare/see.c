// Bare-metal benchmark of kernels/picture.c: for each job of the block at BENCH_JOBS one line, "S <job> <count> <hash
// of the picture>", numbers in hexadecimal; then "D". tests/bench/test_picture_cost.py has both ends.
#include "board.h"
#include "picture.h"

typedef struct {
    mica_picture_t picture;
    uint32_t frame, table;  // offsets from the start of the block
} job_t;

typedef struct {
    uint32_t count;
    job_t jobs[];
} block_t;

static int8_t out[BENCH_ARENA_BYTES];

static void print_number(uint32_t v) {
    char text[10], *p = text + sizeof(text);
    *--p = 0;
    do {
        *--p = "0123456789abcdef"[v & 15];
        v >>= 4;
    } while (v);
    board_print(" ");
    board_print(p);
}

int main(void) {
    const block_t *block = (const block_t *)BENCH_JOBS;
    const uint8_t *base = (const uint8_t *)block;
    for (uint32_t i = 0; i < block->count; ++i) {
        const job_t *job = &block->jobs[i];
        const mica_picture_t *p = &job->picture;
        const uint32_t begin = board_count();
        const bool good = mica_picture_check(p);
        if (good) {
            mica_picture_rows(p, base + job->frame, (const int8_t *)base + job->table, 0, p->out_h, out);
        }
        const uint32_t count = board_elapsed(begin, board_count());
        uint32_t hash = 0x811c9dc5;
        for (uint32_t k = 0; good && k < (uint32_t)p->out_w * p->out_h * (p->flags & MICA_PICTURE_COLOUR ? 3 : 1);
            ++k) {
            hash = (hash ^ (uint8_t)out[k]) * 0x01000193;
        }
        board_print("S");
        print_number(i);
        print_number(count);
        print_number(hash);
        board_print("\n");
    }
    board_print("D\n");
    board_exit();
}
