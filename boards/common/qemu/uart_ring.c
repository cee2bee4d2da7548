// See uart_ring.h. Received by interrupt, so that the processor can sleep while nothing comes.

#include "py/runtime.h"
#include "shared/runtime/interrupt_char.h"
#include "board.h"
#include "irq.h"
#include "uart_ring.h"

// A power of two. When it is full the UART is left unread, and QEMU stops taking bytes from the host:
// nothing is lost, however fast the host sends.
#define RX_RING_BYTES (4096)

static volatile uint8_t ring[RX_RING_BYTES];
static volatile uint32_t ring_put; // total bytes put and taken; their difference is the fill
static volatile uint32_t ring_taken;
static volatile bool stalled;

void uart_ring_fill(void) {
    for (;;) {
        if (ring_put - ring_taken == RX_RING_BYTES) {
            uart_interrupt(false);
            stalled = true;
            return;
        }
        int c = uart_take();
        if (c < 0) {
            return;
        }
        if (c == mp_interrupt_char) {
            mp_sched_keyboard_interrupt();
        } else {
            ring[ring_put % RX_RING_BYTES] = (uint8_t)c;
            ring_put++;
        }
    }
}

void board_uart_irq(void) {
    uart_ring_fill();
    board_woken = true;
}

bool board_uart_rx_ready(void) {
    return ring_put != ring_taken;
}

int board_uart_rx(void) {
    if (ring_put == ring_taken) {
        return -1;
    }
    int c = ring[ring_taken % RX_RING_BYTES];
    ring_taken++;
    // Half empty before asking for more: fewer interrupts in a long transfer.
    if (stalled && ring_put - ring_taken <= RX_RING_BYTES / 2) {
        uint32_t state = board_irq_disable();
        stalled = false;
        uart_interrupt(true);
        uart_ring_fill(); // what was left in the UART raised no interrupt
        board_irq_restore(state);
    }
    return c;
}
