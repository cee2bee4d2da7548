// What the benchmark asks of a core: a counter, a place to print, an end.
#ifndef BENCH_BOARD_H
#define BENCH_BOARD_H

#include <stdint.h>

void board_print(const char *text);
_Noreturn void board_exit(void);

uint32_t board_count(void);
// What lies between two readings of the counter, the cost of reading it taken off.
uint32_t board_elapsed(uint32_t begin, uint32_t end);

#endif
