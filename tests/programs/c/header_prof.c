// The profiling interface by Accord's own acc_prof.h (chapter 5): names of OpenACC 3.3 and those before.
// BUILD headers
// BUILD linked
// BUILD flags=-Wall -Wextra -pedantic -Werror -Wno-unknown-pragmas
// EXPECT device-memory
#include "check.h"
#include <acc_prof.h>
#include <stddef.h>

#ifndef ACCORD_ACC_PROF_H
#error "this is another acc_prof.h"
#endif

static int starts, ends, launches;

static void on_event(acc_callback_info *info, acc_event_info *event, acc_api_info *api)
{
    CHECK(info->event_type == event->event_type);
    CHECK(info->valid_bytes >= (int)sizeof(acc_callback_info));
    CHECK(api->valid_bytes >= (int)sizeof(acc_api_info));
    starts += info->event_type == acc_ev_enter_data_start;
    ends += info->event_type == acc_ev_enter_data_end;
}

static void on_launch(acc_prof_info *info, acc_event_info *event, acc_api_info *api)
{
    (void)api;
    CHECK(info->event_type == acc_ev_compute_construct_start);
    CHECK_EQ(event->other_event.parent_construct, acc_construct_parallel);
    launches++;
}

int main(void)
{
    static int a[100];
    /* Where GCC's header and its programs have them. */
    CHECK_EQ(sizeof(acc_callback_info), 72);
    CHECK_EQ(offsetof(acc_prof_info, async), 24);
    CHECK_EQ(offsetof(acc_prof_info, func_end_line_no), 68);
    CHECK_EQ(sizeof(acc_event_info), 56);
    CHECK_EQ(offsetof(acc_data_event_info, device_ptr), 48);
    CHECK_EQ(offsetof(acc_launch_event_info, vector_length), 48);
    CHECK_EQ(sizeof(acc_other_event_info), 24);
    CHECK_EQ(sizeof(acc_api_info), 40);
    CHECK_EQ(acc_ev_wait_end, 25);
    CHECK_EQ(acc_construct_serial, 16);

    acc_callback_register(acc_ev_enter_data_start, on_event, acc_reg);
    acc_callback_register(acc_ev_enter_data_end, on_event, acc_reg);
    acc_prof_register(acc_ev_compute_construct_start, on_launch, acc_reg);
#pragma acc enter data copyin(a)
#pragma acc parallel loop present(a)
    for (int i = 0; i < 100; i++)
        a[i] = i;
#pragma acc exit data copyout(a)
    CHECK(starts >= 1); /* regions enter data, too */
    CHECK_EQ(ends, starts);
    CHECK_EQ(launches, 1);
    CHECK_EQ(a[99], 99);
    acc_callback_unregister(acc_ev_enter_data_start, on_event, acc_reg);
    acc_callback_unregister(acc_ev_enter_data_end, on_event, acc_reg);
    acc_prof_unregister(acc_ev_compute_construct_start, on_launch, acc_reg);
#pragma acc parallel loop copy(a)
    for (int i = 0; i < 100; i++)
        a[i] = i;
    CHECK_EQ(launches, 1);
    CHECK(acc_prof_lookup("acc_no_such_function") == NULL);
    return pass();
}
