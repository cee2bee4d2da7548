// The second core of RP2040 and RP2350, beside MicroPython's _thread, which may take it away at any time, and beside
// flash writes, during which nothing may run from flash:
//
// * Between jobs the core waits in a loop in RAM that reads RAM alone. A job runs from flash, but core 0 is inside our
//   C function meanwhile, so it writes no flash.
// * core1_entry is set while a job runs, as for a Python thread: _thread then says "core1 in use".
// * A soft reset, or _thread, resets the core without a word. So each job is answered for when it is taken; where no
//   answer comes, the core is reset and started again, and where that fails (an emulator with one core), it is over.
// * The FIFO between the cores belongs to the lockout for flash writes; here it is used only to start the core.
#include "py/mpconfig.h"
#include "worker.h"

#if defined(PICO_BUILD)

#include "hardware/irq.h"
#include "hardware/sync.h"
#include "hardware/timer.h"
#include "pico/multicore.h"

#include "py/mpstate.h"
#include "py/mpthread.h"

#define ANSWER_US (200) // a core that waits takes a job within a microsecond
#define START_US (2000) // for each of the six words that start a core

// Kernels keep some 1200 bytes on the stack. SCRATCH_X is the bank for core 1; MicroPython 1.28 gave it to core 0.
#if MICROPY_VERSION >= MICROPY_MAKE_VERSION(1, 28, 0)
static uint32_t stack[768] __attribute__((aligned(8)));
#else
static uint32_t stack[768] __attribute__((section(".scratch_x.mica_worker"), aligned(8)));
#endif

static struct {
    volatile uint32_t given, taken, done; // numbers of jobs
    mica_job_t job;
    void *arg;
} shared;

static void __not_in_flash_func(worker)(void) {
    for (;;) {
        const uint32_t number = shared.given;
        if (number == shared.done) {
            __wfe();
            continue;
        }
        shared.taken = number;
        __dmb();
        shared.job(shared.arg);
        __dmb();
        shared.done = number;
        __sev();
    }
}

#ifdef __riscv
#include "hardware/riscv.h"
#define VECTORS riscv_read_csr(mtvec)

// The boot ROM starts the core without the pointer that variables are found by.
static void __attribute__((naked)) entry(void) {
    __asm volatile (".option push\n.option norelax\nla gp, __global_pointer$\n.option pop\nla a0, %0\njr a0"
        : : "i" (worker));
}
#else
#define VECTORS scb_hw->vtor
#define entry worker
#endif

// As the SDK's multicore_launch_core1_raw(), but gives up where nobody is there: on the far side of the FIFO the boot
// ROM repeats each word of this sequence (RP2040 datasheet, 2.8.2).
static bool launch(void) {
    const uint32_t words[] = {
        0, 0, 1, (uintptr_t)VECTORS, (uintptr_t)(stack + sizeof(stack) / sizeof(stack[0])), (uintptr_t)entry,
    };
    for (unsigned tries = 0; tries < 4; tries++) {
        unsigned i = 0;
        for (; i < sizeof(words) / sizeof(words[0]); i++) {
            if (words[i] == 0) {
                multicore_fifo_drain();
                __sev();
            }
            uint32_t answer;
            if (!multicore_fifo_push_timeout_us(words[i], START_US)
                || !multicore_fifo_pop_timeout_us(START_US, &answer)) {
                return false;
            }
            if (answer != words[i]) {
                break;
            }
        }
        if (i == sizeof(words) / sizeof(words[0])) {
            return true;
        }
    }
    return false;
}

static bool start(void) {
    shared.taken = shared.done = shared.given;
    multicore_reset_core1();
    const bool enabled = irq_is_enabled(SIO_FIFO_IRQ_NUM(0));
    irq_set_enabled(SIO_FIFO_IRQ_NUM(0), false); // the lockout's handler would eat the answers
    const bool there = launch();
    irq_set_enabled(SIO_FIFO_IRQ_NUM(0), enabled);
    if (!there) {
        multicore_reset_core1();
    }
    return there;
}

static bool taken_in_time(uint32_t number) {
    const uint32_t from = time_us_32();
    while (shared.taken != number) {
        if (time_us_32() - from > ANSWER_US) {
            return false;
        }
    }
    return true;
}

static void nothing(void *arg) {
    (void)arg;
}

static bool offer(mica_job_t job, void *arg) {
    shared.job = job;
    shared.arg = arg;
    __dmb();
    shared.given++;
    __dmb();
    __sev();
    return taken_in_time(shared.given);
}

static bool free_for_us(void) {
    return get_core_num() == 0 && core1_entry == NULL;
}

bool mica_worker_ready(void) {
    if (!free_for_us()) {
        return false;
    }
    if (!offer(nothing, NULL)) {
        if (!start() || !offer(nothing, NULL)) {
            return false;
        }
    }
    mica_worker_wait();
    return true;
}

static void *as_thread(void *unused) {
    return unused;
}

bool mica_worker_give(mica_job_t job, void *arg) {
    if (!free_for_us()) {
        return false;
    }
    core1_entry = as_thread; // its address alone counts
    if (!offer(job, arg) && !(start() && offer(job, arg))) {
        core1_entry = NULL;
        return false;
    }
    return true;
}

void mica_worker_wait(void) {
    while (shared.done != shared.given) {
        tight_loop_contents();
    }
    __dmb();
    core1_entry = NULL;
}

// In place of MicroPython's own. That resets a core 1 that may be at the heap's mutex, with its spinlock taken; core 0
// then waits for the lock for ever.
void __wrap_mp_thread_deinit(void) {
    mp_thread_recursive_mutex_lock(&MP_STATE_MEM(gc_mutex), 1);
    multicore_reset_core1();
    spin_unlock_unsafe(((recursive_mutex_t *)&MP_STATE_MEM(gc_mutex))->core.spin_lock);
    core1_entry = NULL;
    mp_thread_recursive_mutex_unlock(&MP_STATE_MEM(gc_mutex));
}

void mica_worker_stop(void) {
    if (free_for_us()) {
        multicore_reset_core1();
    }
}

#endif
