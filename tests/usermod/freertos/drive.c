// Gives the worker jobs as cores.c does, and prints what came of it.
#include <stdio.h>

#include "freertos/task.h"
#include "worker.h"

int stub_core = -1, stub_tasks, stub_refuse;
__thread stub_count_t *stub_self;

static unsigned sum;
static pthread_t where;

static void job(void *arg) {
    sum += *(unsigned *)arg;
    where = pthread_self();
}

int main(void) {
    stub_refuse = 1;
    printf("refused %d\n", mica_worker_ready());
    stub_refuse = 0;
    const int first = mica_worker_ready(), second = mica_worker_ready();
    printf("ready %d %d core %d tasks %d\n", first, second, stub_core, stub_tasks);
    for (unsigned i = 0; i < 1000; ++i) {
        const unsigned before = sum;
        if (!mica_worker_give(job, &i)) {
            return 1;
        }
        mica_worker_wait();
        if (sum != before + i || pthread_equal(where, pthread_self())) {
            return 1;
        }
    }
    mica_worker_stop();
    printf("sum %u tasks %d\n", sum, stub_tasks);
    const int given = mica_worker_give(job, &sum), again = mica_worker_ready();
    printf("stopped %d, again %d, tasks %d\n", given, again, stub_tasks);
    return 0;
}
