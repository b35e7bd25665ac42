// Does what each line of its input says, and says "done N" after the Nth: "compute" on every device, with copies from each to
// the next; "use D" of device D; "shutdown" of all devices.
#include "check.h"

enum { N = 100000 };
static int a[N];

static void compute(int step)
{
    acc_device_t type = device_type();
    int devices = acc_get_num_devices(type);
    for (int d = 0; d < devices; d++) {
        acc_set_device_num(d, type);
        for (int i = 0; i < N; i++)
            a[i] = step + d;
#pragma acc enter data copyin(a)
    }
    for (int d = 0; d < devices; d++) {
        int next = (d + 1) % devices;
        acc_set_device_num(d, type);
#pragma acc parallel loop present(a)
        for (int i = 0; i < N; i++)
            a[i] *= 2;
        if (devices > 1)
            acc_memcpy_d2d(a, a, sizeof a / 2, next, d);
    }
    for (int d = 0; d < devices; d++) {
        acc_set_device_num(d, type);
#pragma acc exit data copyout(a)
        // The first half has come all the way from the first device, doubled on each.
        int half = 0;
        for (int by = 0; by <= d; by++)
            half = by == 0 ? 2 * step : 2 * half;
        CHECK_EQ(a[0], d == 0 && devices > 1 ? (2 * step) << (devices - 1) : half);
        CHECK_EQ(a[N - 1], 2 * (step + d));
    }
}

static void use(int device, int step)
{
    acc_set_device_num(device, device_type());
    for (int i = 0; i < N; i++)
        a[i] = step;
#pragma acc parallel loop copy(a)
    for (int i = 0; i < N; i++)
        a[i] += device;
    CHECK_EQ(a[N - 1], step + device);
}

int main(void)
{
    char line[100];
    for (int step = 1; fgets(line, sizeof line, stdin); step++) {
        if (!strncmp(line, "compute", 7))
            compute(step);
        else if (!strncmp(line, "use ", 4))
            use(atoi(line + 4), step);
        else
            acc_shutdown(device_type());
        printf("done %d\n", step);
        fflush(stdout);
    }
    return pass();
}
