// REPL over UART 0 of the Arm CMSDK (MPS2 and MPS3 boards), received by interrupt: the processor can
// sleep while nothing comes, and Ctrl-C stops a running program.

#include "py/runtime.h"
#include "shared/runtime/interrupt_char.h"
#include "board.h"
#include "cortexm.h"
#include "uart.h"

typedef struct {
    volatile uint32_t DATA;
    volatile uint32_t STATE;
    volatile uint32_t CTRL;
    volatile uint32_t INTSTATUS;
    volatile uint32_t BAUDDIV;
} cmsdk_uart_t;

#define UART ((cmsdk_uart_t *)BOARD_UART_BASE)
#define STATE_TX_FULL (1 << 0)
#define STATE_RX_FULL (1 << 1)
#define CTRL_TX_ENABLE (1 << 0)
#define CTRL_RX_ENABLE (1 << 1)
#define CTRL_RX_INTERRUPT (1 << 3)
#define INT_RX (1 << 1)

// A power of two. When it is full the UART is left unread, and QEMU stops taking bytes from the host:
// nothing is lost, however fast the host sends.
#define RX_RING_BYTES (4096)

static volatile uint8_t ring[RX_RING_BYTES];
static volatile uint32_t ring_put; // total bytes put and taken; their difference is the fill
static volatile uint32_t ring_taken;
static volatile bool stalled;

// Takes the one byte that the UART can hold; the next one raises the next interrupt.
static void receive(void) {
    UART->INTSTATUS = INT_RX;
    if (UART->STATE & STATE_RX_FULL) {
        if (ring_put - ring_taken == RX_RING_BYTES) {
            UART->CTRL = CTRL_TX_ENABLE | CTRL_RX_ENABLE;
            stalled = true;
            return;
        }
        int c = UART->DATA & 0xff;
        if (c == mp_interrupt_char) {
            mp_sched_keyboard_interrupt();
        } else {
            ring[ring_put % RX_RING_BYTES] = (uint8_t)c;
            ring_put++;
        }
    }
}

void board_uart_irq(void) {
    receive();
    board_wake();
}

void board_uart_init(void) {
    UART->BAUDDIV = 16;
    UART->CTRL = CTRL_TX_ENABLE | CTRL_RX_ENABLE | CTRL_RX_INTERRUPT;
    cortexm_irq_enable(BOARD_UART_RX_IRQ);
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
        uint32_t state = cortexm_irq_disable();
        stalled = false;
        UART->CTRL = CTRL_TX_ENABLE | CTRL_RX_ENABLE | CTRL_RX_INTERRUPT;
        receive(); // the byte left in the UART raised no interrupt
        cortexm_irq_restore(state);
    }
    return c;
}

void board_uart_tx(const char *data, size_t len) {
    for (size_t i = 0; i < len; i++) {
        while (UART->STATE & STATE_TX_FULL) {
        }
        UART->DATA = (uint8_t)data[i];
    }
}
