// Cortex-M start-up and sleep for the emulated boards.
//
// The port's own startup.c has a vector table without external interrupts and leaves the FPU off, so
// this table comes first in flash (see cortexm.ld) and hands over to the port's Reset_Handler.

#include <stdint.h>

#include "board.h"
#include "cortexm.h"

extern uint32_t _estack;
extern void Reset_Handler(void);
extern void NMI_Handler(void);
extern void HardFault_Handler(void);
extern void MemManage_Handler(void);
extern void BusFault_Handler(void);
extern void UsageFault_Handler(void);
extern void SVC_Handler(void);
extern void DebugMon_Handler(void);
extern void PendSV_Handler(void);
extern void board_uart_irq(void);
extern void board_timer_irq(void);

// CPACR gives access to the FPU; compiled code may use it before main, so this is the first thing done.
// On a core without FPU the register ignores the write; Cortex-M0 does not have it.
__attribute__((naked)) void cortexm_reset(void) {
    __asm volatile (
        #if !defined(__ARM_ARCH_6M__)
        "ldr r0, =0xe000ed88\n"
        "ldr r1, [r0]\n"
        "movs r2, #0xf\n"
        "lsls r2, r2, #20\n"
        "orrs r1, r2\n"
        "str r1, [r0]\n"
        "dsb\n"
        "isb\n"
        #endif
        "ldr r0, =Reset_Handler\n"
        "bx r0\n");
}

static void cortexm_systick_irq(void) {
    board_woken = true;
}

typedef void (*cortexm_vector_t)(void);

__attribute__((section(".board_vector"), used))
static const cortexm_vector_t vectors[16 + 64] = {
    [0] = (cortexm_vector_t)&_estack,
    [1] = cortexm_reset,
    [2] = NMI_Handler,
    [3] = HardFault_Handler,
    [4] = MemManage_Handler,
    [5] = BusFault_Handler,
    [6] = UsageFault_Handler,
    [11] = SVC_Handler,
    [12] = DebugMon_Handler,
    [14] = PendSV_Handler,
    [15] = cortexm_systick_irq,
    [16 + BOARD_UART_RX_IRQ] = board_uart_irq,
    [16 + BOARD_TIMER_IRQ] = board_timer_irq,
};

// QEMU sleeps in WFI (the host's CPU goes idle); WFE is a no-op there. WFI with interrupts masked still
// wakes on a pending one, so none can slip in between the test and the sleep.
void board_wait(uint32_t timeout_ms) {
    // SysTick only ends timed waits (24 bits: 0.6 s at 25 MHz); it is off otherwise, so that code under
    // measurement is not interrupted.
    uint32_t ticks_per_ms = BOARD_TIMER_HZ / 1000;
    if (timeout_ms != UINT32_MAX) {
        uint32_t longest_ms = 0xffffff / ticks_per_ms;
        uint32_t ms = timeout_ms < longest_ms ? timeout_ms : longest_ms;
        if (ms == 0) {
            return;
        }
        CORTEXM_SYST_RVR = ms * ticks_per_ms - 1;
        CORTEXM_SYST_CVR = 0;
        CORTEXM_SYST_CSR = 7; // CPU clock, interrupt, enable
    }
    uint32_t state = board_irq_disable();
    if (!board_woken) {
        __asm volatile ("dsb\n wfi" : : : "memory");
    }
    board_woken = false;
    board_irq_restore(state);
    CORTEXM_SYST_CSR = 0;
}
