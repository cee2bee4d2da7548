// The one thing the binding wants of a port: a few instructions that nothing comes between. A native module cannot call
// the port's own, so interrupts of this core are held off here. Ports whose threads share a lock need no more; on the
// RP2040 and RP2350, whose threads share none, two cores that start a run in one arena in the same instant both may.
#ifndef MICA_NATMOD_MPHALPORT_H
#define MICA_NATMOD_MPHALPORT_H

#include "py/mpconfig.h"

static inline mp_uint_t mp_native_irq_off(void) {
    mp_uint_t state = 0;
    #if defined(__arm__)
    __asm volatile ("mrs %0, primask\n\tcpsid i" : "=r" (state) : : "memory");
    #elif defined(__riscv)
    __asm volatile ("csrrci %0, mstatus, 8" : "=r" (state) : : "memory");
    #elif defined(__XTENSA__)
    __asm volatile ("rsil %0, 3" : "=r" (state) : : "memory");
    #endif
    return state;
}

static inline void mp_native_irq_restore(mp_uint_t state) {
    #if defined(__arm__)
    __asm volatile ("msr primask, %0" : : "r" (state) : "memory");
    #elif defined(__riscv)
    __asm volatile ("csrs mstatus, %0" : : "r" (state & 8) : "memory");
    #elif defined(__XTENSA__)
    __asm volatile ("wsr %0, ps\n\trsync" : : "r" (state) : "memory");
    #else
    (void)state;
    #endif
}

#define MICROPY_BEGIN_ATOMIC_SECTION() mp_native_irq_off()
#define MICROPY_END_ATOMIC_SECTION(state) mp_native_irq_restore(state)

#endif
