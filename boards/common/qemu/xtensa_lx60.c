// QEMU's Xtensa machine lx60, with a core that has register windows (xtensa_windows.S): 16550 UART, exit
// through semihosting, time from the cycle counter.
//
// QEMU's machine `sim`, whose console is semihosted, will not do: its bytes are taken by the processor's thread while
// another puts new ones there, and some are lost in a transfer.

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "py/gc.h"
#include "py/mphal.h"
#include "py/mpprint.h"
#include "py/mpstate.h"
#include "board.h"
#include "irq.h"
#include "uart.h"
#include "uart_ring.h"

// --- start ------------------------------------------------------------------------------------------

extern int main(int argc, char **argv);

// QEMU begins with a RAM of zeros.
void xtensa_start(void);
void xtensa_start(void) {
    uart_init();
    main(0, NULL);
}

// Semihosting: SIMCALL with the call's number in a2 (1: exit), its argument in a3.
void exit(int status) {
    register int number __asm("a2") = 1;
    register int argument __asm("a3") = status;
    for (;;) {
        __asm volatile (".byte 0, 0x51, 0" : "+r" (number), "+r" (argument) : : "memory");
    }
}

void abort(void) {
    exit(1);
}

// MicroPython takes it for granted of a C library.
float copysignf(float x, float y) {
    return !__builtin_signbit(x) == !__builtin_signbit(y) ? x : -x;
}

static void enable(uint32_t interrupts) {
    __asm volatile ("wsr %0, intenable\n rsync" : : "r" (interrupts) : "memory");
}

void uart16550_connect(void) {
    enable(1 << BOARD_UART_INTERRUPT);
}

void board_uart_irq(void);

// --- traps ------------------------------------------------------------------------------------------

// What xtensa_windows.S saves of an interrupted function and restores.
typedef struct {
    uint32_t a[16];
    uint32_t sar, lbeg, lend, lcount, epc1, ps;
} trap_t;

// MULUH and MULSH, which the ESP32 has and no core of QEMU's: native modules are built for the ESP32.
static bool multiplied(trap_t *of) {
    const uint8_t *at = (const uint8_t *)of->epc1;
    if ((at[0] & 15) != 0 || (at[2] & 0xef) != 0xa2) {
        return false;
    }
    uint32_t x = of->a[at[1] & 15], y = of->a[at[0] >> 4];
    bool is_signed = (at[2] & 0x10) != 0;
    uint64_t product = is_signed ? (uint64_t)((int64_t)(int32_t)x * (int32_t)y) : (uint64_t)x * y;
    of->a[at[1] >> 4] = (uint32_t)(product >> 32);
    of->epc1 += 3;
    if (of->epc1 == of->lend && of->lcount != 0) {
        of->lcount--;
        of->epc1 = of->lbeg;
    }
    return true;
}

// The timer's interrupt only ends a wait; board_wait enables it again. Every other exception is a crash,
// such as a load from an odd address.
void xtensa_trap(uint32_t cause, trap_t *of);
void xtensa_trap(uint32_t cause, trap_t *of) {
    if (cause == 4) {
        uint32_t pending;
        __asm volatile ("rsr %0, interrupt" : "=r" (pending));
        if (pending & 1 << BOARD_UART_INTERRUPT) {
            board_uart_irq();
        }
        enable(1 << BOARD_UART_INTERRUPT);
        board_woken = true;
    } else if (cause != 0 || !multiplied(of)) {
        uint32_t address;
        __asm volatile ("rsr %0, excvaddr" : "=r" (address));
        mp_printf(&mp_plat_print, "\nexception %u at %08x, address %08x\n", (unsigned int)cause, (unsigned int)of->epc1,
            (unsigned int)address);
        // Unread bytes are lost with the port when QEMU ends.
        mp_hal_delay_us(500000);
        exit(1);
    }
}

// --- time -------------------------------------------------------------------------------------------

static uint64_t ticks_before;

void board_timer_init(void) {
}

// The cycle counter wraps every 107 s. A kernel never takes so long, and all else looks here in between.
uint64_t board_timer_ticks(void) {
    uint32_t low;
    __asm volatile ("rsr %0, ccount" : "=r" (low));
    ticks_before += low - (uint32_t)ticks_before;
    return ticks_before;
}

// Interrupts are masked until WAITI itself lets them in, so none comes too early. A wait ends after a minute at most,
// within the counter's turn. Where the computer was busy for so long that the end has gone by, there is no sleep.
void board_wait(uint32_t timeout_ms) {
    if (timeout_ms == 0) {
        return;
    }
    uint32_t state = board_irq_disable();
    uint32_t length = (timeout_ms < 60000 ? timeout_ms : 60000) * (BOARD_TIMER_HZ / 1000);
    uint32_t begin = (uint32_t)board_timer_ticks();
    uint32_t now;
    __asm volatile ("wsr %1, ccompare0\n rsync\n rsr %0, ccount" : "=r" (now) : "r" (begin + length) : "memory");
    enable(1 << BOARD_UART_INTERRUPT | 1 << BOARD_TIMER_INTERRUPT);
    if (!board_woken && now - begin < length) {
        __asm volatile ("waiti 0" : : : "memory");
    }
    board_woken = false;
    enable(1 << BOARD_UART_INTERRUPT);
    board_irq_restore(state);
    (void)board_timer_ticks();
}

// --- garbage collection -----------------------------------------------------------------------------

void xtensa_spill(int n);

// All frames' registers are moved to the stack, those of this one's caller below its own stack pointer.
void gc_helper_collect_regs_and_stack(void) {
    uintptr_t here;
    xtensa_spill(8);
    __asm volatile ("mov %0, a1" : "=r" (here));
    here -= 16;
    gc_collect_root((void **)here, ((uintptr_t)MP_STATE_THREAD(stack_top) - here) / sizeof(uintptr_t));
}
