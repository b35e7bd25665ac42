// A queue of the last device, with more launches than the device has room for, stands at a copy in whose bytes have to be
// asked for, behind a region that takes its time. Copies in of other queues are put in after all that, and are on their way
// before anybody can take them.
#include "check.h"

enum { N = 8 << 20, LAUNCHES = 20000, SMALL = 8 << 10 };
static unsigned char late[N], large[2][N], small[2][SMALL];
static int x[2];

int main(void)
{
    acc_device_t type = device_type();
    acc_set_device_num(acc_get_num_devices(type) - 1, type);
#pragma acc enter data create(late, large, small) copyin(x)
    /* Queues are made, and regions found, where they are used first. */
    for (int queue = 1; queue < 6; queue++) {
#pragma acc parallel present(x) async(queue) num_gangs(1)
        x[1] = 0;
    }
#pragma acc wait
    memset(late, 1, N);
    memset(large, 2, sizeof large);
    memset(small, 3, sizeof small);
#pragma acc parallel present(x) async(1) num_gangs(1)
    {
        volatile double sum = 0;
        for (long i = 0; i < 1500000000L; i++)
            sum += (double)i;
        x[1] = sum > 0;
    }
#pragma acc update device(late) async(1)
    for (int i = 0; i < LAUNCHES; i++) {
#pragma acc parallel present(x) async(1) num_gangs(1)
        x[0] += 1;
    }
#pragma acc update device(small[0:1]) async(2)
#pragma acc update device(small[1:1]) async(3)
#pragma acc update device(large[0:1]) async(4)
#pragma acc update device(large[1:1]) async(5)
#pragma acc wait
    memset(late, 0, N);
    memset(large, 0, sizeof large);
    memset(small, 0, sizeof small);
#pragma acc update self(late, large, small, x)
    CHECK_EQ(x[0], LAUNCHES);
    CHECK_EQ(x[1], 1);
    CHECK_ALL(late, N, 1);
    CHECK_ALL(large[0], N, 2);
    CHECK_ALL(large[1], N, 2);
    CHECK_ALL(small[0], SMALL, 3);
    CHECK_ALL(small[1], SMALL, 3);
    printf("PASS\n");
    return 0;
}
