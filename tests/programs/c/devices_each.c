// Every device has its own memory, queues and present table (2.3, 3.2.1 to 3.2.5).
// BUILD core
#include "check.h"

int main(void)
{
    enum { N = 100 };
    static int a[N];
    acc_device_t type = device_type();
    int n = device_count();
    for (int i = 0; i < N; i++)
        a[i] = i;
    for (int d = 0; d < n; d++) {
        acc_set_device_num(d, type);
        CHECK_EQ(acc_is_present(a, sizeof a), WANT(0, 1));
#pragma acc enter data copyin(a)
#pragma acc parallel loop present(a) async(d)
        for (int i = 0; i < N; i++)
            a[i] += 1000 * (d + 1);
    }
    for (int d = n - 1; d >= 0; d--) {
        acc_set_device_num(d, type);
        CHECK_EQ(acc_is_present(a, sizeof a), 1);
#pragma acc wait
#pragma acc exit data copyout(a)
        if (separate())
            for (int i = 0; i < N; i++)
                CHECK_EQ(a[i], i + 1000 * (d + 1));
        CHECK_EQ(acc_is_present(a, sizeof a), WANT(0, 1));
    }
    return pass();
}
