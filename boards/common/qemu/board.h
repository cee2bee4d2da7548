// What the pieces of an emulated board offer to each other.
// An emulated board is one CPU file (vectors), one UART file, one timer file and board.c.
#ifndef MICA_BOARDS_QEMU_BOARD_H
#define MICA_BOARDS_QEMU_BOARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Timer file: a free-running 64-bit counter at BOARD_TIMER_HZ that loses nothing in long C calls.
void board_timer_init(void);
uint64_t board_timer_ticks(void);

// UART file: a byte, or -1 when none is waiting.
void board_uart_init(void);
int board_uart_rx(void);
bool board_uart_rx_ready(void);
void board_uart_tx(const char *data, size_t len);

// CPU file: sleep until an interrupt, or until timeout_ms has passed (UINT32_MAX: for ever).
// An interrupt that came since the last call ends the wait at once.
void board_wait(uint32_t timeout_ms);
// Every interrupt handler sets it, so that board_wait, which clears it, cannot miss one.
extern volatile bool board_woken;

// board.c: mounts the file system; run by mp_init, so again after every soft reset.
void board_init(void);

#endif
