// RV32 on QEMU's virt machine: reset, UART, and the counter of retired instructions.
#include <string.h>

#include "board.h"

extern uint32_t _sbss[], _ebss[];
int main(void);

__attribute__((naked, section(".vectors"), used)) void _start(void) {
    __asm__ volatile (
        ".option push\n .option norelax\n la gp, __global_pointer$\n .option pop\n"
        "la sp, _estack\n"
        "la t0, bench_fault\n csrw mtvec, t0\n"
        "j bench_reset\n");
}

void board_print(const char *text) {
    for (; *text; ++text) {
        *(volatile uint8_t *)0x10000000 = (uint8_t)*text;
    }
}

void board_exit(void) {
    *(volatile uint32_t *)0x100000 = 0x5555;
    for (;;) {
    }
}

uint32_t board_count(void) {
    uint32_t n;
    __asm__ volatile ("csrr %0, minstret" : "=r" (n) : : "memory");
    return n;
}

uint32_t board_elapsed(uint32_t begin, uint32_t end) {
    return end - begin;
}

__attribute__((used)) void bench_reset(void) {
    memset(_sbss, 0, (size_t)((uint8_t *)_ebss - (uint8_t *)_sbss));
    main();
}

__attribute__((used, aligned(4))) void bench_fault(void) {
    board_print("E 0 a fault\n");
    board_exit();
}
