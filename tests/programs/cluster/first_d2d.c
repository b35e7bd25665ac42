// Copies between two devices for the first time when its input ends, `first_d2d FROM TO`; says "ready" before. `first_d2d FROM TO TIMES` goes on copying.
#include "check.h"
#include <unistd.h>

enum { N = 1 << 22 };
static int a[N];

int main(int argc, char **argv)
{
    CHECK(argc == 3 || argc == 4);
    acc_device_t type = device_type();
    int from = atoi(argv[1]), to = atoi(argv[2]);
    acc_set_device_num(to, type);
#pragma acc enter data copyin(a)
    // All that it was told to do is done then; so it is below.
#pragma acc update self(a)
    acc_set_device_num(from, type);
    for (int i = 0; i < N; i++)
        a[i] = i;
#pragma acc enter data copyin(a)
#pragma acc update self(a)
    printf("ready\n");
    fflush(stdout);
    char byte;
    CHECK(read(0, &byte, 1) == 0);
    for (int times = argc == 4 ? atoi(argv[3]) : 1; times > 0; times--)
        acc_memcpy_d2d(a, a, sizeof a, to, from);
    memset(a, 0, sizeof a);
    acc_set_device_num(to, type);
#pragma acc update self(a)
    for (int i = 0; i < N; i++)
        CHECK_EQ(a[i], i);
    printf("PASS\n");
    return 0;
}
