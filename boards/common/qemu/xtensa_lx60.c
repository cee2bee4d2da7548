// QEMU's Xtensa machine lx60 without MMU, with the lx106 core (call0): start-up, 16550 UART, exit through semihosting,
// time from the cycle counter.
//
// QEMU's machine `sim`, whose console is semihosted, will not do: its bytes are taken by the processor's thread while
// another puts new ones there, and some are lost in a transfer.
//
// The UART is looked at by whoever waits, and by MicroPython's virtual machine now and then. Its FIFO holds 16 bytes,
// and then QEMU stops taking more from the host, so none is lost.

#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "py/gc.h"
#include "py/mphal.h"
#include "py/mpprint.h"
#include "py/mpstate.h"
#include "board.h"
#include "uart.h"
#include "uart_ring.h"

// --- start ------------------------------------------------------------------------------------------

extern int main(int argc, char **argv);
extern uint32_t _sbss[];
extern uint32_t _ebss[];
extern uint32_t xtensa_vectors[];

void xtensa_start(void) {
    for (uint32_t *p = _sbss; p < _ebss; p++) {
        *p = 0;
    }
    __asm volatile (
        "wsr %0, intenable\n"
        "wsr %1, vecbase\n"
        "wsr %0, ps\n" // no exception in progress, no interrupt masked
        "rsync\n"
        : : "r" (0), "r" (xtensa_vectors) : "memory");
    uart_init();
    main(0, NULL);
}

// QEMU begins here.
__asm (
    "    .section .text.xtensa_entry, \"ax\"\n"
    "    .balign 4\n"
    "1:  .word  _estack\n"
    "    .global xtensa_entry\n"
    "xtensa_entry:\n"
    "    l32r   a1, 1b\n"
    "    j      xtensa_start\n"
    "    .text\n");

// Kernel vector at 0x30, user vector at 0x50. The one interrupt is the timer's, which only ends a wait; everything
// else is a crash, such as a load from an odd address.
__asm (
    "    .section .vectors, \"ax\"\n"
    "    .literal_position\n"
    "    .balign 0x100\n"
    "    .global xtensa_vectors\n"
    "xtensa_vectors:\n"
    "    .org xtensa_vectors + 0x30\n"
    "    wsr    a2, excsave1\n"
    "    j      xtensa_trap\n"
    "    .org xtensa_vectors + 0x50\n"
    "    wsr    a2, excsave1\n"
    "    j      xtensa_trap\n"
    "    .org xtensa_vectors + 0x80\n"
    "xtensa_trap:\n"
    "    rsr    a2, exccause\n"
    "    bnei   a2, 4, 1f\n"
    "    movi   a2, 0\n"
    "    wsr    a2, intenable\n"
    "    rsync\n"
    "    rsr    a2, excsave1\n"
    "    rfe\n"
    "1:  rsr    a3, epc1\n"
    "    rsr    a4, excvaddr\n"
    "    call0  xtensa_crash\n"
    "    .text\n");

void xtensa_crash(uint32_t cause, uint32_t pc, uint32_t address) {
    mp_printf(&mp_plat_print, "\nexception %u at %08x, address %08x\n", (unsigned int)cause, (unsigned int)pc, (unsigned int)address);
    // What nobody has read when QEMU ends is lost with its port.
    mp_hal_delay_us(500000);
    exit(1);
}

// Semihosting: the call's number in a2 (1: exit), its argument in a3.
void exit(int status) {
    register int number __asm("a2") = 1;
    register int argument __asm("a3") = status;
    for (;;) {
        __asm volatile ("simcall" : "+r" (number), "+r" (argument) : : "memory");
    }
}

void abort(void) {
    exit(1);
}

// --- UART -------------------------------------------------------------------------------------------

#define UART_REGISTER(i) (*(volatile uint32_t *)(BOARD_UART_BASE + 4 * (i)))
#define UART_DATA UART_REGISTER(0)
#define UART_FIFO_CONTROL UART_REGISTER(2)
#define UART_LINE_STATUS UART_REGISTER(5)
// With a trigger level of 14 bytes, as QEMU's UART takes no more than that at a time from the host; with the usual 1, each
// byte waits for its turn on a busy computer, and mpremote's mount gave up.
#define FIFO_ENABLE_AND_CLEAR (0xc7)
#define LINE_RX_READY (1 << 0)
#define LINE_TX_EMPTY (1 << 5)

void board_uart_init(void) {
    UART_FIFO_CONTROL = FIFO_ENABLE_AND_CLEAR;
}

void uart_interrupt(bool on) {
    (void)on;
}

int uart_take(void) {
    return UART_LINE_STATUS & LINE_RX_READY ? (int)(UART_DATA & 0xff) : -1;
}

void board_uart_tx(const char *data, size_t len) {
    for (size_t i = 0; i < len; i++) {
        while (!(UART_LINE_STATUS & LINE_TX_EMPTY)) {
        }
        UART_DATA = (uint8_t)data[i];
    }
}

void board_uart_irq(void);

// Called by MicroPython's virtual machine, and wherever the board waits.
void board_poll(void) {
    board_uart_irq();
    (void)board_timer_ticks();
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

static bool woken;

void board_wake(void) {
    woken = true;
}

// Sleeps a millisecond at most, as the UART wakes nobody. The timer's interrupt is masked until WAITI itself lets it
// in, so it cannot come too early. Where the computer was busy for a millisecond before the timer was set, its time has
// gone by and comes again in 107 s: then there is no sleep.
void board_wait(uint32_t timeout_ms) {
    board_poll();
    if (timeout_ms != 0 && !board_uart_rx_ready()) {
        uint32_t end = (uint32_t)board_timer_ticks() + BOARD_TIMER_HZ / 1000;
        uint32_t now;
        __asm volatile (
            "rsil %0, 1\n"
            "wsr %1, ccompare0\n"
            "wsr %2, intenable\n"
            "rsync\n"
            "rsr %0, ccount\n"
            : "=&r" (now) : "r" (end), "r" (1 << BOARD_TIMER_INTERRUPT) : "memory");
        if ((int32_t)(now - end) < 0) {
            __asm volatile ("waiti 0" : : : "memory");
        } else {
            __asm volatile ("rsil %0, 0" : "=r" (now) : : "memory");
        }
        board_poll();
    }
    woken = false;
}

// --- garbage collection -----------------------------------------------------------------------------

// MicroPython has a helper for every other core; here setjmp saves the registers that may hold pointers.
void gc_helper_collect_regs_and_stack(void) {
    jmp_buf registers;
    (void)setjmp(registers);
    uintptr_t here = (uintptr_t)&registers;
    gc_collect_root((void **)here, ((uintptr_t)MP_STATE_THREAD(stack_top) - here) / sizeof(uintptr_t));
}
