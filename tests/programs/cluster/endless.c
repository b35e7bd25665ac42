// Does one thing on a device for ever: `endless launch|copy|d2d|idle DEVICE [OTHER]`. Says "ready" once it works.
#include "check.h"
#include <time.h>
#include <unistd.h>

enum { N = 1 << 20 };
static int a[N], b[N];

// Faults hit rounds that follow each other at once. Where a test waits for seconds, the processor is left to others.
static void end_round(long round)
{
    static time_t ready;
    if (round == 3) {
        printf("ready\n");
        fflush(stdout);
        ready = time(NULL);
    } else if (round > 3 && time(NULL) - ready > 2) {
        usleep(10 * 1000);
    }
}

static void launches(void)
{
#pragma acc enter data create(a)
    for (long round = 0;; round++) {
#pragma acc parallel loop present(a) async(1)
        for (int i = 0; i < N; i++)
            a[i] += 1;
#pragma acc wait(1)
        end_round(round);
    }
}

static void copies(void)
{
#pragma acc enter data create(a)
    for (long round = 0;; round++) {
#pragma acc update device(a) async(1)
#pragma acc update self(a) async(1)
#pragma acc wait(1)
        end_round(round);
    }
}

static void exchanges(int from, int to)
{
    acc_device_t type = device_type();
    acc_set_device_num(from, type);
#pragma acc enter data copyin(a)
    acc_set_device_num(to, type);
#pragma acc enter data create(a)
    for (long round = 0;; round++) {
        acc_memcpy_d2d(a, a, sizeof a, to, from);
        end_round(round);
    }
}

static void idle(void)
{
#pragma acc enter data create(a, b)
#pragma acc parallel present(a)
    a[0] = 1;
    end_round(3);
    for (;;)
        pause();
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    int device = atoi(argv[2]);
    acc_set_device_num(device, device_type());
    if (!strcmp(argv[1], "launch"))
        launches();
    else if (!strcmp(argv[1], "copy"))
        copies();
    else if (!strcmp(argv[1], "d2d") && argc > 3)
        exchanges(device, atoi(argv[3]));
    else if (!strcmp(argv[1], "idle"))
        idle();
    return 2;
}
