// Holds memory of its device, and has the device busy until its input ends.
#include "check.h"
#include <poll.h>

enum { N = 1 << 18 };
static int a[N];

int main(void)
{
    struct pollfd input = { .fd = 0, .events = POLLIN };
#pragma acc enter data copyin(a)
    printf("has %d\n", acc_get_num_devices(device_type()));
    fflush(stdout);
    long rounds = 0;
    for (; poll(&input, 1, 0) == 0; rounds++) {
#pragma acc parallel loop present(a)
        for (int i = 0; i < N; i++)
            for (int k = 0; k < 50; k++)
                a[i] = a[i] * 3 + k;
    }
#pragma acc exit data copyout(a)
    CHECK(rounds > 0);
    return pass();
}
