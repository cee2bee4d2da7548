// UART 0 of the Arm CMSDK (MPS2 and MPS3 boards).

#include <stddef.h>
#include <stdint.h>

#include "board.h"
#include "cortexm.h"
#include "uart_ring.h"

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

void board_uart_init(void) {
    UART->BAUDDIV = 16;
    uart_interrupt(true);
    cortexm_irq_enable(BOARD_UART_RX_IRQ);
}

void uart_interrupt(bool on) {
    UART->CTRL = CTRL_TX_ENABLE | CTRL_RX_ENABLE | (on ? CTRL_RX_INTERRUPT : 0);
}

int uart_take(void) {
    UART->INTSTATUS = INT_RX; // before the byte is taken, as the next one may come at once
    return UART->STATE & STATE_RX_FULL ? (int)(UART->DATA & 0xff) : -1;
}

void board_uart_tx(const char *data, size_t len) {
    for (size_t i = 0; i < len; i++) {
        while (UART->STATE & STATE_TX_FULL) {
        }
        UART->DATA = (uint8_t)data[i];
    }
}
