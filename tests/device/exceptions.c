// Runs alone on the virtual Pico 2 in test_rp2350.py, from the start of flash: exceptions within exceptions. It writes
// down in which order its parts run, and stops.
#include <stdint.h>

#define REG(a) (*(volatile uint32_t *)(a))
#define LOW 46 // spare interrupts
#define HIGH 47
#define SET_PENDING(n) (REG(0xe000e204) = 1u << ((n) - 32))
#define ICSR REG(0xe000ed04)

volatile uint32_t *const said = (uint32_t *)0x20001000; // [0]: how many, then what
static volatile uint32_t *const ticks = (uint32_t *)0x20000ffc;

static void say(uint32_t what) {
    said[1 + said[0]] = what;
    said[0]++;
}

static void clobber(void) { // the registers of which an exception saves the caller's
    __asm volatile ("vmov s0, %0\n vmov s15, %0\n vcvt.f32.s32 s7, s15" : : "r" (0) : "s0", "s7", "s15");
}

void high(void) {
    clobber();
    say(47);
}

void low(void) {
    say(46);
    clobber();
    ICSR = 1u << 28; // PendSV: when no other runs
    SET_PENDING(HIGH); // now
    say(146);
}

void pendsv(void) {
    say(14);
}

void tick(void) {
    ++*ticks;
}

void reset(void) {
    said[0] = *ticks = 0;
    REG(0xe000ed88) |= 0xf << 20; // floating point
    __asm volatile ("dsb\n isb");
    REG(0xe000e400 + LOW) = 0x40804080; // two pairs: 46 has 0x80, 47 has 0x40
    REG(0xe000ed20) = 0xc0f00000; // SysTick, and PendSV lowest
    REG(0xe000e104) = 1u << (LOW - 32) | 1u << (HIGH - 32);
    float kept = 1.5f;
    __asm volatile ("vmov s15, %0" : : "r" (77) : "s15");
    SET_PENDING(LOW);
    __asm volatile ("nop\n nop");
    uint32_t after;
    __asm volatile ("vmov %0, s15" : "=r" (after));
    say(after);
    __asm volatile ("cpsid i");
    SET_PENDING(HIGH);
    say(1);
    __asm volatile ("cpsie i");
    say(2);
    __asm volatile ("msr basepri, %0" : : "r" (0x80));
    SET_PENDING(LOW); // not yet
    SET_PENDING(HIGH);
    say(3);
    __asm volatile ("msr basepri, %0" : : "r" (0));
    say(kept == 1.5f ? 4 : 5);
    REG(0xe000e014) = 99;
    REG(0xe000e018) = 0;
    REG(0xe000e010) = 7;
    while (*ticks < 5) {
        __asm volatile ("wfi");
    }
    REG(0xe000e010) = 0;
    say(6);
    __asm volatile ("bkpt 1");
}

__attribute__((section(".vectors"), used)) const uintptr_t vectors[16 + 52] = {
    0x20002000,
    (uintptr_t)reset,
    [14] = (uintptr_t)pendsv,
    [15] = (uintptr_t)tick,
    [16 + LOW] = (uintptr_t)low,
    [16 + HIGH] = (uintptr_t)high,
    [16 + 51] = 0xffffded3, // the mark of an image
};
