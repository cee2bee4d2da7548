// Runs alone on the virtual Pico 2 in test_rp2350.py: core 0 resets core 1, asks for an interrupt and sets an alarm at
// each place of a turn of theirs. It writes down at how many places the chip took no notice at once, and stops.
#include <stdint.h>

#define REG(a) (*(volatile uint32_t *)(a))
#define FIFO_ST REG(0xd0000050)
#define FIFO_WR REG(0xd0000054)
#define FIFO_RD REG(0xd0000058)
#define FORCE_OFF 0x40018004
#define SET_BITS 0x2000
#define CLEAR_BITS 0x3000
#define TIMER 0x400b0000
#define SPARE 46 // interrupt
#define PLACES 400 // more cycles than a turn of both cores has
#define LATE_US 20

static volatile uint32_t *const said = (uint32_t *)0x20001000; // [0]: how many, then what
static volatile uint32_t *const rounds = (uint32_t *)0x20000ffc; // of core 1
static volatile uint32_t *const taken = (uint32_t *)0x20000ff8;

static void wait(uint32_t turns) {
    __asm volatile ("1: subs %0, #1\n bhi 1b" : "+r" (turns) : : "cc");
}

static void count(void) {
    for (;;) {
        ++*rounds;
    }
}

static void launch(void) {
    static const uintptr_t words[] = { 0, 0, 1, 0x10000000, 0x20003000, (uintptr_t)count };
    for (int i = 0; i < 6; i++) {
        while (FIFO_ST & 1) {
            (void)FIFO_RD;
        }
        FIFO_WR = words[i];
        while (!(FIFO_ST & 1)) {
        }
    }
}

void interrupt(void) {
    ++*taken;
}

void alarm(void) {
    *taken = REG(TIMER + 0x28);
    REG(TIMER + 0x3c) = 1;
}

void reset(void) {
    uint32_t still_runs = 0, not_taken = 0, late = 0;
    *taken = 0;
    REG(0xe000e100) = 1;
    REG(0xe000e104) = 1u << (SPARE - 32);
    REG(TIMER + 0x40) = 1;
    for (uint32_t place = 0; place < PLACES; place++) {
        launch();
        wait(50 + place);
        REG(FORCE_OFF + SET_BITS) = 1 << 24;
        uint32_t before = *rounds;
        wait(200);
        still_runs += *rounds != before;
        REG(FORCE_OFF + CLEAR_BITS) = 1 << 24;
    }
    launch();
    for (uint32_t place = 0; place < PLACES; place++) {
        wait(50 + place);
        uint32_t before = *taken;
        REG(0xe000e204) = 1u << (SPARE - 32);
        wait(5);
        not_taken += *taken == before;
        wait(1000);
    }
    for (uint32_t place = 0; place < PLACES; place++) {
        wait(50 + place);
        uint32_t from = REG(TIMER + 0x28);
        *taken = 0;
        REG(TIMER + 0x10) = from + LATE_US;
        while (*taken == 0) {
        }
        late += *taken - from > LATE_US + 20;
    }
    said[1] = still_runs;
    said[2] = not_taken;
    said[3] = late;
    said[4] = *rounds != 0;
    said[0] = 4;
    __asm volatile ("bkpt 1");
}

__attribute__((section(".vectors"), used)) const uintptr_t vectors[16 + 52] = {
    0x20002000,
    (uintptr_t)reset,
    [16] = (uintptr_t)alarm,
    [16 + SPARE] = (uintptr_t)interrupt,
    [16 + 51] = 0xffffded3, // the mark of an image
};
