// What a UART has received and MicroPython has not yet read. Filled by the UART's interrupt, emptied by MicroPython.
#ifndef MICA_BOARDS_QEMU_UART_RING_H
#define MICA_BOARDS_QEMU_UART_RING_H

#include <stdbool.h>
#include <stdint.h>

// The board's UART file has these two. The first takes a byte out of the UART, or returns -1; the second turns its
// interrupt for received bytes on or off.
int uart_take(void);
void uart_interrupt(bool on);

// uart16550.c calls this of the CPU's file at last: the UART's interrupt reaches the processor from here on.
void uart16550_connect(void);

// Call from the interrupt, until the UART has no more: takes all bytes there are. Ctrl-C stops the running program.
void uart_ring_fill(void);

#endif
