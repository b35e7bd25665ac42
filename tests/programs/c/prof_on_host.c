// Profiling events of constructs whose condition sends them to the host name the host as their device, ends too (5.1).
#include "prof_record.h"

int main(void)
{
    enum { N = 100 };
    static int a[N];
    volatile int no = 0;
    acc_init(acc_get_device_type());
    record_all();
#pragma acc enter data copyin(a) if (no)
#pragma acc data copy(a) if (no)
    {
#pragma acc update device(a) if (no)
#pragma acc parallel loop if (no)
        for (int i = 0; i < N; i++)
            a[i] = i;
    }
#pragma acc exit data copyout(a) if (no)
    record_no_more();
    CHECK_EQ(a[7], 7);
    CHECK_EQ(depth, 0);
    CHECK_EQ(count(acc_ev_compute_construct_start), 1);
    CHECK_EQ(count(acc_ev_update_start), 1);
    CHECK_EQ(count(acc_ev_enter_data_end), 2);
    CHECK_EQ(count(acc_ev_exit_data_end), 2);
    for (int i = 0; i < told; i++)
        CHECK_EQ(story[i].prof.device_type, acc_device_host);
    return pass();
}
