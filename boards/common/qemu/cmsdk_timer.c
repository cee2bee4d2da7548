// Time from CMSDK timer 0, 32 bits counting down, widened to 64 bits by an interrupt at each wrap
// (every 172 s at 25 MHz). SysTick would wrap every 0.67 s and QEMU merges ticks on a busy host.

#include "board.h"
#include "cortexm.h"

typedef struct {
    volatile uint32_t CTRL;
    volatile uint32_t VALUE;
    volatile uint32_t RELOAD;
    volatile uint32_t INTSTATUS;
} cmsdk_timer_t;

#define TIMER ((cmsdk_timer_t *)BOARD_TIMER_BASE)
#define CTRL_ENABLE (1 << 0)
#define CTRL_INTERRUPT (1 << 3)

static volatile uint32_t wraps;

void board_timer_init(void) {
    TIMER->CTRL = 0;
    TIMER->RELOAD = 0xffffffff;
    TIMER->VALUE = 0xffffffff;
    TIMER->CTRL = CTRL_ENABLE | CTRL_INTERRUPT;
    cortexm_irq_enable(BOARD_TIMER_IRQ);
}

uint64_t board_timer_ticks(void) {
    uint32_t state = board_irq_disable();
    uint32_t low = ~TIMER->VALUE;
    if (TIMER->INTSTATUS) { // wrapped, perhaps only after low was read
        TIMER->INTSTATUS = 1;
        wraps++;
        low = ~TIMER->VALUE;
    }
    uint64_t ticks = (uint64_t)wraps << 32 | low;
    board_irq_restore(state);
    return ticks;
}

void board_timer_irq(void) {
    (void)board_timer_ticks();
    board_woken = true;
}
