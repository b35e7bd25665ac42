// A wait for several queues is told for each of them; waits of queues for each other are not the host's (5.1.10).
#include "prof_record.h"

int main(void)
{
    enum { N = 100 };
    int a[N], b[N];
    int is_separate = separate();
#pragma acc data create(a, b)
    {
#pragma acc parallel loop async(1)
        for (int i = 0; i < N; i++)
            a[i] = i;
#pragma acc parallel loop async(2)
        for (int i = 0; i < N; i++)
            b[i] = i;
        record_all();
#pragma acc wait(1, 2)
        record_no_more();
        CHECK_EQ(count(acc_ev_wait_start), is_separate ? 2 : count(acc_ev_wait_end));
        if (is_separate) {
            // In any order.
            int first = find(acc_ev_wait_start, 0)->prof.async_queue;
            CHECK(first == 1 || first == 2);
            CHECK_EQ(find(acc_ev_wait_end, 0)->prof.async_queue, first);
            CHECK_EQ(find(acc_ev_wait_start, 1)->prof.async_queue, 3 - first);
            CHECK_EQ(find(acc_ev_wait_start, 1)->event.other_event.parent_construct, acc_construct_wait);
        }
        told = 0;
#pragma acc parallel loop async(1)
        for (int i = 0; i < N; i++)
            a[i] = i;
        record_all();
        acc_wait_async(1, 2);
        record_no_more();
        if (is_separate)
            CHECK_EQ(told, 0);
        told = 0;
        record_all();
        acc_wait(2);
        record_no_more();
        if (is_separate) {
            CHECK_EQ(count(acc_ev_wait_start), 1);
            CHECK_EQ(find(acc_ev_wait_start, 0)->prof.async_queue, 2);
            CHECK_EQ(find(acc_ev_wait_start, 0)->event.other_event.parent_construct, acc_construct_runtime_api);
            CHECK_EQ(find(acc_ev_wait_start, 0)->event.other_event.implicit, 0);
        }
    }
    acc_wait_all();
    return pass();
}
