// The second core of the ESP32 and ESP32-S3: a FreeRTOS task that is tied to the core MicroPython does not run on.
//
// * MicroPython and its threads are tied to one core, so the other one is that of whoever asks first, flipped.
// * ESP-IDF stalls both cores while flash is written, wherever they are: nothing to do here.
// * The task's priority is MicroPython's own, below that of WiFi and Bluetooth, which share the core with it.
// * The answer is a semaphore: notifications of its own task are what MicroPython is woken with.
// * Task and semaphore are ESP-IDF's memory, not MicroPython's: they outlive a soft reset.
#include "worker.h"

#ifdef MICA_WORKER_ESP32

#include <stddef.h>

#include "freertos/FreeRTOS.h"
#include "freertos/semphr.h"
#include "freertos/task.h"

#include "esp_task.h"

#define STACK_BYTES (4096) // kernels keep some 1200 bytes on it, an interrupt's frame comes on top
#define PRIORITY (ESP_TASK_PRIO_MIN + 1) // MP_TASK_PRIORITY of the port's main.c

static TaskHandle_t task;
static SemaphoreHandle_t done;
static mica_job_t current;
static void *argument;

static void worker(void *unused) {
    (void)unused;
    for (;;) {
        ulTaskNotifyTake(pdTRUE, portMAX_DELAY);
        current(argument);
        xSemaphoreGive(done);
    }
}

bool mica_worker_ready(void) {
    if (done == NULL) {
        done = xSemaphoreCreateBinary();
    }
    if (done != NULL && task == NULL
        && xTaskCreatePinnedToCore(worker, "mica", STACK_BYTES, NULL, PRIORITY, &task, 1 - xPortGetCoreID())
        != pdPASS) {
        task = NULL;
    }
    return task != NULL;
}

// Notifications and semaphores are barriers: what was written before one is seen behind it.
bool mica_worker_give(mica_job_t job, void *arg) {
    if (task == NULL) {
        return false;
    }
    current = job;
    argument = arg;
    xTaskNotifyGive(task);
    return true;
}

void mica_worker_wait(void) {
    xSemaphoreTake(done, portMAX_DELAY);
}

// Only between jobs: the task waits then, and holds nothing.
void mica_worker_stop(void) {
    if (task != NULL) {
        vTaskDelete(task);
        task = NULL;
    }
}

#endif
