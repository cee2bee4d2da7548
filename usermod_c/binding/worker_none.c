// Ports with one core, or whose second core nobody has taught us to use.
#include "py/mpconfig.h"
#include "worker.h"

#if !defined(PICO_BUILD) && !(defined(__unix__) && MICROPY_PY_THREAD) && !defined(MICA_WORKER_ESP32)

bool mica_worker_ready(void) {
    return false;
}

bool mica_worker_give(mica_job_t job, void *arg) {
    (void)job;
    (void)arg;
    return false;
}

void mica_worker_wait(void) {
}

void mica_worker_stop(void) {
}

#endif
