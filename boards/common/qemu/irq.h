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

static inline uint32_t board_irq_disable(void) {
    uint32_t state;
    __asm volatile ("rsil %0, 1" : "=r" (state) : : "memory");
    return state;
}

static inline void board_irq_restore(uint32_t state) {
    __asm volatile ("wsr %0, ps\n rsync" : : "r" (state) : "memory");
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
