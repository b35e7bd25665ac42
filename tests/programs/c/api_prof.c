// The profiling interface: callbacks for data, compute, enter, exit and update (chapter 5).
#include "check.h"
#include <acc_prof.h>

static int counts[acc_ev_last];
static void *expected_info;

static void on_event(acc_prof_info *prof, acc_event_info *event, acc_api_info *api)
{
    CHECK(prof->event_type == event->event_type);
    CHECK(prof->event_type > 0 && prof->event_type < acc_ev_last);
    CHECK_EQ(prof->version, 201711);
    CHECK(prof->valid_bytes >= (int)sizeof(acc_prof_info));
    CHECK(api->valid_bytes >= (int)sizeof(acc_api_info));
    counts[prof->event_type]++;
    if (prof->event_type == acc_ev_compute_construct_start) {
        event->other_event.tool_info = expected_info;
        CHECK_EQ(event->other_event.parent_construct, acc_construct_parallel);
    }
    if (prof->event_type == acc_ev_compute_construct_end)
        CHECK(event->other_event.tool_info == expected_info);
}

int main(void)
{
    static const acc_event_t events[] = {
        acc_ev_compute_construct_start, acc_ev_compute_construct_end, acc_ev_enter_data_start, acc_ev_enter_data_end,
        acc_ev_exit_data_start, acc_ev_exit_data_end, acc_ev_update_start, acc_ev_update_end,
    };
    enum { EVENTS = sizeof events / sizeof *events };
    int a[10] = {0};
    expected_info = &counts;
    for (int i = 0; i < EVENTS; i++)
        acc_prof_register(events[i], on_event, acc_reg);
#pragma acc enter data copyin(a)
#pragma acc parallel loop present(a)
    for (int i = 0; i < 10; i++)
        a[i] = i;
#pragma acc update self(a)
#pragma acc exit data delete(a)
    for (int i = 0; i < EVENTS; i++)
        CHECK(counts[events[i]] >= 1);
    CHECK_EQ(counts[acc_ev_compute_construct_start], 1);
    CHECK_EQ(counts[acc_ev_update_end], 1);
    for (int i = 0; i < EVENTS; i++)
        acc_prof_unregister(events[i], on_event, acc_reg);
    memset(counts, 0, sizeof counts);
#pragma acc parallel loop copy(a)
    for (int i = 0; i < 10; i++)
        a[i] = i;
    CHECK_ALL(counts, acc_ev_last, 0);
    return pass();
}
