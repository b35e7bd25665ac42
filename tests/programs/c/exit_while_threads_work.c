// main returns while other threads are in regions and copies.
// BUILD flags=-pthread
#include "check.h"
#include <pthread.h>

enum { THREADS = 4, N = 10000 };
static pthread_barrier_t busy;

static void *work(void *arg)
{
    int q = (int)(size_t)arg, *a = calloc(N, sizeof *a);
    for (long round = 0;; round++) {
#pragma acc parallel loop copy(a[0:N]) async(q)
        for (int i = 0; i < N; i++)
            a[i]++;
#pragma acc wait(q)
        if (round == 2)
            pthread_barrier_wait(&busy);
    }
    return NULL;
}

int main(void)
{
    pthread_barrier_init(&busy, NULL, THREADS + 1);
    for (size_t t = 0; t < THREADS; t++) {
        pthread_t thread;
        CHECK_EQ(pthread_create(&thread, NULL, work, (void *)t), 0);
    }
    pthread_barrier_wait(&busy);
    return pass();
}
