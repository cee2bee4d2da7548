// A second core that runs one C function at a time beside the caller. One file a port has it (worker_*.c); what other
// ports have, worker_none.c has: nothing.
#ifndef MICA_BINDING_WORKER_H
#define MICA_BINDING_WORKER_H

#include <stdbool.h>

#if defined(ESP_PLATFORM)
#include "sdkconfig.h"
#if !defined(CONFIG_FREERTOS_UNICORE)
#define MICA_WORKER_ESP32 // two cores: ESP32 and S3
#endif
#endif

typedef void (*mica_job_t)(void *arg);

// Whether a second core is there and free; the first time, and when somebody has reset it, it is started.
bool mica_worker_ready(void);

// Has the worker call job(arg). Only after mica_worker_ready(), and not again before mica_worker_wait(). False where
// the worker does not answer: then it has not called job and will not.
// The job must not touch MicroPython's heap, raise, or look at the clock: on this core there is no Python.
bool mica_worker_give(mica_job_t job, void *arg);

// Returns when the job has returned. Everything it wrote can be read then.
void mica_worker_wait(void);

// Lets the second core go.
void mica_worker_stop(void);

#endif
