// The second core where MicroPython is a program: a thread, which lives until the program ends.
#include "py/mpconfig.h"
#include "worker.h"

#if defined(__unix__) && MICROPY_PY_THREAD

#include <pthread.h>
#include <signal.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool started;
static mica_job_t current; // null while there is nothing to do
static void *argument;

static void *worker(void *unused) {
    (void)unused;
    pthread_mutex_lock(&lock);
    for (;;) {
        while (current == NULL) {
            pthread_cond_wait(&changed, &lock);
        }
        pthread_mutex_unlock(&lock);
        current(argument);
        pthread_mutex_lock(&lock);
        current = NULL;
        pthread_cond_broadcast(&changed);
    }
    return NULL;
}

bool mica_worker_ready(void) {
    if (!started) {
        // MicroPython's signal handlers look for the thread's state, which this thread has not.
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        pthread_t thread;
        started = pthread_create(&thread, NULL, worker, NULL) == 0;
        if (started) {
            pthread_detach(thread);
        }
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    return started;
}

bool mica_worker_give(mica_job_t job, void *arg) {
    pthread_mutex_lock(&lock);
    argument = arg;
    current = job;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return true;
}

void mica_worker_wait(void) {
    pthread_mutex_lock(&lock);
    while (current != NULL) {
        pthread_cond_wait(&changed, &lock);
    }
    pthread_mutex_unlock(&lock);
}

void mica_worker_stop(void) {
}

#endif
