// As much of FreeRTOS as worker_esp32.c uses, over threads. Not ESP-IDF: written from its documentation.
#ifndef FREERTOS_H
#define FREERTOS_H

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

typedef int BaseType_t;
typedef unsigned UBaseType_t;
typedef uint32_t TickType_t;

#define pdTRUE 1
#define pdPASS 1
#define pdFAIL 0
#define portMAX_DELAY 0xffffffffu

// A count that can be waited for, of a task or a semaphore.
typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t value;
    pthread_t thread;
    void (*code)(void *);
    void *arg;
} stub_count_t;

static inline stub_count_t *stub_new(void) {
    stub_count_t *c = calloc(1, sizeof(*c));
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    return c;
}

static inline void stub_give(stub_count_t *c) {
    pthread_mutex_lock(&c->lock);
    c->value = 1;
    pthread_cond_signal(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

static inline void stub_unlock(void *lock) {
    pthread_mutex_unlock(lock);
}

static inline void stub_take(stub_count_t *c) {
    pthread_mutex_lock(&c->lock);
    pthread_cleanup_push(stub_unlock, &c->lock);
    while (c->value == 0) {
        pthread_cond_wait(&c->changed, &c->lock);
    }
    c->value = 0;
    pthread_cleanup_pop(1);
}

#endif
