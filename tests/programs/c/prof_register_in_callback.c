// Callbacks that register and unregister others while events are under way: it takes effect at once (5.5.1).
#include "check.h"
#include <acc_prof.h>

static int starts, late, launches, ends, removed;

static void on_launch(acc_prof_info *prof, acc_event_info *event, acc_api_info *api)
{
    (void)prof, (void)event, (void)api;
    launches++;
}

static void on_late(acc_prof_info *prof, acc_event_info *event, acc_api_info *api)
{
    (void)prof, (void)event, (void)api;
    late++;
}

static void on_removed(acc_prof_info *prof, acc_event_info *event, acc_api_info *api)
{
    (void)prof, (void)event, (void)api;
    removed++;
}

static void on_end(acc_prof_info *prof, acc_event_info *event, acc_api_info *api)
{
    (void)event, (void)api;
    ends++;
    // To the tail of a list that is gone through from its tail: not this time.
    acc_prof_register(prof->event_type, on_late, acc_reg);
}

static void on_start(acc_prof_info *prof, acc_event_info *event, acc_api_info *api)
{
    (void)event, (void)api;
    if (starts++ > 0)
        return;
    acc_prof_register(prof->event_type, on_late, acc_reg);
    acc_prof_unregister(prof->event_type, on_removed, acc_reg);
    acc_prof_register(acc_ev_enqueue_launch_start, on_launch, acc_reg);
    acc_prof_register(acc_ev_compute_construct_end, on_end, acc_reg);
}

static void region(void)
{
    int a[10];
#pragma acc parallel loop copyout(a)
    for (int i = 0; i < 10; i++)
        a[i] = i;
    CHECK_EQ(a[9], 9);
}

int main(void)
{
    // GCC's library waits for itself there.
    if (!separate())
        return pass();
    acc_prof_register(acc_ev_compute_construct_start, on_start, acc_reg);
    acc_prof_register(acc_ev_compute_construct_start, on_removed, acc_reg);
    region();
    CHECK_EQ(starts, 1);
    CHECK_EQ(ends, 1);
    CHECK_EQ(removed, 0);
    CHECK_EQ(late, 1);
    CHECK_EQ(launches, 1);
    region();
    CHECK_EQ(launches, 2);
    // At the start, and at the end, where it was registered the first time.
    CHECK_EQ(late, 3);
    // All of one thread, then all of one event, then one callback.
    acc_prof_unregister(acc_ev_none, NULL, acc_toggle_per_thread);
    region();
    CHECK_EQ(starts, 2);
    acc_prof_register(acc_ev_none, NULL, acc_toggle_per_thread);
    acc_prof_unregister(acc_ev_compute_construct_start, NULL, acc_toggle);
    region();
    CHECK_EQ(starts, 2);
    acc_prof_register(acc_ev_compute_construct_start, NULL, acc_toggle);
    acc_prof_unregister(acc_ev_compute_construct_start, on_start, acc_toggle);
    region();
    CHECK_EQ(starts, 2);
    acc_prof_register(acc_ev_compute_construct_start, on_start, acc_toggle);
    region();
    CHECK_EQ(starts, 3);
    // Events without a meaning are ignored.
    acc_prof_register((acc_event_t)1000, on_start, acc_reg);
    acc_prof_unregister((acc_event_t)-5, on_start, acc_reg);
    return pass();
}
