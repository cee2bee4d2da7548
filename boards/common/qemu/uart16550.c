// A 16550 UART, its registers BOARD_UART_STEP bytes apart.

#include <stddef.h>
#include <stdint.h>

#include "board.h"
#include "uart_ring.h"

#define REGISTER(i) (*(volatile uint8_t *)(BOARD_UART_BASE + BOARD_UART_STEP * (i)))
#define DATA REGISTER(0)
#define INTERRUPTS REGISTER(1)
#define FIFO_CONTROL REGISTER(2)
#define LINE_STATUS REGISTER(5)
// With a trigger level of 14 bytes, as QEMU's UART takes no more than that at a time from the host; with the usual 1,
// each byte waits for its turn on a busy computer, and mpremote's mount gave up. Fewer bytes interrupt a little later.
#define FIFO_ENABLE_AND_CLEAR (0xc7)
#define INTERRUPT_RX (1 << 0)
#define LINE_RX_READY (1 << 0)
#define LINE_TX_EMPTY (1 << 5)

void board_uart_init(void) {
    FIFO_CONTROL = FIFO_ENABLE_AND_CLEAR;
    uart_interrupt(true);
    uart16550_connect();
}

void uart_interrupt(bool on) {
    INTERRUPTS = on ? INTERRUPT_RX : 0;
}

int uart_take(void) {
    return LINE_STATUS & LINE_RX_READY ? DATA : -1;
}

void board_uart_tx(const char *data, size_t len) {
    for (size_t i = 0; i < len; i++) {
        while (!(LINE_STATUS & LINE_TX_EMPTY)) {
        }
        DATA = (uint8_t)data[i];
    }
}
