// Time from the system counter of Arm's SSE-300 (MPS3 boards): 64 bits that only count up, so nothing has to interrupt.
// SSE-300 Technical Reference Manual, system counter (CNTControlBase) and system timer (CNTBase).

#include "board.h"
#include "cortexm.h"

#define COUNTER_CNTCR (*(volatile uint32_t *)BOARD_COUNTER_BASE)
#define CNTCR_ENABLE (1 << 0)
#define TIMER_CNTPCT ((const volatile uint32_t *)BOARD_TIMER_BASE) // lower word, upper word

void board_timer_init(void) {
    COUNTER_CNTCR = CNTCR_ENABLE;
}

uint64_t board_timer_ticks(void) {
    uint32_t high = TIMER_CNTPCT[1];
    for (;;) {
        uint32_t low = TIMER_CNTPCT[0], again = TIMER_CNTPCT[1];
        if (again == high) {
            return (uint64_t)high << 32 | low;
        }
        high = again;
    }
}

// In the table of vectors; never enabled.
void board_timer_irq(void) {
    board_woken = true;
}
