// Masking of interrupts, by core; for MicroPython's configuration, which every file includes.
#ifndef MICA_BOARDS_QEMU_IRQ_H
#define MICA_BOARDS_QEMU_IRQ_H

#include <stdint.h>

#if defined(__riscv)

#define RISCV_MSTATUS_MIE (8)

static inline uint32_t board_irq_disable(void) {
    uint32_t state;
    __asm volatile ("csrrci %0, mstatus, 8" : "=r" (state) : : "memory");
    return state & RISCV_MSTATUS_MIE;
}

static inline void board_irq_restore(uint32_t state) {
    __asm volatile ("csrs mstatus, %0" : : "r" (state) : "memory");
}

#elif defined(__XTENSA__)

// No interrupt is ever taken there: see xtensa_lx60.c.
static inline uint32_t board_irq_disable(void) {
    return 0;
}

static inline void board_irq_restore(uint32_t state) {
    (void)state;
}

#else

static inline uint32_t board_irq_disable(void) {
    uint32_t state;
    __asm volatile ("mrs %0, primask\n cpsid i" : "=r" (state) : : "memory");
    return state;
}

static inline void board_irq_restore(uint32_t state) {
    __asm volatile ("msr primask, %0" : : "r" (state) : "memory");
}

#endif

#endif
