// UART and timer of the nRF51, as QEMU's microbit has them.

#include <stddef.h>
#include <stdint.h>

#include "board.h"
#include "cortexm.h"
#include "uart_ring.h"

#define REGISTER(base, offset) (*(volatile uint32_t *)((base) + (offset)))

#define UART_START_RX REGISTER(BOARD_UART_BASE, 0x000)
#define UART_START_TX REGISTER(BOARD_UART_BASE, 0x008)
#define UART_RX_READY REGISTER(BOARD_UART_BASE, 0x108)
#define UART_TX_READY REGISTER(BOARD_UART_BASE, 0x11c)
#define UART_INT_SET REGISTER(BOARD_UART_BASE, 0x304)
#define UART_INT_CLEAR REGISTER(BOARD_UART_BASE, 0x308)
#define UART_ENABLE REGISTER(BOARD_UART_BASE, 0x500)
#define UART_RX REGISTER(BOARD_UART_BASE, 0x518)
#define UART_TX REGISTER(BOARD_UART_BASE, 0x51c)
#define UART_INT_RX_READY (1 << 2)

void board_uart_init(void) {
    UART_ENABLE = 4;
    UART_START_RX = 1;
    UART_START_TX = 1;
    uart_interrupt(true);
    cortexm_irq_enable(BOARD_UART_RX_IRQ);
}

void uart_interrupt(bool on) {
    if (on) {
        UART_INT_SET = UART_INT_RX_READY;
    } else {
        UART_INT_CLEAR = UART_INT_RX_READY;
    }
}

int uart_take(void) {
    if (!UART_RX_READY) {
        return -1;
    }
    UART_RX_READY = 0; // reading the byte sets it again when the FIFO holds another
    return (int)(UART_RX & 0xff);
}

void board_uart_tx(const char *data, size_t len) {
    for (size_t i = 0; i < len; i++) {
        UART_TX_READY = 0;
        UART_TX = (uint8_t)data[i];
        while (!UART_TX_READY) {
        }
    }
}

#define TIMER_START REGISTER(BOARD_TIMER_BASE, 0x000)
#define TIMER_CAPTURE_0 REGISTER(BOARD_TIMER_BASE, 0x040)
#define TIMER_COMPARED(i) REGISTER(BOARD_TIMER_BASE, 0x140 + 4 * (i))
#define TIMER_INT_SET REGISTER(BOARD_TIMER_BASE, 0x304)
#define TIMER_BIT_MODE REGISTER(BOARD_TIMER_BASE, 0x508)
#define TIMER_PRESCALER REGISTER(BOARD_TIMER_BASE, 0x510)
#define TIMER_COMPARE(i) REGISTER(BOARD_TIMER_BASE, 0x540 + 4 * (i))
#define TIMER_INT_COMPARED(i) (1u << (16 + (i)))

static volatile uint64_t ticks_before;

// 32 bits, which wrap every 268 s. Interrupts at two places of the circle see to it that no wrap goes by unread.
void board_timer_init(void) {
    TIMER_BIT_MODE = 3;
    TIMER_PRESCALER = 0;
    TIMER_COMPARE(1) = 0x40000000;
    TIMER_COMPARE(2) = 0xc0000000;
    TIMER_INT_SET = TIMER_INT_COMPARED(1) | TIMER_INT_COMPARED(2);
    TIMER_START = 1;
    cortexm_irq_enable(BOARD_TIMER_IRQ);
}

uint64_t board_timer_ticks(void) {
    uint32_t state = board_irq_disable();
    TIMER_CAPTURE_0 = 1;
    uint32_t low = TIMER_COMPARE(0);
    ticks_before += low - (uint32_t)ticks_before;
    uint64_t ticks = ticks_before;
    board_irq_restore(state);
    return ticks;
}

void board_timer_irq(void) {
    TIMER_COMPARED(1) = 0;
    TIMER_COMPARED(2) = 0;
    (void)board_timer_ticks();
    board_woken = true;
}
