// What runs on core 1 of a virtual Pico or Pico 2 in test_second_core.py: it answers each word that core 0 sends
// through the FIFO. It runs wherever it lies; the test makes a table of vectors for it.
#include <stdint.h>

#define REG(a) (*(volatile uint32_t *)(a))
#define SIO (0xd0000000u)
#define FIFO_ST REG(SIO + 0x50)
#define FIFO_WR REG(SIO + 0x54)
#define FIFO_RD REG(SIO + 0x58)
#define SPINLOCK(n) REG(SIO + 0x100 + 4 * (n))
#define SDIVIDEND REG(SIO + 0x68)
#define SDIVISOR REG(SIO + 0x6c)
#define QUOTIENT REG(SIO + 0x70)
#define SYST_CSR REG(0xe000e010)
#define SYST_RVR REG(0xe000e014)
#define NVIC_ISER REG(0xe000e100)
#define VTOR REG(0xe000ed08)

void entry(void);
void fifo_interrupt(void);
void tick(void);

// The vectors' first word, unused after the boot ROM's start, says where: [0] FIFO interrupts, [1] ticks, [2] rounds.
static volatile uint32_t *counters(void) {
    return (volatile uint32_t *)*(volatile uint32_t *)VTOR;
}

static void answer(uint32_t word) {
    FIFO_WR = word;
    __asm volatile ("sev");
}

static uint32_t execute(uint32_t word) {
    const uint32_t what = word >> 24, n = word & 0xffffff;
    switch (what) {
        case 0: // which core
            return REG(SIO);
        case 1: // take a spinlock
            return SPINLOCK(n);
        case 2: // let it go
            SPINLOCK(n) = 1;
            return 0;
        case 3: // divide by
            SDIVIDEND = (uint32_t)-1000;
            SDIVISOR = n;
            for (int i = 0; i < 8; i++) {
                __asm volatile ("nop");
            }
            return QUOTIENT;
        case 5: // so many ticks of SysTick
            SYST_RVR = 999;
            REG(0xe000e018) = 0;
            SYST_CSR = 7;
            for (uint32_t from = counters()[1]; counters()[1] - from < n;) {
                __asm volatile ("wfi");
            }
            SYST_CSR = 0;
            return counters()[1];
        case 6: // from now on the FIFO interrupts
            NVIC_ISER = 1u << FIFO_IRQ;
            return VTOR;
        default:
            return 0xbad;
    }
}

static void take(void) {
    while (FIFO_ST & 1) {
        answer(execute(FIFO_RD));
    }
}

void entry(void) {
    for (;;) {
        take();
        counters()[2]++;
        __asm volatile ("wfe");
    }
}

void fifo_interrupt(void) {
    counters()[0]++;
    take();
}

void tick(void) {
    counters()[1]++;
}
