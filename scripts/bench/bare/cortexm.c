// Cortex-M: reset, semihosting, and a counter. With BENCH_CYCLES the runner answers semihosting call 0x100 with the
// core's cycles (pico.py); elsewhere SysTick counts down at the processor clock, as QEMU's -icount has it.
#include <string.h>

#include "board.h"

extern uint32_t _sbss[], _ebss[], _estack[];
int main(void);

static uint32_t semihost(uint32_t op, const void *arg) {
    register uint32_t r0 __asm__("r0") = op;
    register const void *r1 __asm__("r1") = arg;
    __asm__ volatile ("bkpt 0xab" : "+r" (r0) : "r" (r1) : "memory");
    return r0;
}

void board_print(const char *text) {
    semihost(4, text);
}

void board_exit(void) {
    semihost(0x18, (const void *)0x20026);
    for (;;) {
    }
}

#define SYST_CSR (*(volatile uint32_t *)0xe000e010)
#define SYST_RVR (*(volatile uint32_t *)0xe000e014)
#define SYST_CVR (*(volatile uint32_t *)0xe000e018)

#ifdef BENCH_CYCLES
uint32_t board_count(void) {
    return semihost(0x100, 0);
}

uint32_t board_elapsed(uint32_t begin, uint32_t end) {
    return end - begin;
}
#else
uint32_t board_count(void) {
    return SYST_CVR;
}

uint32_t board_elapsed(uint32_t begin, uint32_t end) {
    return (begin - end) & 0xffffff;
}
#endif

void bench_reset(void) {
    #if defined(__ARM_FP) || defined(__ARM_FEATURE_MVE)
    *(volatile uint32_t *)0xe000ed88 |= 0xf << 20;  // CPACR: FPU and MVE may be used
    __asm__ volatile ("dsb\n isb" : : : "memory");
    #endif
    memset(_sbss, 0, (size_t)((uint8_t *)_ebss - (uint8_t *)_sbss));
    #ifndef BENCH_CYCLES
    SYST_RVR = 0xffffff;
    SYST_CVR = 0;
    SYST_CSR = 5;  // on, processor clock, no interrupt
    #endif
    main();
}

static void fault(void) {
    board_print("E 0 a fault\n");
    board_exit();
}

__attribute__((section(".vectors"), used)) static const void *const vectors[] = {
    _estack, (const void *)bench_reset, (const void *)fault, (const void *)fault, (const void *)fault,
    (const void *)fault, (const void *)fault, (const void *)fault,
};
