// The one thing the binding wants of a port: a few instructions that nothing comes between. A native module cannot call
// the port's own, so interrupts of this core are held off here, and where threads run at the same time, a lock keeps
// the others out: on the unix port, whose threads share none, and between the two cores of an RP2040 or RP2350.
// Elsewhere one thread runs at a time (the ESP32's second core waits for the interpreter's lock).
#ifndef MICA_NATMOD_MPHALPORT_H
#define MICA_NATMOD_MPHALPORT_H

#include "py/mpconfig.h"

extern volatile uint32_t mp_native_lock_word; // 0: free
extern volatile uint32_t *mp_native_lock;     // on ARMv6-M and RISC-V; null but on RP2040, RP2350

#if __ARM_ARCH == 6
// ARMv6-M has no exclusive access. In the RP2040's SIO, to read one of these words is to take it, and 0 says it was
// taken (RP2040 datasheet, 2.3.1.3). The SDK keeps number 15 for an operating system; MicroPython is none.
#define NATIVE_LOCK_AT ((volatile uint32_t *)0xd000013c)
#else
#define NATIVE_LOCK_AT (&mp_native_lock_word)
#endif

static inline void mp_native_lock_take(void) {
    #if defined(__x86_64__) || __ARM_ARCH >= 7
    while (__atomic_exchange_n(&mp_native_lock_word, 1, __ATOMIC_ACQUIRE) != 0) {
    }
    #elif __ARM_ARCH == 6
    while (mp_native_lock != NULL && *mp_native_lock == 0) {
    }
    __asm volatile ("dmb" : : : "memory");
    #elif defined(__riscv)
    uint32_t was = mp_native_lock != NULL;
    while (was != 0) {
        __asm volatile (".option push\n\t.option arch, +a\n\tamoswap.w.aq %0, %1, (%2)\n\t.option pop"
            : "=&r" (was) : "r" (1), "r" (mp_native_lock) : "memory");
    }
    #endif
}

static inline void mp_native_lock_give(void) {
    #if defined(__x86_64__) || __ARM_ARCH >= 7
    __atomic_store_n(&mp_native_lock_word, 0, __ATOMIC_RELEASE);
    #elif __ARM_ARCH == 6 || defined(__riscv)
    __sync_synchronize();
    if (mp_native_lock != NULL) {
        *mp_native_lock = 0;
    }
    #endif
}

static inline mp_uint_t mp_native_atomic_begin(void) {
    mp_uint_t state = 0;
    #if defined(__arm__)
    __asm volatile ("mrs %0, primask\n\tcpsid i" : "=r" (state) : : "memory");
    #elif defined(__riscv)
    __asm volatile ("csrrci %0, mstatus, 8" : "=r" (state) : : "memory");
    #elif defined(__XTENSA__)
    __asm volatile ("rsil %0, 3" : "=r" (state) : : "memory");
    #endif
    mp_native_lock_take();
    return state;
}

static inline void mp_native_atomic_end(mp_uint_t state) {
    mp_native_lock_give();
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

#define MICROPY_BEGIN_ATOMIC_SECTION() mp_native_atomic_begin()
#define MICROPY_END_ATOMIC_SECTION(state) mp_native_atomic_end(state)

#endif
