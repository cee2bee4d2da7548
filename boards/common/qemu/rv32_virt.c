// QEMU's RISC-V machine `virt`: traps, the 16550 UART behind its interrupt controller (PLIC), time from the CLINT.
//
// The port has a trap table of its own, whose entries for interrupts do nothing and cannot be replaced; ours is set
// right after it, and passes exceptions on to the port, which prints the registers.

#include <stddef.h>
#include <stdint.h>

#include "board.h"
#include "irq.h"
#include "uart_ring.h"

#define UART_IRQ (10)

#define PLIC_PRIORITY(irq) (*(volatile uint32_t *)(0x0c000000 + 4 * (irq)))
#define PLIC_ENABLE (*(volatile uint32_t *)0x0c002000) // hart 0, machine mode, interrupts 0 to 31
#define PLIC_THRESHOLD (*(volatile uint32_t *)0x0c200000)
#define PLIC_CLAIM (*(volatile uint32_t *)0x0c200004)

#define CLINT_TIMECMP_LOW (*(volatile uint32_t *)0x02004000)
#define CLINT_TIMECMP_HIGH (*(volatile uint32_t *)0x02004004)
#define CLINT_TIME_LOW (*(volatile uint32_t *)0x0200bff8)
#define CLINT_TIME_HIGH (*(volatile uint32_t *)0x0200bffc)

#define MIE_TIMER (1 << 7)
#define MIE_EXTERNAL (1 << 11)

extern void mtvec_exception(void);

__attribute__((interrupt("machine"))) void rv32_timer_trap(void) {
    __asm volatile ("csrc mie, %0" : : "r" (MIE_TIMER)); // board_wait turns it on again
    board_woken = true;
}

void board_uart_irq(void);

__attribute__((interrupt("machine"))) void rv32_external_trap(void) {
    uint32_t irq;
    while ((irq = PLIC_CLAIM) != 0) {
        board_uart_irq();
        PLIC_CLAIM = irq;
    }
}

// One jump for each cause, 4 bytes each.
__attribute__((naked, aligned(256))) void rv32_trap_table(void) {
    __asm volatile (
        ".option push\n"
        ".option norvc\n"
        ".rept 7\n" // exceptions, and software interrupts
        "j mtvec_exception\n"
        ".endr\n"
        "j rv32_timer_trap\n" // 7
        ".rept 3\n"
        "j mtvec_exception\n"
        ".endr\n"
        "j rv32_external_trap\n" // 11
        ".option pop\n");
}

// --- time: 64 bits at 10 MHz ------------------------------------------------------------------------

void board_timer_init(void) {
}

uint64_t board_timer_ticks(void) {
    uint32_t high, low;
    do {
        high = CLINT_TIME_HIGH;
        low = CLINT_TIME_LOW;
    } while (high != CLINT_TIME_HIGH);
    return (uint64_t)high << 32 | low;
}

// The timer interrupt only ends timed waits. WFI wakes on a pending interrupt also while they are masked, so none can
// slip in between the test and the sleep.
void board_wait(uint32_t timeout_ms) {
    if (timeout_ms == 0) {
        return;
    }
    uint32_t state = board_irq_disable();
    if (timeout_ms != UINT32_MAX) {
        uint64_t end = board_timer_ticks() + (uint64_t)timeout_ms * (BOARD_TIMER_HZ / 1000);
        CLINT_TIMECMP_HIGH = UINT32_MAX; // no time in between lies in the past
        CLINT_TIMECMP_LOW = (uint32_t)end;
        CLINT_TIMECMP_HIGH = (uint32_t)(end >> 32);
        __asm volatile ("csrs mie, %0" : : "r" (MIE_TIMER));
    }
    if (!board_woken) {
        __asm volatile ("wfi" : : : "memory");
    }
    board_woken = false;
    board_irq_restore(state);
    __asm volatile ("csrc mie, %0" : : "r" (MIE_TIMER));
}

// The port's own start-up means to switch interrupts on, but writes the old value of mstatus back.
void uart16550_connect(void) {
    __asm volatile ("csrw mtvec, %0" : : "r" ((uintptr_t)rv32_trap_table | 1)); // 1: one entry for each cause
    PLIC_PRIORITY(UART_IRQ) = 1;
    PLIC_ENABLE = 1u << UART_IRQ;
    PLIC_THRESHOLD = 0;
    __asm volatile ("csrs mie, %0" : : "r" (MIE_EXTERNAL));
    board_irq_restore(RISCV_MSTATUS_MIE);
}
