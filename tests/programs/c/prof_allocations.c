// A tool that counts all events costs no heap allocation more than none: sources of calls are looked up once (5.2.1).
// The program's allocation functions stand in for the C library's, also for the runtime's calls of them.
// BUILD flags=-g
#include "check.h"
#include <acc_prof.h>
#include "count_allocations.h"

static long events;

static void count_event(acc_prof_info *prof, acc_event_info *event, acc_api_info *api)
{
    (void)event;
    (void)api;
    CHECK(prof->event_type > 0);
    events++;
}

static void each_event(void (*change)(acc_event_t, acc_prof_callback, acc_register_t))
{
    for (int event = acc_ev_none + 1; event < acc_ev_last; event++)
        change((acc_event_t)event, count_event, acc_reg);
}

enum { N = 100, ROUNDS = 200 };
static float field[N];

__attribute__((noinline)) static void region(void)
{
#pragma acc parallel loop present(field)
    for (int i = 0; i < N; i++)
        field[i] += 1;
}

__attribute__((noinline)) static void queued(void)
{
#pragma acc parallel loop present(field) async(1)
    for (int i = 0; i < N; i++)
        field[i] += 1;
#pragma acc wait(1)
}

/* The allocations of this thread in ROUNDS rounds, of which more have gone before. */
static long in_steady_state(void (*body)(void))
{
    for (int k = 0; k < ROUNDS; k++)
        body();
    long before = allocations;
    for (int k = 0; k < ROUNDS; k++)
        body();
    return allocations - before;
}

int main(void)
{
    long none[2], counted[2];
    free(malloc(1));
    CHECK(allocations > 0);
#pragma acc enter data copyin(field)
    none[0] = in_steady_state(region);
    none[1] = in_steady_state(queued);
    CHECK_EQ(events, 0);
    each_event(acc_prof_register);
    counted[0] = in_steady_state(region);
    long of_regions = events;
    counted[1] = in_steady_state(queued);
    long least = (separate() ? 4 : 1) * 2 * ROUNDS;
    CHECK(of_regions >= least);
    CHECK(events - of_regions >= least);
    each_event(acc_prof_unregister);
    if (separate()) {
        printf("allocations without a tool %ld %ld, with %ld %ld\n", none[0], none[1], counted[0], counted[1]);
        // What goes over a wire may take some now and then, with a tool and without: no event takes one each time.
        CHECK(counted[0] - none[0] < ROUNDS / 2);
        CHECK(counted[1] - none[1] < ROUNDS / 2);
    }
#pragma acc exit data copyout(field)
    CHECK_ALL(field, N, 8 * ROUNDS);
    return pass();
}
