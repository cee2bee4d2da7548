#include "FreeRTOS.h"

typedef stub_count_t *TaskHandle_t;
typedef void (*TaskFunction_t)(void *);

extern int stub_core, stub_tasks, stub_refuse;
extern __thread stub_count_t *stub_self;

static inline BaseType_t xPortGetCoreID(void) {
    return 1;
}

static inline void *stub_run(void *arg) {
    stub_self = arg;
    stub_self->code(stub_self->arg);
    return NULL;
}

static inline BaseType_t xTaskCreatePinnedToCore(TaskFunction_t code, const char *name, uint32_t stack, void *arg,
    UBaseType_t priority, TaskHandle_t *task, BaseType_t core) {
    (void)name;
    (void)stack;
    (void)priority;
    if (stub_refuse) {
        return pdFAIL;
    }
    *task = stub_new();
    (*task)->code = code;
    (*task)->arg = arg;
    stub_core = core;
    ++stub_tasks;
    pthread_create(&(*task)->thread, NULL, stub_run, *task);
    return pdPASS;
}

static inline void vTaskDelete(TaskHandle_t task) {
    pthread_cancel(task->thread);
    pthread_join(task->thread, NULL);
    --stub_tasks;
}

static inline uint32_t ulTaskNotifyTake(BaseType_t clear, TickType_t ticks) {
    (void)clear;
    (void)ticks;
    stub_take(stub_self);
    return 1;
}

static inline BaseType_t xTaskNotifyGive(TaskHandle_t task) {
    stub_give(task);
    return pdPASS;
}
