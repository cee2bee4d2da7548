// Bare-metal benchmark of kernels/learn.c: at BENCH_JOBS a head, then the examples of each class. Prints "S <op>
// <count> <hash of the blocks>", numbers in hexadecimal, for teaching all, for each step of learning, and for judging
// the first; then "D".
#include <string.h>

#include "board.h"
#include "learn.h"

typedef struct {
    int32_t numbers[7];
    uint32_t classes, steps;
    int8_t x[];  // [keep][classes][width]
} block_t;

static uint32_t memory[BENCH_ARENA_BYTES / 4];
static uint32_t work[3 * MICA_LEARN_MAX_WIDTH / 4];

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

static void print(uint32_t op, uint32_t count, size_t bytes) {
    uint32_t hash = 0x811c9dc5;
    for (size_t i = 0; i < bytes; ++i) {
        hash = (hash ^ ((uint8_t *)memory)[i]) * 0x01000193;
    }
    board_print("S");
    print_number(op);
    print_number(count);
    print_number(hash);
    board_print("\n");
}

int main(void) {
    const block_t *block = (const block_t *)BENCH_JOBS;
    static mica_learn_t head;
    memcpy(&head, block->numbers, MICA_LEARN_NUMBERS_BYTES);
    head.classes = block->classes;
    head.work = (int8_t *)work;
    const size_t bytes = mica_learn_block_bytes(&head, (uint32_t)head.keep);
    for (uint32_t k = 0; k < block->classes; ++k) {
        head.blocks[k] = (mica_learn_class_t *)((uint8_t *)memory + k * bytes);
    }
    uint32_t begin = board_count();
    const int8_t *x = block->x;
    for (int32_t j = 0; j < head.keep; ++j) {
        for (uint32_t k = 0; k < block->classes; ++k, x += head.width) {
            mica_learn_teach(&head, k, x);
        }
    }
    print(0, board_elapsed(begin, board_count()), block->classes * bytes);
    for (uint32_t step = 0; step < block->steps; ++step) {
        begin = board_count();
        mica_learn_fit(&head, step);
        print(1, board_elapsed(begin, board_count()), block->classes * bytes);
    }
    begin = board_count();
    mica_learn_judge(&head, block->x);
    print(2, board_elapsed(begin, board_count()), block->classes * bytes);
    board_print("D\n");
    board_exit();
}
