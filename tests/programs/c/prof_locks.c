// A profiling event costs one lock, whatever it tells (5.1). The program counts the locks that its own thread takes.
// BUILD flags=-rdynamic
#define _GNU_SOURCE
#include "check.h"
#include <acc_prof.h>
#include <dlfcn.h>
#include <pthread.h>

static __thread long locks;
static long events;

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    static int (*real)(pthread_mutex_t *);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "pthread_mutex_lock");
    locks++;
    return real(mutex);
}

static void count(acc_prof_info *prof, acc_event_info *event, acc_api_info *api)
{
    (void)prof, (void)event, (void)api;
    events++;
}

enum { N = 1000, ROUNDS = 20 };
static int a[N], b[N];

/* Locks of all rounds. */
static long rounds(void)
{
    long before = locks;
    for (int round = 0; round < ROUNDS; round++) {
#pragma acc data copy(a) create(b)
        {
#pragma acc parallel loop
            for (int i = 0; i < N; i++)
                b[i] = a[i] + 1;
#pragma acc parallel loop async(1)
            for (int i = 0; i < N; i++)
                a[i] = b[i];
#pragma acc wait
#pragma acc update self(a)
        }
    }
    return locks - before;
}

int main(void)
{
    rounds();
    long without = rounds();
    for (int event = acc_ev_none + 1; event < acc_ev_last; event++)
        acc_prof_register((acc_event_t)event, count, acc_reg);
    rounds();
    events = 0;
    long with = rounds();
    long told = events;
    for (int event = acc_ev_none + 1; event < acc_ev_last; event++)
        acc_prof_unregister((acc_event_t)event, count, acc_reg);
    CHECK_EQ(a[5], 4 * ROUNDS);
    printf("%ld locks without a tool, %ld with one that hears %ld events\n", without, with, told);
    if (!separate())
        return pass();
    /* The interposition works, or there would be none. */
    CHECK(with > 0);
    CHECK(told >= 20 * ROUNDS);
    /* More only where what a thread looked up for several places or variables shares one place. */
    CHECK(with - without <= told + told / 10);
    return pass();
}
