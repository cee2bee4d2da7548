// A native module that has the only pointer to a block in a register of its frame while garbage is collected, and says
// whether the block was kept. It does as the port's gc_collect() does, in a frame of its own: the core has 32
// registers, and one call more would have moved it to the stack while gc_collect_start() marks.
// START, SEARCH, END, ALLOCATE and SAY are the addresses of functions in the firmware.
#include <stddef.h>
#include <stdint.h>

typedef void step_t(void);
typedef uintptr_t allocate_t(size_t bytes, unsigned flags);
typedef void say_t(const char *text, size_t length);

// What the compiler cannot see through: neither calls to a number, which LLVM refuses, nor a pointer that is hidden.
#define UNKNOWN(value) __asm volatile ("" : "+r" (value))

// Overwrites what earlier calls have left on the stack and in registers: a8 to a15 are the next frame's a0 to a7.
static void __attribute__((noinline)) forget(int depth) {
    volatile uint32_t room[32];
    for (int i = 0; i < 32; i++) {
        room[i] = 0;
    }
    __asm volatile (
        "movi a3, 0\n movi a4, 0\n movi a5, 0\n movi a6, 0\n movi a7, 0\n movi a8, 0\n movi a9, 0\n"
        "movi a10, 0\n movi a11, 0\n movi a12, 0\n movi a13, 0\n movi a14, 0\n movi a15, 0\n"
        : : : "a3", "a4", "a5", "a6", "a7", "a8", "a9", "a10", "a11", "a12", "a13", "a14", "a15");
    if (depth > 0) {
        forget(depth - 1);
    }
    (void)room[0];
}

void *mpy_init(void) {
    step_t *start = (step_t *)START, *search = (step_t *)SEARCH, *end = (step_t *)END;
    allocate_t *allocate = (allocate_t *)ALLOCATE;
    say_t *say = (say_t *)SAY;
    UNKNOWN(start);
    UNKNOWN(search);
    UNKNOWN(end);
    UNKNOWN(allocate);
    UNKNOWN(say);
    uintptr_t hidden = 0, other;
    for (int i = 0; i < 20000; i++) { // a block that was never used before: nothing old points there
        hidden = ~allocate(16, 0);
    }
    UNKNOWN(hidden);
    start();
    forget(40);
    // The pointer is in a3 for the while of the call. That is stored where the search begins: what it marks later on
    // moves these registers to the stack in any case.
    uintptr_t kept;
    __asm volatile ("movi a3, -1\n xor a3, a3, %1\n callx8 %2\n mov %0, a3" : "=r" (kept) : "r" (hidden), "r" (search)
        : "a3", "a8", "a9", "a10", "a11", "a12", "a13", "a14", "a15", "memory");
    end();
    do { // from the heap's begin on: this block again, or one behind it
        other = allocate(16, 0);
    } while (other < kept);
    say(other == kept ? "lost\r\n" : "kept\r\n", 6);
    return NULL;
}
